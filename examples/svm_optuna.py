"""Tune an SVM on a private validation set; kill it half-way and run it again: study and budget go on."""

import sys

import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
from dptune_optuna import CentredSampler

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_breast_cancer(return_X_y=True)  # 569 patients: 169 to train on, 400 private ones to validate on
X_train, X_val, y_train, y_val = train_test_split(X, y, train_size=169, random_state=0)

ledger = dptune.PrivacyLedger(f"{folder}/ledger.db", dptune.Budget.gdp(mu=1.0), dataset="tumours", unit="one patient")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
ranges = {"C": (1e-3, 1e3), "gamma": (1e-5, 1e1), "weight": (0.1, 10.0)}
space = {name: optuna.distributions.FloatDistribution(*pair, log=True) for name, pair in ranges.items()}
usual = {"C": 1.0, "gamma": 1 / 30, "weight": 1.0}  # scikit-learn's defaults: tried first, and compared with
sampler = CentredSampler(privatizer, space, n_trials=100, default=usual)


@sampler.objective(loss="hinge", data=(X_val, y_val))
def svm(trial):
    C, gamma, weight = (trial.suggest_float(name, *pair, log=True) for name, pair in ranges.items())
    return make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma, class_weight={0: weight})).fit(X_train, y_train)


optuna.logging.get_logger("optuna.study").setLevel("WARNING")  # no line for each trial: the progress bar instead
where = {"storage": f"sqlite:///{folder}/study.db", "study_name": "svm", "load_if_exists": True}
study = optuna.create_study(sampler=sampler, **where)
study.optimize(svm, n_trials=sampler.n_trials, show_progress_bar=True)
best = sampler.recommend(study)
print("Best parameters:", best, best.summary(), sep="\n")
print("Private estimate of their loss:", svm.estimate(study, best))
print(ledger.statement(delta=1e-5))
