"""Joins of two and three ledgers of every kind, beside a composition of their own: laws of the privacy loss, convolved.

The reference knows each part by its densities and adds their losses by Fourier transforms. It shares no code with
`dptune.ledger.dominating`, which connects the dots of profiles, and none with dp-accounting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dptune import Budget, PrivacyLedger
from dptune.ledger.approximate import Limits, divided, largest_plan
from dptune.ledger.events import GaussianRelease
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from dptune.training import joint as implementation
from dptune.training.profiles import removal_mu
from dptune.training.selection_profile import SelectionProfile

DELTA = 1e-5
Array = np.ndarray
STEP, HALF = 1e-3, 2**16  # of the reference's grid: losses from -65 to 65


@dataclass(frozen=True)
class Law:
    """A density of the privacy loss on the grid, in the order of Fourier transforms."""

    mass: Array

    @classmethod
    def of(cls, cdf: Callable[[Array], Array]) -> Law:
        """Each cell's mass, at the cell's middle."""
        edges = (np.arange(-HALF, HALF + 1) - 0.5) * STEP
        return cls(np.fft.ifftshift(np.diff(cdf(edges))))


def gaussian(mu: float) -> list[Law]:
    """Both directions are one: the loss of N(mu, 1) against N(0, 1) is N(mu^2/2, mu^2)."""
    return [Law.of(lambda x: norm.cdf(x, mu**2 / 2, mu))] * 2


def choice(eta: float) -> list[Law]:
    """Density e^(l/2) / (4 sinh(eta/2)) on [-eta, eta]."""
    return [Law.of(lambda x: (np.exp(np.clip(x, -eta, eta) / 2) - math.exp(-eta / 2)) / (2 * math.sinh(eta / 2)))] * 2


def training(plan: TrainingPlan) -> list[Law]:
    """A step with q and z: N(0, z^2) against its mixture with N(1, z^2), in both directions, self-convolved."""
    q, z, count = plan.sample_rate, plan.noise_multiplier, plan.steps * plan.trainings

    def threshold(loss: Array) -> Array:  # x with log(1 - q + q e^((2x - 1)/(2 z^2))) = loss
        inside = (np.exp(loss) - (1 - q)) / q
        return np.where(inside > 0, z**2 * np.log(np.maximum(inside, 1e-300)) + 0.5, -np.inf)

    def mixed(x: Array) -> Array:
        return (1 - q) * norm.cdf(x, 0, z) + q * norm.cdf(x, 1, z)

    present, absent = Law.of(lambda x: mixed(threshold(x))), Law.of(lambda x: norm.sf(threshold(-x), 0, z))
    return [Law(np.maximum(np.fft.irfft(np.fft.rfft(law.mass) ** count, 2 * HALF), 0)) for law in (present, absent)]


def reference(parts: Sequence[list[Law]], delta: float = DELTA) -> float:
    """Epsilon of the product, the larger of both directions."""
    losses = np.fft.ifftshift(np.arange(-HALF, HALF) * STEP)
    found = 0.0
    for direction in range(2):
        total = np.prod([np.fft.rfft(part[direction].mass) for part in parts], axis=0)
        mass = np.maximum(np.fft.irfft(total, 2 * HALF), 0)

        def excess(epsilon: float, mass: Array = mass) -> float:
            above = losses > epsilon
            return float(mass[above] @ -np.expm1(epsilon - losses[above])) - delta

        found = max(found, 0.0 if excess(0.0) < 0 else float(brentq(excess, 0.0, 60.0, xtol=1e-6)))
    return found


# ---- ledgers of every kind -----------------------------------------------------------------------------

TRAIN = TrainingPlan(2.0, 0.05, 100)


TUNING = {  # a budget, and the share of it that a choice takes
    "gdp": (Budget.gdp(0.5), 0.0),
    "whole": (Budget.approximate_dp(1.0, DELTA), 0.0),
    "divided": (Budget.approximate_dp(1.0, DELTA), 0.7),
    "choosing": (Budget.approximate_dp(2.0, DELTA), 0.95),
}


class Kinds:
    """Makes ledgers, and says what each costs under replacing and under removing a person."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count()
        self.replaced: list[list[Law]] = []
        self.removed: list[list[Law]] = []

    def make(self, kind: str) -> PrivacyLedger | TrainingLedger:
        name = f"{kind}{next(self.numbers)}"
        if kind == "train":
            self.removed.append(training(TRAIN))
            return TrainingLedger(self.folder / f"{name}.db", TRAIN, n=300)
        budget, share = TUNING[kind]
        ledger = PrivacyLedger(self.folder / f"{name}.db", budget, dataset=name)
        mu, eta = budget.mu, 0.0
        if share:
            whole = largest_plan(share, budget.stated_epsilon or 0.0, DELTA)
            ledger.fix_plan("run", lambda rest: {"mu": whole, "shares": {"choice": share}})
            mu, eta = divided(whole, share)
        ledger.charge("run", "first", GaussianRelease(0.01, 1.0, 1.0, 1, "mean"), digest="first")
        self.replaced += [gaussian(mu), *([choice(eta)] if eta else [])]
        self.removed += [gaussian(removal_mu(mu)), *([choice(1.001 * eta / 2)] if eta else [])]
        return ledger


