"""A Tune experiment on public patients proposes an SVM; private patients choose once, and one release reports on it."""

import sys
from pathlib import Path

import numpy as np
from ray import tune
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
import dptune_ray

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
X, y = load_breast_cancer(return_X_y=True)  # 569 patients: 169 public, 400 private
X, X_val, y, y_val = train_test_split(X, y, train_size=169, random_state=0)


def train(config, X, y):
    return make_pipeline(StandardScaler(), SVC(**config)).fit(X, y)


def trainable(config, X=X, y=y):  # public rows only: any searcher and scheduler
    tune.report({"accuracy": np.mean(cross_val_score(make_pipeline(StandardScaler(), SVC(**config)), X, y))})


space = {"C": tune.loguniform(1e-3, 1e3), "gamma": tune.loguniform(1e-5, 1e1)}
tuning = tune.TuneConfig(metric="accuracy", mode="max", num_samples=40, reuse_actors=True)
stored = tune.RunConfig(name="svm", storage_path=str(folder), verbose=0)
results = tune.Tuner(trainable, param_space=space, tune_config=tuning, run_config=stored).fit()

budget = dptune.Budget.approximate_dp(epsilon=4, delta=1e-5)
ledger = dptune.PrivacyLedger(folder / "choose_ray.db", budget, unit="one patient")
people, usual = {"data": (X_val, y_val), "public": (X, y)}, {"C": 1.0, "gamma": 1 / 30}
choice = dptune_ray.choose(results, train, **people, loss="hinge", ledger=ledger, default=usual, report_share=0.36)
report = dptune.report(choice.model, ledger, **people)
print(choice.summary(), report.to_markdown(), ledger.statement(), sep="\n\n")
