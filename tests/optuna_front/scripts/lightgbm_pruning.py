"""LightGBM's own training function, with trials that Optuna prunes."""

import lightgbm as lgb
import optuna
from optuna_integration.lightgbm import LightGBMPruningCallback
from people import X_private, y_private  # +
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

import dptune  # +
import dptune_optuna  # +

X, y = load_breast_cancer(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X[:200], y[:200], test_size=0.25, random_state=0)


def objective(trial):
    dtrain = lgb.Dataset(X_train, label=y_train)
    dvalid = lgb.Dataset(X_valid, label=y_valid)
    params = {
        "objective": "binary",
        "metric": "auc",
        "verbosity": -1,
        "learning_rate": trial.suggest_float("learning_rate", 1e-3, 0.3, log=True),
        "num_leaves": trial.suggest_int("num_leaves", 2, 64),
        "min_child_samples": trial.suggest_int("min_child_samples", 5, 50),
    }
    pruning = LightGBMPruningCallback(trial, "auc")
    booster = lgb.train(params, dtrain, num_boost_round=30, valid_sets=[dvalid], callbacks=[pruning])
    dptune_optuna.candidate(trial, booster, held_out=(X_valid, y_valid))  # +
    return accuracy_score(y_valid, booster.predict(X_valid) > 0.5)


if __name__ == "__main__":
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=5)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    study.optimize(objective, n_trials=12)
    print(study.best_params)
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(mu=1.0))  # +
    print(dptune_optuna.choose(study, objective, ledger=ledger, loss="log_loss", data=(X_private, y_private)))  # +
