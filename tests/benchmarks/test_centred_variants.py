"""Variants of centred CMA-ES cost what they are compared at, and differ from the plain search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.loops import run_centred, simulate
from benchmarks.tasks import Task
from benchmarks.what_did_not_work.centred_variants import (
    VARIANTS,
    LearningRate,
    RawLearningRate,
    RawValues,
    Schedule,
    TrustRegion,
    make,
)
from dptune.search.algorithms.centred import GENERATION
from dptune.search.algorithms.centred_cma import CentredCMA
from dptune.search.algorithms.centred_plan import CENTRED


def ran(kind: type[CentredCMA], task: Task) -> tuple[CentredCMA, float]:
    """The algorithm after 36 trials at mu = 1, and the sum of the squared prices it asked for."""
    run = simulate(replace(CENTRED, algorithm=kind), task, 1.0, 3, trials=36, final_share=0.0)
    return run.algorithm, sum(charge.mu**2 for charge in run.ledger.charges)


def test_the_packages_own_is_the_packages(task: Task) -> None:
    assert np.array_equal(VARIANTS["package's"](task, 1.0, 20, 3), run_centred(task, 1.0, 20, 3).u)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name.startswith("package's,")])
def test_a_schedule_spends_the_same_budget_otherwise(task: Task, variant: str) -> None:
    kind = type("Scheduled", (Schedule,), {"ratio": VARIANTS[variant].args[0]})
    run = simulate(replace(CENTRED, algorithm=kind), task, 1.0, 3, trials=36, final_share=0.0)
    prices = [charge.mu for charge in run.ledger.charges if charge.key.startswith(GENERATION)]
    assert sum(charge.mu**2 for charge in run.ledger.charges) == pytest.approx(1.0)
    assert (prices[0] / prices[-1]) ** 2 == pytest.approx(kind.ratio)


def test_a_family_with_tails_lies_on_the_cube_with_its_default() -> None:
    task = make("bowl", 300, 0)
    assert task.default == pytest.approx({"u0": 0.3, "u1": 0.3, "u2": 0.3})
    at = np.array(list(task.default.values()))
    assert task.losses(at).shape == (300,)
    assert VARIANTS["package's"](task, 1.0, 20, 3).shape == (3,)
    assert VARIANTS["package's, late budget"](task, 1.0, 20, 3).shape == (3,)


@pytest.mark.parametrize("kind", [CentredCMA, RawValues, Schedule, TrustRegion, LearningRate, RawLearningRate])
def test_every_variant_costs_the_same(task: Task, kind: type[CentredCMA]) -> None:
    assert ran(kind, task)[1] == pytest.approx(1.0)


def test_with_raw_values_cma_learns_released_values(task: Task) -> None:
    told = []

    class Watched(RawValues):
        def _tell(self, generation):
            learn, self.cma.tell = (
                self.cma.tell,
                lambda solutions: (told.append([v for _, v in solutions]), learn(solutions)),
            )
            super()._tell(generation)
            self.cma.tell = learn
            assert told[-1] == generation.values[: generation.new].tolist()

    algorithm, _ = ran(Watched, task)
    assert len(told) == algorithm.settings.generations
