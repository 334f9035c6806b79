"""Tune an SVM by DP-GIBO in Ray Tune: losses go to a vault, and Tune sees released values only."""

import sys
from pathlib import Path

from ray import tune
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
from dptune_ray import DPGIBOSearch


def patients():  # 569 patients: 169 to train on, 400 private ones to validate on
    return train_test_split(*load_breast_cancer(return_X_y=True), train_size=169, random_state=0)


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
ledger = dptune.PrivacyLedger(folder / "gibo_ray.db", dptune.Budget.gdp(mu=1.0), dataset="tumours", unit="one patient")
privatizer = dptune.LossPrivatizer(ledger, n=400, clip=(0.0, 3.0))
space = {"C": tune.loguniform(1e-3, 1e3), "gamma": tune.loguniform(1e-5, 1e1)}
search = DPGIBOSearch(privatizer, space, name="svm", n_trials=36)


@search.trainable(loss="hinge", data=lambda: patients()[1::2])  # loaded where the trial runs, never sent
def svm(config):
    X_train, _, y_train, _ = patients()
    return make_pipeline(StandardScaler(), SVC(C=config["C"], gamma=config["gamma"])).fit(X_train, y_train)


tuning = tune.TuneConfig(metric="loss", mode="min", search_alg=search, num_samples=search.n_trials, reuse_actors=True)
storage = tune.RunConfig(name="svm", storage_path=str(folder), verbose=0)
tune.Tuner(svm, param_space=space, tune_config=tuning, run_config=storage).fit()
best = search.recommend()
print("Best parameters:", best)
print("Private estimate of their loss:", search.estimate(svm, best))
print(ledger.statement(delta=1e-5))
