"""A search and its trials as Tune runs them, in this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import dptune_ray
from dptune_ray import PrivateSearch
from ray_harness import SPACE, open_privatizer, random_search
from ray_people import N, losses

CONFIG = {"x": 0.1, "y": 1.0}


def made(folder: Path, function: Any, **settings: Any) -> Any:
    privatizer = open_privatizer(folder, n=settings.pop("n", N))
    search = PrivateSearch(random_search(), privatizer, **{"n_trials": 2, "name": "run", "seed": 3, **settings})
    trainable = search.trainable(function)
    assert search.set_search_properties("loss", "min", SPACE)
    return search, trainable


def value_of(trainable: Any, trial: str) -> float:
    """Run a trial like Tune, in this process."""
    one = trainable.__new__(trainable)
    one.config, one._trial_info = CONFIG, SimpleNamespace(trial_id=trial)
    return float(one.step()["loss"])


def reporting(config: dict[str, Any]) -> np.ndarray:
    for step in range(1, 4):
        dptune_ray.report_public(config["x"] / step, step)
    return losses(config)


def made_public(folder: Path, function: Any = reporting) -> tuple[Any, Any]:
    search, _ = made(folder, losses)
    return search, search.trainable(public="x, of which everybody knows")(function)


def a_trial(trainable: Any, trial: str) -> Any:
    one = trainable.__new__(trainable)
    one.config, one._trial_info = CONFIG, SimpleNamespace(trial_id=trial)
    return one
