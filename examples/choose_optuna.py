"""An Optuna search on public tumours; then 400 private patients choose once, and one release reports on the model."""

import sys

import numpy as np
import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
import dptune_optuna

folder = sys.argv[1] if len(sys.argv) > 1 else "."
print("Public rows: a screening programme's, mostly benign. Private people: a hospital's. Expect them to differ.")
(X, y), rng = load_breast_cancer(return_X_y=True), np.random.default_rng(0)  # 569 tumours; 1 is benign
public = rng.choice(np.argsort(X[:, 0] + 2 * rng.standard_normal(len(y)))[:330], 100, replace=False)  # small ones
private = rng.permutation(np.setdiff1d(np.arange(len(y)), public))[:400]  # the hospital's patients
X_val, y_val, X, y, usual = X[private], y[private], X[public], y[public], {"C": 1.0, "gamma": 1 / 30}


def objective(trial):  # public rows only: any sampler, pruner, storage or dashboard works as ever
    C, gamma = trial.suggest_float("C", 1e-3, 1e3, log=True), trial.suggest_float("gamma", 1e-5, 10, log=True)
    model = make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma))
    dptune_optuna.candidate(trial, model, rows=(X, y))  # the one line to add
    return cross_val_score(model, X, y).mean()


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=60, show_progress_bar=True)
optuna.logging.set_verbosity(optuna.logging.INFO)  # the plan, before anything is charged
budget, kind = dptune.Budget.approximate_dp(epsilon=4, delta=1e-5), {"dataset": "tumours", "unit": "one patient"}
ledger = dptune.PrivacyLedger(f"{folder}/choose_optuna.db", budget, **kind)
about = {"data": (X_val, y_val), "ledger": ledger}
choice = dptune_optuna.choose(study, objective, **about, loss="hinge", default=usual, report_share=0.36)
report = dptune.report(choice.model, **about, public=(X, y))
print(choice.summary(), report.to_markdown(), ledger.statement(), sep="\n\n")
