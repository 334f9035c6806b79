"""Any Optuna sampler, made private: CMA-ES sees one noisy mean loss per trial, and nothing else."""

import sys
from pathlib import Path

import optuna
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

import dptune
from dptune_optuna import PrivateObjective

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
X, y = load_diabetes(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y / 100, train_size=142, random_state=0)

budget = dptune.Budget.approximate_dp(epsilon=4.0, delta=1e-5)
ledger = dptune.PrivacyLedger(folder / "diabetes.db", budget, dataset="diabetes", unit="one patient")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 2.0))


def boosting(trial):
    rate = trial.suggest_float("learning_rate", 1e-3, 1.0, log=True)
    leaves = trial.suggest_int("max_leaf_nodes", 2, 64, log=True)
    model = HistGradientBoostingRegressor(learning_rate=rate, max_leaf_nodes=leaves, max_iter=30)
    return model.fit(X_train, y_train)


objective = PrivateObjective(boosting, privatizer, n_trials=20, loss="absolute_error", data=(X_val, y_val))
study = optuna.create_study(sampler=optuna.samplers.CmaEsSampler(seed=0))
study.optimize(objective, n_trials=20)
best = objective.recommend(study)
print(best, objective.estimate(study, best), ledger.statement(delta=1e-5), sep="\n")
