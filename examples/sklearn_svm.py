"""Tune an SVM on private patients as with RandomizedSearchCV; run it again: the same answer, for nothing."""

import sys

from scipy.stats import loguniform
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
from dptune_sklearn import PrivateSearch

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_breast_cancer(return_X_y=True)  # 569 patients: 169 to train on, 400 private ones to validate on
X_train, X_val, y_train, y_val = train_test_split(X, y, train_size=169, random_state=0)

ledger = dptune.PrivacyLedger(f"{folder}/sklearn_svm.db", dptune.Budget.gdp(mu=1.0), unit="one patient")
space = {"svc__C": loguniform(1e-3, 1e3), "svc__gamma": loguniform(1e-5, 1e1)}
svm = make_pipeline(StandardScaler(), SVC(gamma=1 / 30))  # its own parameters are tried first, and compared with
search = PrivateSearch(svm, space, ledger=ledger, loss="hinge", clip=(0.0, 3.0), n_trials=60)
search.fit(X_train, y_train, X_val=X_val, y_val=y_val)
print("Best parameters:", search.best_params_, search.best_params_.summary(), sep="\n")
print("Private estimate of their loss:", search.best_loss_)
print(search.statement(delta=1e-5))
