"""Variants of the centred search cost what they are compared at, and differ from the package's where they say so."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from benchmarks.centred_variants import VARIANTS, CMAAlone, Run, table
from benchmarks.loops import run_centred, simulate
from benchmarks.surrogate_cma import SurrogateCMA, settings_of
from benchmarks.tasks import Task
from dptune.algorithms.centred import Centred
from dptune.algorithms.centred_plan import CENTRED
from dptune.algorithms.centred_thompson import CentredThompson


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "package's"])
def test_every_variant_recommends_a_point_of_the_cube(task: Task, variant: str) -> None:
    u = VARIANTS[variant](task, 10.0, 40, 3)
    assert u.shape == (task.d,)
    assert np.all((u >= 0) & (u <= 1))
    assert not np.array_equal(u, VARIANTS["package's"](task, 10.0, 40, 3))


def test_the_packages_own_is_the_packages(task: Task) -> None:
    assert np.array_equal(VARIANTS["package's"](task, 1.0, 20, 3), run_centred(task, 1.0, 20, 3).u)


@pytest.mark.parametrize("kind", [CentredThompson, SurrogateCMA, CMAAlone])
def test_every_search_costs_the_same(task: Task, kind: type[Centred]) -> None:
    method, settings = replace(CENTRED, algorithm=kind), settings_of(task.d, task.clip, 36)
    run = simulate(method, task, 1.0, 3, trials=36, final_share=0.0, **settings)
    assert sum(charge.mu**2 for charge in run.ledger.charges) == pytest.approx(1.0)


def test_cma_is_told_the_surrogates_means(task: Task) -> None:
    told = []

    class Watched(SurrogateCMA):
        def _tell(self, generation):
            learn, self._cma.tell = (
                self._cma.tell,
                lambda solutions: (told.append([v for _, v in solutions]), learn(solutions)),
            )
            super()._tell(generation)
            self._cma.tell = learn
            assert told[-1] == self.surrogate.mean(generation.points[: generation.new]).tolist()

    method = replace(CENTRED, algorithm=Watched)
    run = simulate(method, task, 1.0, 3, trials=36, final_share=0.0, **settings_of(task.d, task.clip, 36))
    assert len(told) == run.algorithm.settings.generations


def test_the_table_compares_with_the_packages() -> None:
    losses = {"package's": (0.1, 0.4), "nearer": (0.2, 0.8)}
    runs = [Run("a", 300, 1.0, 100, v, s) for v in losses for s in (0, 1)]
    results = [{**asdict(run), "test_loss": losses[run.variant][run.seed]} for run in runs]
    lines = table(results, runs).splitlines()
    assert lines[2] == "| a | 300 | 100 | 1 | 0.250 | 0.500 (1) |"
    assert lines[3] == "| loss / package's |  |  |  | 1.00 | 2.00 |"
    assert lines[4].endswith("| 0.00 | 0.00 |")
