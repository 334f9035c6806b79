"""Three hospitals choose together in Ray: an actor near each hospital's rows answers with sums over its patients."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
from ray import tune
from sklearn.linear_model import LogisticRegression

import dptune
from dptune_ray import RayPlace, choose

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()


def rows(n, seed):  # made-up patients
    X = np.random.default_rng(seed).normal(seed / 10, size=(n, 20))
    return X[:, 1:], (X[:, :4].sum(axis=1) > 0.4 * seed).astype(int)  # the first column is unknown


def hospital(name):  # called in an actor, which loads the rows there
    return dptune.Place(name, rows(*{"north": (300, 1), "south": (900, 2), "east": (400, 3)}[name]))


def trainable(config):  # public rows only: any searcher and scheduler
    X, y = rows(200, 0)
    tune.report({"accuracy": LogisticRegression(C=config["C"]).fit(X[:150], y[:150]).score(X[150:], y[150:])})


tuning = {"tune_config": tune.TuneConfig(metric="accuracy", mode="max", num_samples=8)}
stored = tune.RunConfig(name="hospitals", storage_path=str(folder), verbose=0)
results = tune.Tuner(trainable, param_space={"C": tune.loguniform(0.001, 10)}, run_config=stored, **tuning).fit()
names = ("north", "south", "east")  # on a real cluster: resources={name: 1}
places = dptune.Places([RayPlace(name, partial(hospital, name), num_cpus=0) for name in names])
ledger = dptune.PrivacyLedger(folder / "choose_ray_places.db", dptune.Budget.gdp(mu=1), unit="one patient")
asked = {"data": places, "public": rows(200, 0), "ledger": ledger}
choice = choose(results, LogisticRegression(), loss="log_loss", default={"C": 1e3}, report_share=0.4, **asked)
report = dptune.report(choice.model, by=places, **asked).to_markdown()
print(choice.summary(), report, ledger.statement(delta=1e-5), sep="\n\n")
