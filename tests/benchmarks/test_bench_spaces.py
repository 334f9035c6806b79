"""The benchmark of spaces: every task takes its default and random points, its mechanisms are the package's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.curator import Curator
from benchmarks.measurements import spaces
from benchmarks.space_tasks import KINDS, space_task
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.privacy.mechanism import NoisyMin
from dptune.privacy.noise import OpenDPNoise


@pytest.mark.parametrize("name", KINDS)
def test_every_task_takes_its_default_and_random_configurations(name: str) -> None:
    task = space_task(name, 50, 0)
    assert task.space.contains(task.default)
    for parameters in spaces.candidates(task, 2, 1):
        losses = task.losses(parameters)
        assert losses.shape == (50,)
        assert np.isfinite(losses).all()
        assert task.clip[0] <= task.test_loss(parameters) <= task.clip[1]


def test_the_simulated_choice_is_the_exponential_mechanism_of_the_package(tmp_path: Path) -> None:
    n, names = 70, ("a", "b", "c")
    privatizer = LossPrivatizer(PrivacyLedger(str(tmp_path / "x.db"), Budget.gdp(mu=1.0)), n=n, clip=(0.0, 3.0))
    curators = [Curator(n, (0.0, 3.0), seed=seed, private=True) for seed in range(400)]
    for j, name in enumerate(names):
        for either in (privatizer, *curators):
            either.observe(name, np.full(n, 1.0 + 0.02 * j))
    query = privatizer.means_query(names, 0.5)
    assert query == curators[0].means_query(names, 0.5)
    scale = NoisyMin(OpenDPNoise()).scale(query, privatizer.sensitivity(query))
    law = np.exp(-np.array([1.0, 1.02, 1.04]) / scale)
    chosen = np.bincount([int(curator.choose(query)[0]) for curator in curators], minlength=3)
    assert np.abs(chosen / 400 - law / law.sum()).max() < 0.12
