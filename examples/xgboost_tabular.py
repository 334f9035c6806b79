"""Tune XGBoost, stopped early on public rows: on private ones every round would show an exact loss."""

import sys

from scipy.stats import loguniform, randint, uniform
from sklearn.datasets import load_digits
from sklearn.model_selection import RandomizedSearchCV, train_test_split
from xgboost import XGBClassifier

import dptune
from dptune_sklearn import PrivateSearch, StopsEarly

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_digits(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y >= 5, train_size=500, random_state=0)

ledger = dptune.PrivacyLedger(f"{folder}/xgboost_tabular.db", dptune.Budget.gdp(mu=1.0), unit="one image")
usual = {"learning_rate": 0.3, "max_depth": 6, "min_child_weight": 1, "subsample": 1.0, "grow_policy": "depthwise"}
booster = XGBClassifier(n_estimators=60, early_stopping_rounds=5, n_jobs=1, **usual)  # compared with
space = {
    "estimator__learning_rate": loguniform(0.03, 1.0),
    "estimator__max_depth": randint(2, 8),
    "estimator__min_child_weight": loguniform(0.1, 30.0),
    "estimator__subsample": uniform(0.4, 0.6),
    "estimator__grow_policy": ["depthwise", "lossguide"],
}
public = RandomizedSearchCV(StopsEarly(booster), space, n_iter=40, n_jobs=2)
search = PrivateSearch(public, ledger=ledger, loss="log_loss")
search.fit(X_train, y_train, X_val=X_val, y_val=y_val, verbose=False)
print("Best parameters:", search.best_params_, search.summary(), sep="\n")
print(search.statement(delta=1e-5))
