"""Joint statements of the same people in several ledgers equal independent compositions.

The reference knows each part by its densities and adds laws of the privacy loss by Fourier transforms. It shares no
code with `dptune.ledger.dominating`, which connects the dots of profiles, and none with dp-accounting.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dptune import Budget, InputError, PrivacyLedger
from dptune.ledger.approximate import divided, largest_plan
from dptune.ledger.dominating import Gaussian
from dptune.ledger.events import GaussianRelease
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from dptune.training.profiles import epsilon_of, renyi_epsilon
from dptune.training.selection_profile import SelectionProfile

DELTA = 1e-5
Array = np.ndarray
REMOVED = 1.001 * math.sqrt(0.5)  # of mu: what removing one costs of a release that may be a report's table
STEP, HALF = 1e-3, 2**16  # of the reference's grid: losses from -65 to 65


def law(cdf: Callable[[Array], Array]) -> Array:
    """Each cell's mass, at the cell's middle, in the order of Fourier transforms."""
    edges = (np.arange(-HALF, HALF + 1) - 0.5) * STEP
    return np.fft.ifftshift(np.diff(cdf(edges)))


def gaussian(mu: float) -> list[Array]:
    """Both directions are one: the loss of N(mu, 1) against N(0, 1) is N(mu^2/2, mu^2)."""
    return [law(lambda x: norm.cdf(x, mu**2 / 2, mu))] * 2


def choice(eta: float) -> list[Array]:
    """Density e^(l/2) / (4 sinh(eta/2)) on [-eta, eta]."""
    return [law(lambda x: (np.exp(np.clip(x, -eta, eta) / 2) - math.exp(-eta / 2)) / (2 * math.sinh(eta / 2)))] * 2


def training(plan: TrainingPlan) -> list[Array]:
    """A step with q and z: N(0, z^2) against its mixture with N(1, z^2), in both directions, self-convolved."""
    q, z, count = plan.sample_rate, plan.noise_multiplier, plan.steps * plan.trainings

    def threshold(loss: Array) -> Array:  # x with log(1 - q + q e^((2x - 1)/(2 z^2))) = loss
        inside = (np.exp(loss) - (1 - q)) / q
        return np.where(inside > 0, z**2 * np.log(np.maximum(inside, 1e-300)) + 0.5, -np.inf)

    def mixed(x: Array) -> Array:
        return (1 - q) * norm.cdf(x, 0, z) + q * norm.cdf(x, 1, z)

    present, absent = law(lambda x: mixed(threshold(x))), law(lambda x: norm.sf(threshold(-x), 0, z))
    return [np.maximum(np.fft.irfft(np.fft.rfft(once) ** count, 2 * HALF), 0) for once in (present, absent)]


def reference(parts: Sequence[list[Array]], delta: float = DELTA) -> float:
    """Epsilon of the product, the larger of both directions."""
    losses = np.fft.ifftshift(np.arange(-HALF, HALF) * STEP)
    found = 0.0
    for direction in range(2):
        total = np.prod([np.fft.rfft(part[direction]) for part in parts], axis=0)
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
        self.replaced: list[list[Array]] = []
        self.removed: list[list[Array]] = []

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
        self.removed += [gaussian(REMOVED * mu), *([choice(1.001 * eta / 2)] if eta else [])]
        return ledger


EVERY = [
    *(["gdp", "whole"], ["gdp", "divided"], ["whole", "choosing"], ["divided", "divided"]),
    *(["gdp", "divided", "choosing"], ["train", "gdp"], ["train", "divided", "choosing"]),
]


def check(stated: float, exact: float) -> None:
    """What is stated is at most half a percent above what holds and never below."""
    assert exact * (1 - 2e-4) <= stated <= exact * (1 + 5e-3), f"{stated:.5f} is stated, {exact:.5f} holds"


@pytest.mark.parametrize("names", EVERY, ids="-".join)
def test_a_joint_statement_is_that_of_the_reference(names: list[str], fast_path: Path) -> None:
    kinds = Kinds(fast_path)
    ledgers = [kinds.make(name) for name in names]
    check(join(ledgers, delta=DELTA).epsilon, reference(kinds.removed if "train" in names else kinds.replaced))


def test_the_reference_knows_gdp() -> None:
    assert reference([gaussian(0.6), gaussian(0.8)]) == pytest.approx(4.3772, abs=1e-3)


@pytest.mark.parametrize(
    ("names", "counted"),
    [
        (["train", "gdp", "divided"], [0, 2, 3]),  # of several tuning ledgers only the dearest counts
        (["gdp", "divided"], [0, 1]),  # the eta of choices is not counted
        (["train", "choosing"], [0, 1]),
        (["divided", "divided"], [0, 1, 2]),  # of two divided ledgers only one's choices are composed
        (["gdp", "gdp"], [0]),  # the squares of mu are not added up
    ],
)
def test_a_statement_that_forgets_a_part_is_found(names: list[str], counted: list[int], fast_path: Path) -> None:
    kinds = Kinds(fast_path)
    for name in names:
        kinds.make(name)
    parts = kinds.removed if "train" in names else kinds.replaced
    with pytest.raises(AssertionError):
        check(reference([parts[i] for i in counted]), reference(parts))


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
    delta = delta_beside(0.25, REMOVED * 0.5)
    assert delta(found / (1 - 1e-3)) <= DELTA <= delta(found / 1.01)
    assert found < 0.8 * renyi_epsilon([ledger.plan, Gaussian(REMOVED * 0.5)], DELTA)


# ---- one selection that two ledgers pay for --------------------------------------------------------------


def test_two_ledgers_of_one_selection_are_one_plan_in_any_order(fast_path: Path) -> None:
    """Their costs do not add up: they share the number of repeats. Before both are charged, the larger holds."""
    law, trained, scored = Repeats.poisson(3), TrainingPlan(2.0, 1.0, 1), 0.5
    plans = {"train": SelectionPlan(law, trained), "val": SelectionPlan(law, score_mu=scored)}
    plans |= {"new": plans["train"], "other": plans["val"], "plain": trained}
    ledgers = {name: TrainingLedger(fast_path / f"{name}.db", plan, n=900) for name, plan in plans.items()}

    def joint(*names: str) -> float:
        return join([ledgers[name] for name in names], delta=DELTA).epsilon

    apart = epsilon_of([plans["train"], plans["val"]], DELTA)
    one = epsilon_of([SelectionPlan(law, trained, scored)], DELTA)
    assert one < joint("train", "val") == apart
    assert joint("plain", "train") == joint("train", "plain") == epsilon_of([plans["train"], trained], DELTA)
    ledgers["train"].begin_selection("one question", secure=True)
    ledgers["val"].begin_selection("one question", secure=True)
    ledgers["other"].begin_selection("another question", secure=True)
    assert joint("train", "val") == one
    assert joint("train", "other") == apart
    found = [joint(*names) for names in (["train", "val", "new"], ["new", "train", "val"], ["val", "new", "train"])]
    assert max(found) == pytest.approx(min(found), rel=1e-9)  # the new one may come to belong to it, and adds its own
    assert min(found) > one
    ledgers["new"].begin_selection("one question", secure=True)
    with pytest.raises(InputError, match=r"train in one selection.* these people one ledger, whose plan"):
        joint("train", "val", "new")
