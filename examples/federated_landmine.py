"""29 landmine fields tune their detectors together: each keeps its data, a trusted server adds the noise."""

import os
import sys

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from scipy.io import loadmat
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import dptune
from dptune_optuna import DPFTSSampler

folder, data = sys.argv[1] if len(sys.argv) > 1 else ".", os.environ.get("DPTUNE_DATA", "../shared/data")
if os.path.exists(f"{data}/LandmineData.mat"):
    fields = list(zip(*(loadmat(f"{data}/LandmineData.mat")[name][0] for name in ("feature", "label")), strict=True))
else:  # made-up fields: mines are where the first two features agree, shifted a little from field to field
    draws = [(rng.normal(size=(300, 9)), rng.normal(0, 0.3)) for rng in map(np.random.default_rng, range(29))]
    fields = [(X, (X[:, 0] * X[:, 1] > 1 + shift).astype(int)) for X, shift in draws]
space = {"C": FloatDistribution(1e-4, 10.0), "gamma": FloatDistribution(1e-2, 10.0)}
settings = dptune.federated.FTSSettings(agents=29, d=2, initial=5)  # the same for agents and server
plan = dptune.ledger.SubsampledGaussian(
    q=1.0, z=1.0, steps=3
)  # before anything is seen: 3 noisy vectors, from everybody
ledger = dptune.ledger.PlanLedger(f"{folder}/federated.db", plan, n=29, dataset="landmine fields", unit="one field")
transport, studies = dptune.federated.InProcess(dptune.federated.FTSServer(ledger, settings), timeout=600.0), []
optuna.logging.set_verbosity(optuna.logging.WARNING)
for agent, (X, y) in enumerate(fields):
    halves = train_test_split(X, y.ravel(), test_size=0.5, stratify=y.ravel(), random_state=0)
    study = optuna.create_study(sampler=DPFTSSampler(transport, settings, space, agent=agent), direction="maximize")
    studies.append((study, halves))
for _ in range(settings.initial + 5):  # all agents in one thread, round by round; the last two rounds on their own
    for study, (X, X_test, y, y_test) in studies:
        trial = study.ask(space)
        study.tell(trial, float(roc_auc_score(y_test, SVC(**trial.params).fit(X, y).decision_function(X_test))))
print("Best AUC, mean over the fields:", np.mean([study.best_value for study, _ in studies]).round(3))
print(ledger.statement(delta=1e-3))  # far below 1/29
