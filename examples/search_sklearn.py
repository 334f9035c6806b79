"""RandomizedSearchCV on public patients proposes an SVM; private patients choose once, and a release reports on it."""

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
X, y = load_breast_cancer(return_X_y=True)  # 569 patients: 169 public, 400 private
X, X_val, y, y_val = train_test_split(X, y, train_size=169, random_state=0)
people = {"X_val": X_val, "y_val": y_val}

space = {"svc__C": loguniform(1e-3, 1e3), "svc__gamma": loguniform(1e-5, 1e1)}
svm = make_pipeline(StandardScaler(), SVC(gamma=1 / 30))  # what the answer is compared with
public = RandomizedSearchCV(svm, space, n_iter=60, random_state=0)  # your own search, unchanged
budget = dptune.Budget.approximate_dp(epsilon=4, delta=1e-5)
search = PrivateSearch(public, ledger=f"{folder}/search_sklearn.db", budget=budget, loss="hinge", report_share=0.36)
print(search.plan(X, y, n=len(y_val)))  # nothing is charged
search.fit(X, y, **people)
report = search.report(X, y, **people)
print(search.summary(), report.to_markdown(), search.statement(), sep="\n\n")
