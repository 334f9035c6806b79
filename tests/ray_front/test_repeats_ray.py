"""Repeat and select on a cluster: one call, whose process says nothing about how often it trains."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from ray import tune

from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from dptune.training.repeats import repeat_and_select as in_one_process
from dptune_ray import repeat_and_select
from ray_harness import folder_bytes

pytestmark = pytest.mark.ray
N, LAW, MARKER = 20, Repeats.poisson(12), "one more repeat"


def test_the_best_comes_back_and_the_cluster_does_not_know_of_how_many(cluster, tmp_path, capfd):
    made = tmp_path / "made.txt"

    def train(config):
        with made.open("a") as file:
            file.write(f"{config['rate']}\n")
        print(MARKER, flush=True)
        print(MARKER, file=sys.stderr, flush=True)
        return {"weight": config["rate"]}, np.full(N, config["rate"])

    ledgers = [
        TrainingLedger(tmp_path / "train.db", SelectionPlan(LAW, TrainingPlan(2.0, 0.1, 20)), n=90),
        TrainingLedger(tmp_path / "val.db", SelectionPlan(LAW, score_mu=50.0), n=N, dataset="scorers"),
    ]
    space = {"rate": tune.uniform(0.0, 1.0), "depth": 3}
    best = repeat_and_select(train, space, ledgers, clip=(0.0, 1.0))
    rates = [float(line) for line in made.read_text().splitlines()]
    assert len(set(rates)) == len(rates) > 1
    assert best.parameters == {"rate": best.model["weight"], "depth": 3}
    assert best.model["weight"] <= sorted(rates)[1]
    assert not [path for path, content in folder_bytes(cluster) if MARKER.encode() in content]
    assert MARKER not in "".join(capfd.readouterr())
    again = in_one_process(lambda: ({}, "", np.zeros(N)), ledgers, clip=(0.0, 1.0))
    assert (again.parameters, again.model, len(made.read_text().splitlines())) == (best.parameters, None, len(rates))
    assert [ledger.count() for ledger in ledgers] == [1, 1]
