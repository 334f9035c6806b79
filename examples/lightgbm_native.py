"""Tune LightGBM's own boosters in Optuna, stopped early on public rows that are carved from the training rows."""

import sys

import lightgbm
import optuna
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import dptune
from dptune.losses.models import BoosterModel
from dptune_optuna import CentredSampler

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_digits(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y >= 5, train_size=500, random_state=0)
X_fit, X_stop, y_fit, y_stop = train_test_split(X_train, y_train, test_size=0.2, random_state=0)  # all public

ledger = dptune.PrivacyLedger(f"{folder}/lightgbm_native.db", dptune.Budget.gdp(mu=1.0), unit="one image")
sampler = CentredSampler(dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 2.0)), n_trials=30)


@sampler.objective(loss="log_loss", data=(X_val, y_val))
def booster(trial):
    settings = {"objective": "binary", "verbosity": -1, "num_threads": 1}
    settings["learning_rate"] = trial.suggest_float("learning_rate", 0.03, 1.0, log=True)
    settings["num_leaves"] = trial.suggest_int("num_leaves", 4, 64)
    settings["boosting"] = trial.suggest_categorical("boosting", ["gbdt", "goss"])
    stop = lightgbm.Dataset(X_stop, y_stop)
    stopping = [lightgbm.early_stopping(5, verbose=False)]
    trained = lightgbm.train(settings, lightgbm.Dataset(X_fit, y_fit), 60, valid_sets=[stop], callbacks=stopping)
    return BoosterModel(trained, labels=[False, True])


study = optuna.create_study(sampler=sampler, study_name="lightgbm_native")
study.optimize(booster, n_trials=30)
print(sampler.recommend(study), ledger.statement(delta=1e-5), sep="\n")
