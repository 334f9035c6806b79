"""Five hospitals choose together, for one price a patient: rows stay where they are."""

import sys

import numpy as np
import optuna
from sklearn.ensemble import HistGradientBoostingClassifier

import dptune
from dptune_optuna import choose

rng, folder = np.random.default_rng(0), sys.argv[1] if len(sys.argv) > 1 else "."


def rows(n, age=0.0):  # made-up patients; hospitals differ in size and in their patients' age
    X = rng.normal([age, 0, 0, 0, 0, 0], size=(n, 6))
    return X, (X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=n) > 0).astype(int)


public = rows(400)  # of a public registry: they train, and nobody protects them
sizes = {"north": (300, 0.0), "south": (900, 0.3), "east": (150, -0.5), "west": (500, 0.8), "city": (650, -0.2)}
places = dptune.Places([dptune.Place(name, rows(*size)) for name, size in sizes.items()])  # each in its own process


def train(trial, X, y):
    rate, leaves = trial.suggest_float("rate", 0.01, 1.0, log=True), trial.suggest_int("leaves", 2, 32)
    return HistGradientBoostingClassifier(learning_rate=rate, max_leaf_nodes=leaves, max_iter=40).fit(X, y)


def objective(trial):  # an ordinary study, on public rows only
    return float(train(trial, public[0][:300], public[1][:300]).score(public[0][300:], public[1][300:]))


study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0), study_name="model")
study.optimize(objective, n_trials=15)
ledger = dptune.PrivacyLedger(f"{folder}/hospitals.db", dptune.Budget.gdp(mu=1.0), unit="one patient")
asked = {"data": places, "public": public, "ledger": ledger}
choice = choose(study, train, loss="log_loss", default={"rate": 1.0, "leaves": 32}, report_share=0.4, **asked)
report = dptune.report(choice.model, by=places, **asked)
print(choice.summary(), report.to_markdown(), ledger.statement(delta=1e-5), sep="\n")
