"""Tune an SVM by DP-GIBO: one released gradient a batch, and a noisy value for every trial."""

import sys

import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
from dptune_optuna import DPGIBOSampler

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_breast_cancer(return_X_y=True)  # 569 patients: 169 to train on, 400 private ones to validate on
X_train, X_val, y_train, y_val = train_test_split(X, y, train_size=169, random_state=0)
scaler = StandardScaler().fit(X_train)

ledger = dptune.PrivacyLedger(f"{folder}/gibo.db", dptune.Budget.gdp(mu=1.0), unit="one patient")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
ranges = {"C": (1e-3, 1e3), "gamma": (1e-5, 1e1), "weight": (0.1, 10.0)}
space = {name: optuna.distributions.FloatDistribution(*pair, log=True) for name, pair in ranges.items()}
sampler = DPGIBOSampler(privatizer, space, n_trials=100)


@sampler.objective(loss="hinge", data=(scaler.transform(X_val), y_val))
def svm(trial):
    p = {name: trial.suggest_float(name, *pair, log=True) for name, pair in ranges.items()}
    return SVC(C=p["C"], gamma=p["gamma"], class_weight={0: p["weight"]}).fit(scaler.transform(X_train), y_train)


optuna.logging.set_verbosity(optuna.logging.WARNING)
storage = f"sqlite:///{folder}/gibo_study.db"
study = optuna.create_study(storage=storage, study_name="svm", sampler=sampler, load_if_exists=True)
study.optimize(svm, n_trials=sampler.n_trials)
best = sampler.recommend(study)
print("Best parameters:", best)
print("Private estimate of their loss:", svm.estimate(study, best))
print(ledger.statement(delta=1e-5))
