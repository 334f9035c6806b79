"""Variants of centred CMA-ES cost what they are compared at, and differ from the package's where they say so."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import centred_variants
from benchmarks.centred_variants import VARIANTS, RawValues, Schedule, TrustRegion, table
from benchmarks.loops import Curator, fold_centred, run_centred
from benchmarks.tasks import Task
from dptune.algorithms.centred_cma import CentredCMA
from dptune.centred_plan import plan_centred_cma


def ran(kind: type[CentredCMA], task: Task) -> tuple[CentredCMA, float]:
    """The algorithm after 36 trials at mu = 1, and the sum of the squared prices it asked for."""
    paid = []

    class Watched(Curator):
        def answer(self, query):
            paid.append(query.mu**2)
            return super().answer(query)

    plan = plan_centred_cma(d=task.d, loss_range=task.clip[1], mu=1.0, trials=36, seed=3, final_share=0.0)
    algorithm = kind(plan.settings)
    fold_centred(algorithm, Watched(task.n, task.clip, seed=3, private=True), task.losses)
    return algorithm, sum(paid)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_recommends_a_point_of_the_cube(task: Task, variant: str) -> None:
    u = VARIANTS[variant](task, 1.0, 36, 3)
    assert u.shape == (task.d,)
    assert np.all((u >= 0) & (u <= 1))
    same = np.array_equal(u, run_centred(task, 1.0, 36, 3).u)
    assert same == (variant == "package's")


@pytest.mark.parametrize("kind", [CentredCMA, RawValues, Schedule, TrustRegion])
def test_every_variant_costs_the_same(task: Task, kind: type[CentredCMA]) -> None:
    assert ran(kind, task)[1] == pytest.approx(1.0)


def test_with_raw_values_cma_learns_released_values(task: Task) -> None:
    told = []

    class Watched(RawValues):
        def tell(self, generation):
            learn, self._cma.tell = (
                self._cma.tell,
                lambda solutions: (told.append([v for _, v in solutions]), learn(solutions)),
            )
            super().tell(generation)
            self._cma.tell = learn
            assert told[-1] == generation.values[: generation.new].tolist()

    algorithm, _ = ran(Watched, task)
    assert len(told) == algorithm.settings.generations


def test_the_table_compares_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centred_variants, "TASKS", ("a",))
    monkeypatch.setattr(centred_variants, "BUDGETS", (1.0,))
    monkeypatch.setattr(centred_variants, "TRIALS", (100,))
    losses = {"package's": (1.0, 4.0), "TPE": (2.0, 8.0)}
    results = [
        {"task": "a", "mu": 1.0, "trials": 100, "variant": v, "seed": s, "test_loss": x}
        for v, both in losses.items()
        for s, x in enumerate(both)
    ]
    lines = table(results, ("package's", "TPE")).splitlines()
    assert lines[2] == "| a | 100 | 1 | 2.500 | 5.000 |"
    assert lines[3] == "| loss / package's |  |  | 1.00 | 2.00 |"
    assert lines[4].endswith("| 0.00 | 0.00 |")