EVERY = [
    *(["gdp", "whole"], ["gdp", "divided"], ["whole", "choosing"], ["divided", "divided"], ["divided", "choosing"]),
    *(["gdp", "divided", "choosing"], ["divided", "divided", "divided"]),
    *(["train", "gdp"], ["train", "choosing"], ["train", "divided", "choosing"]),
]


def check(names: Sequence[str], folder: Path) -> None:
    """The joint epsilon is that of the reference, at most half a percent above and never below."""
    kinds = Kinds(folder)
    ledgers = [kinds.make(name) for name in names]
    found = join(ledgers, delta=DELTA).epsilon
    exact = reference(kinds.removed if "train" in names else kinds.replaced)
    assert exact * (1 - 2e-4) <= found <= exact * (1 + 5e-3), f"{names}: {found:.5f} is stated, {exact:.5f} holds"


@pytest.mark.parametrize("names", EVERY, ids="-".join)
def test_a_joint_statement_is_that_of_the_reference(names: list[str], fast_path: Path) -> None:
    check(names, fast_path)


def test_the_reference_knows_gdp() -> None:
    assert reference([gaussian(0.6), gaussian(0.8)]) == pytest.approx(4.3772, abs=1e-3)


# ---- planted bugs ----------------------------------------------------------------------------------------

merge = implementation._merge


def only_the_dearest(patch: pytest.MonkeyPatch) -> None:
    """Of several tuning ledgers only the dearest counts."""

    patch.setattr(implementation, "_merge", lambda profiles: [max(profiles, key=lambda part: part.gdp)])


def choices_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The eta of choices is not counted."""
    true = Limits.profiles
    patch.setattr(Limits, "profiles", lambda self: true(Limits(self.mu)))


def one_choice_of_several(patch: pytest.MonkeyPatch) -> None:
    """Of two divided ledgers only one's choices are composed."""

    patch.setattr(implementation, "_merge", lambda profiles: merge(profiles)[:2])


def largest_mu_only(patch: pytest.MonkeyPatch) -> None:
    """The squares of mu are not added up."""

    patch.setattr(implementation, "Spent", SimpleNamespace(of=lambda mus: SimpleNamespace(mu=max(mus))))


@pytest.mark.parametrize(
    ("bug", "names"),
    [
        (only_the_dearest, ["train", "gdp", "divided"]),
        (choices_forgotten, ["gdp", "divided"]),
        (choices_forgotten, ["train", "choosing"]),
        (one_choice_of_several, ["divided", "divided"]),
        (largest_mu_only, ["gdp", "gdp"]),
    ],
)
def test_the_reference_finds_the_planted_bug(
    bug: Callable[[pytest.MonkeyPatch], None], names: list[str], fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError, match="is stated"):
        check(names, fast_path)


# ---- repeat and select beside other releases --------------------------------------------------------------

LAW = Repeats.geometric(10)


def delta_beside(score: float, mu: float) -> Callable[[float], float]:
    """The selection's profile and one Gaussian: E of delta(e - l) over the Gaussian's loss l, by quadrature."""

    def once(s):
        return norm.cdf(score / 2 - s / score) - np.exp(s) * norm.cdf(-score / 2 - s / score)

    profile = SelectionProfile(LAW, once, most=8.0)
    x = np.linspace(-8, 8, 201)
    weights = norm.pdf(x) / norm.pdf(x).sum()

    def both_sides(epsilon: float) -> float:
        delta = profile.delta(abs(epsilon))
        return delta if epsilon >= 0 else -math.expm1(epsilon) + math.exp(epsilon) * delta

    def delta(epsilon: float) -> float:
        losses = mu**2 / 2 + mu * x
        return sum(w * both_sides(epsilon - loss) for w, loss in zip(weights, losses, strict=True))

    return delta


def test_a_selection_beside_a_gaussian_is_the_integral_of_its_profile(fast_path: Path) -> None:
    ledger = TrainingLedger(fast_path / "s.db", SelectionPlan(LAW, score_mu=0.25), n=300)
    other = PrivacyLedger(fast_path / "o.db", Budget.gdp(0.5))
    found = join([ledger, other], delta=DELTA).epsilon
    delta = delta_beside(0.25, removal_mu(0.5))
    assert delta(found / (1 - 1e-3)) <= DELTA <= delta(found / 1.01)


def test_two_selections_and_a_divided_ledger_cost_more_than_the_selections_alone(
    fast_path: Path,
) -> None:
    selections = [
        TrainingLedger(fast_path / f"s{i}.db", SelectionPlan(LAW, score_mu=mu), n=300, dataset=f"s{i}")
        for i, mu in enumerate((0.2, 0.3))
    ]
    for i, ledger in enumerate(selections):
        ledger.begin_selection(f"question {i}", secure=True)
    ledgers = [*selections, Kinds(fast_path).make("divided")]
    whole = join(ledgers, delta=DELTA).epsilon
    assert join(selections, delta=DELTA).epsilon < 0.99 * whole
    apart = join(selections, delta=DELTA / 2).epsilon + ledgers[2].statement(delta=DELTA / 2).epsilon
    assert whole < apart, "basic composition"
