"""A small private problem for Ray Tune, a cluster on loopback, and a search for values where none should be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

import dptune
from dptune.privacy.noise import SeededNoise
from dptune_ray import DPGIBOSearch, PrivateSearch

N = 60
SPACE = {"x": tune.uniform(-1.0, 1.0), "y": tune.loguniform(1e-3, 1e1)}
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def people(seed: int = 0) -> np.ndarray:
    """Return one private centre per person, (N, 2)."""
    return np.random.default_rng(seed).normal([0.3, -0.4], 0.2, size=(N, 2))


def losses_at(data: np.ndarray, x: float, y: float) -> np.ndarray:
    """Return each person's squared distance from (x, log10 y / 2), (N,)."""
    return (x - data[:, 0]) ** 2 + (np.log10(y) / 2 - data[:, 1]) ** 2


def losses(config: dict[str, Any]) -> np.ndarray:
    return losses_at(people(), config["x"], config["y"])


class Silent(SeededNoise):
    """NOT PRIVATE: no noise at all, to compare two front ends."""

    def add_gaussian(self, vector: np.ndarray, sigma: float) -> np.ndarray:
        return np.array(vector)


class NoiselessPrivatizer(dptune.LossPrivatizer):
    """NOT PRIVATE: releases the clipped means themselves."""

    def _start(self) -> None:
        super()._start()
        self._noise = Silent(0)


def open_ledger(folder: Path, mu: float = 1.0) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def open_privatizer(
    folder: Path, *, mu: float = 1.0, kind: type[dptune.LossPrivatizer] = dptune.LossPrivatizer, n: int = N
) -> dptune.LossPrivatizer:
    return kind(open_ledger(folder, mu), n=n, clip=(0.0, 4.0))


def open_search(privatizer: dptune.LossPrivatizer, **settings: Any) -> DPGIBOSearch:
    return DPGIBOSearch(SPACE, privatizer, **{"n_trials": 12, "seed": 1, "name": "run", **settings})


def tuner(trainable: Any, search: Any, folder: Path, **settings: Any) -> tune.Tuner:
    config = {
        "search_alg": search,
        "metric": "loss",
        "mode": "min",
        "num_samples": -1,
        "reuse_actors": True,
        **settings,
    }
    space = config.pop("param_space", SPACE)
    run = {"name": "experiment", "storage_path": str(folder), "verbose": 0, **config.pop("run", {})}
    return tune.Tuner(
        trainable, param_space=space, tune_config=tune.TuneConfig(**config), run_config=tune.RunConfig(**run)
    )


__all__ = [
    "SPACE",
    "N",
    "PrivateSearch",
    "losses",
    "losses_at",
    "open_ledger",
    "open_privatizer",
    "open_search",
    "people",
]
