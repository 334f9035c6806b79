"""Plans at small deltas: epsilon is never below the exact one, and where none is finite it is refused."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dptune import Budget, InputError, PrivacyLedger
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.ledger.dominating import Choices
from dptune.ledger.gdp import delta_from_mu, epsilon_from_mu
from dptune.ledger.registry import About, record
from dptune.ledger.subsampled import composed, epsilon_pld, noise_multiplier
from dptune.training import TrainingLedger, TrainingPlan, join, noise_multipliers
from dptune.training.profiles import epsilon_of

PLAN, ROUNDS = TrainingPlan(1.0, 0.01, 1000), SubsampledGaussian(0.01, 1.0, 1000)
SPLIT: dict[str, Any] = {"sample_rate": 0.01, "steps": 10, "trainings": 3, "ways": ["composition"]}


def training_ledger(folder: Path) -> TrainingLedger:
    return TrainingLedger(folder / "train.db", PLAN, n=900)


def both(folder: Path) -> tuple[TrainingLedger, PrivacyLedger]:
    return training_ledger(folder), PrivacyLedger(folder / "val.db", Budget.gdp(1.0), dataset="val")


STATES: dict[str, Callable[[Path, float], float]] = {
    "epsilon_of": lambda _, delta: epsilon_of([PLAN], delta),
    "epsilon_of, of several parts": lambda _, delta: epsilon_of([PLAN, Choices(0.5)], delta),
    "epsilon_pld": lambda _, delta: epsilon_pld(ROUNDS, delta),
    "noise_multiplier": lambda _, delta: noise_multiplier(q=0.01, steps=10, epsilon=5.0, delta=delta),
    "noise_multipliers": lambda _, delta: min(noise_multipliers(epsilon=5.0, delta=delta, **SPLIT).values()),
    "rounds": lambda folder, delta: PlanLedger(folder / "plan.db", ROUNDS, n=29).statement(delta=delta).epsilon,
    "trainings": lambda folder, delta: training_ledger(folder).statement(delta=delta).epsilon,
    "joint": lambda folder, delta: join(both(folder), delta=delta).epsilon,
    "joint, disjoint": lambda folder, delta: join(both(folder), disjoint=True, delta=delta).epsilon,
}


@pytest.mark.parametrize("way", STATES)
@pytest.mark.parametrize("delta", [1e-15, 1e-300])
def test_a_delta_without_a_finite_epsilon_is_refused(tmp_path: Path, way: str, delta: float) -> None:
    """The refusal names a larger delta, which has one."""
    says = rf"^no finite epsilon is known at delta = {delta:g}\. The .*: 1e-1\d has one\.$"
    with pytest.raises(InputError, match=says) as no:
        STATES[way](tmp_path, delta)
    larger = float(str(no.value).split("larger delta: ")[1].split(" has")[0])
    assert 1e-15 < larger <= 1e-11
    assert 0 < STATES[way](tmp_path, larger) < math.inf


def test_a_statement_without_a_finite_epsilon_is_not_registered(tmp_path: Path) -> None:
    about = About.read(Path(__file__).parents[2] / "examples" / "about.toml")
    stated = training_ledger(tmp_path).statement(delta=1e-5)
    assert record(stated, about)
    with pytest.raises(InputError, match=r"^no finite epsilon is known at delta = 1e-05\. Give a larger delta\.$"):
        record(replace(stated, epsilon=math.inf), about)


@pytest.mark.parametrize(
    ("z", "steps"), [(1.0, 1), (5.0, 100), (10.0, 1000), (30.0, 1000), (100.0, 5000), (30.0, 5000), (100.0, 100_000)]
)
def test_small_deltas_are_not_understated(z: float, steps: int) -> None:
    """Without sampling the plan is one Gaussian, exactly. The sums of dp-accounting alone fall below it."""
    mu, found = math.sqrt(steps) / z, composed([SubsampledGaussian(1.0, z, steps).event()])
    for k in range(5, 16):
        exact = epsilon_from_mu(mu, 10.0**-k)
        assert found.epsilon(10.0**-k) >= exact - 1e-9
        assert found.delta(exact) >= delta_from_mu(mu, exact) * (1 - 1e-9)
