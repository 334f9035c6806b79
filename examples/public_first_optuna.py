"""An ordinary Optuna search on public tumours; then 400 private patients choose once, and say how much better it is."""

import sys

import numpy as np
import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
import dptune_optuna

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_breast_cancer(return_X_y=True)  # 569 tumours; 1 is benign
rng = np.random.default_rng(0)
order = np.argsort(X[:, 0] + 2 * rng.standard_normal(len(y)))
smaller = order[:330]  # whom a screening programme sees: most are benign
public = rng.choice(smaller, 100, replace=False)
private = rng.permutation(np.setdiff1d(np.arange(len(y)), public))[:400]  # patients of a hospital
X_train, y_train, X_val, y_val = X[public], y[public], X[private], y[private]


def train(trial, X, y):
    C, gamma = trial.suggest_float("C", 1e-3, 1e3, log=True), trial.suggest_float("gamma", 1e-5, 10, log=True)
    return make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma)).fit(X, y)


def objective(trial):  # public rows only: any sampler, pruner, storage or dashboard works as ever
    folds = KFold(5, shuffle=True, random_state=0).split(X_train)
    return np.mean([train(trial, X_train[a], y_train[a]).score(X_train[b], y_train[b]) for a, b in folds])


print("Public rows: 100 tumours of a screening programme, small and mostly benign.")
print("Private people: 400 patients of a hospital, with larger tumours. Expect a note that the populations differ.")
optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(direction="maximize")
study.enqueue_trial({"C": 1.0, "gamma": 1 / 30})  # scikit-learn's defaults
study.optimize(objective, n_trials=60, show_progress_bar=True)
print("Best public accuracy by cross-validation:", round(study.best_value, 3))

optuna.logging.set_verbosity(optuna.logging.INFO)  # five lines, before anything is charged
budget = dptune.Budget.approximate_dp(epsilon=4, delta=1e-5)
ledger = dptune.PrivacyLedger(f"{folder}/public_first.db", budget, dataset="tumours", unit="one patient")
usual = {"C": 1.0, "gamma": 1 / 30}
choice = dptune_optuna.choose(
    study, train, data=(X_val, y_val), loss="hinge", ledger=ledger, public=(X_train, y_train), default=usual
)  # fmt: skip
print(choice.summary(), choice.params, ledger.statement(), sep="\n\n")
if choice.selection.improvement is not None and choice.selection.improvement.surprising:
    print("\nThe note is a finding: the hospital's patients differ from the screening programme's.")
