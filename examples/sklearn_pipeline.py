"""Kinds of models behind a ColumnTransformer, on a frame with text and gaps, several visits a patient: one choice."""

import sys

import numpy as np
import pandas as pd
from scipy.stats import loguniform, randint
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dptune
from dptune_sklearn import PrivateSearch

folder, rng = sys.argv[1] if len(sys.argv) > 1 else ".", np.random.default_rng(0)
visits = pd.DataFrame(rng.normal([50, 120], [15, 20], size=(1500, 2)), columns=["age", "pressure"])
visits["ward"] = rng.choice(["surgery", "heart", "eyes"], len(visits))
patient = np.repeat([f"patient {i}" for i in range(500)], 3)
sick = visits.pressure + 20 * (visits.ward == "heart") + rng.normal(0, 15, len(visits)) > 145
visits.loc[rng.random(len(visits)) < 0.1, "age"] = np.nan
visits.loc[rng.random(len(visits)) < 0.1, "ward"] = None

numbers = make_pipeline(SimpleImputer(), StandardScaler())
text = make_pipeline(SimpleImputer(strategy="constant", fill_value="unknown"), OneHotEncoder(handle_unknown="ignore"))
columns = make_column_transformer((numbers, ["age", "pressure"]), (text, make_column_selector(dtype_exclude="number")))
weights = {"model__class_weight": [None, "balanced"]}
spaces = [
    {"model": [LogisticRegression()], "model__C": loguniform(1e-3, 1e2), **weights},
    {"model": [RandomForestClassifier(50, random_state=0)], "model__max_depth": randint(2, 9), **weights},
]
ledger = dptune.PrivacyLedger(f"{folder}/sklearn_pipeline.db", dptune.Budget.gdp(mu=1.0), unit="one patient")
model = Pipeline([("columns", columns), ("model", LogisticRegression())])
val = np.isin(patient, rng.choice(np.unique(patient), 300, replace=False))  # of a file: before pandas reads it
public = RandomizedSearchCV(model, spaces, n_iter=40, cv=GroupKFold(5))
search = PrivateSearch(public, ledger=ledger, loss="log_loss")
groups = {"groups": patient[val], "train_groups": patient[~val]}
search.fit(visits[~val], sick[~val], X_val=visits[val], y_val=sick[val], **groups)
print(search.best_params_, search.summary(), search.statement(delta=1e-5), sep="\n")
