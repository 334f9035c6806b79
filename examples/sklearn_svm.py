"""RandomizedSearchCV on public patients proposes an SVM, private patients decide; a rerun returns the same answer."""

import sys

from scipy.stats import loguniform
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import RandomizedSearchCV, train_test_split
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
svm = make_pipeline(StandardScaler(), SVC(gamma=1 / 30))  # what the answer is compared with
public = RandomizedSearchCV(svm, space, n_iter=60, random_state=0)
search = PrivateSearch(public, ledger=ledger, loss="hinge", verbose=1)
search.fit(X_train, y_train, X_val=X_val, y_val=y_val)
print("Best parameters:", search.best_params_, search.summary(), sep="\n")
print(search.statement(delta=1e-5))
