"""Tune a support vector machine on a private validation set: swap the sampler, keep your training code."""

import sys
from pathlib import Path

import optuna
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
from dptune_optuna import DPGIBOSampler

X, y = load_breast_cancer(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y, train_size=169, stratify=y, random_state=0)

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
ledger = dptune.PrivacyLedger(folder / "svm.db", dptune.Budget.gdp(mu=1.0), dataset="breast cancer validation")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
space = {
    "C": optuna.distributions.FloatDistribution(1e-3, 1e3, log=True),
    "gamma": optuna.distributions.FloatDistribution(1e-4, 1e1, log=True),
    "malignant_weight": optuna.distributions.FloatDistribution(0.1, 10, log=True),
}
sampler = DPGIBOSampler(space, privatizer, n_trials=80)


@sampler.objective(loss="hinge", data=(X_val, y_val))
def svm(trial):
    weight = {0: trial.suggest_float("malignant_weight", 0.1, 10, log=True), 1: 1.0}
    C, gamma = trial.suggest_float("C", 1e-3, 1e3, log=True), trial.suggest_float("gamma", 1e-4, 1e1, log=True)
    return make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma, class_weight=weight)).fit(X_train, y_train)


study = optuna.create_study(
    storage=f"sqlite:///{folder}/study.db", study_name="svm", sampler=sampler, load_if_exists=True
)
study.optimize(svm, n_trials=sampler.n_trials)
best = sampler.recommend(study)
estimate = svm.estimate(study, best)
print(best, estimate.value, estimate.interval(0.95), ledger.statement(delta=1e-5), sep="\n")
