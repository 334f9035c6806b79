"""The federated benchmarks: what they run is what they say, on a problem of seconds."""

from __future__ import annotations

import numpy as np

from benchmarks.federated.problems import FederatedProblem
from benchmarks.federated.runs import Method, run
from dptune.federated.settings import FTSSettings
from dptune.ledger.subsampled import SubsampledGaussianPlan

points = np.random.default_rng(0).random((80, 2))
TINY = FederatedProblem("tiny", points, np.array([np.sin(3 * points[:, 0] + 0.1 * n) for n in range(4)]))
SETTINGS = FTSSettings(agents=4, d=2, M=20, own_features=20, initial=2)
PLAN = SubsampledGaussianPlan(q=0.5, z=1.0, steps=2)


METHODS = [
    (Method("TS", change={"joint": 0.0}), 0),
    (Method("not private"), 4),
    (Method("private", PLAN), 2),
    (Method("noise", PLAN, silent=True), 2),
    (Method("random", PLAN, random_query=True), 2),
]  # -> broadcasts in four rounds


def test_a_run_of_every_kind() -> None:
    for method, broadcasts in METHODS:
        result = run(TINY, SETTINGS, method, seed=1, rounds=4)
        assert len(result["curve"]) == 5
        assert (np.diff(result["curve"]) >= 0).all()
        assert result["curve"][-1] <= TINY.values.max(axis=1).mean() + 1e-12
        assert len(result["informed"]) == broadcasts
        assert run(TINY, SETTINGS, method, seed=1, rounds=4) == result, "a run can be repeated"
