"""The same people in several ledgers: joint statements, beside compositions of their own, and what removing one moves.

The reference knows each part by its densities and adds laws of the privacy loss by Fourier transforms. It shares no
code with `dptune.ledger.dominating`, which connects the dots of profiles, and none with dp-accounting.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.stats import norm

from dptune import Budget, InputError, PrivacyLedger
from dptune.ledger.approximate import divided, largest_plan
from dptune.ledger.dominating import Gaussian
from dptune.ledger.events import GaussianRelease
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_bounded_range
from dptune.privacy import Ball, Interval, MeanQuery, NormQuery
from dptune.privacy.query import Box, Query
from dptune.privacy.stored_losses import per_person
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from dptune.training.profiles import epsilon_of, removal_mu, renyi_epsilon
from dptune.training.selection_profile import SelectionProfile

DELTA = 1e-5
Array = np.ndarray
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
        self.removed += [gaussian(removal_mu(mu)), *([choice(1.001 * eta / 2)] if eta else [])]
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
    delta = delta_beside(0.25, removal_mu(0.5))
    assert delta(found / (1 - 1e-3)) <= DELTA <= delta(found / 1.01)
    assert found < 0.8 * renyi_epsilon([ledger.plan, Gaussian(removal_mu(0.5))], DELTA)


# ---- removing a person, and one selection that two ledgers pay for ----------------------------------------

ONE = TrainingPlan(2.0, 0.05, 400)
QUERIES: dict[str, Query] = {
    "a mean loss": MeanQuery(("a",), np.ones((1, 1)), Interval(1.0, 3.0), 1.0),
    "means of a choice": MeanQuery(("a", "b", "c"), np.eye(3), Box(-1.0, 2.0, 3), 1.0),
    "a clipped vector": MeanQuery(("a", "b", "c"), np.eye(3), Ball(0.7), 1.0),
    "a share of people": NormQuery(("a", "b", "c"), np.eye(3), 0.7, 1.0),
}


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data())
def test_nobody_adds_more_than_half_of_what_replacing_moves(name: str, data: st.DataObject) -> None:
    """So whoever is removed, and adds 0, moves a release by half of its sensitivity at most."""
    query = QUERIES[name]
    elements = st.one_of(st.sampled_from([np.nan, np.inf, -np.inf, 1e300]), st.floats(-10, 10))
    rows = 3 if name in ("a clipped vector", "a share of people") else query.dimension
    g = data.draw(arrays(np.float64, (rows, 4), elements=elements))
    added = np.linalg.norm(per_person(g, query), axis=0)
    assert (added <= query.clip.diameter / 2 * (1 + 1e-12)).all()


@given(st.floats(0.1, 6), st.integers(2, 6), st.integers(0, 1000))
def test_a_choice_has_half_of_its_bounded_range_when_somebody_is_removed(mu: float, m: int, seed: int) -> None:
    eta, n, rng = bounded_range_from_mu(mu), 9, np.random.default_rng(seed)
    means, extreme = rng.random(m), rng.choice([-0.5, 0.5], m)  # losses in [0, 1], less the middle
    logs = [-eta * u * n / 2 for u in (means + extreme / n, means)]
    p, q = (np.exp(log - np.logaddexp.reduce(log)) for log in logs)
    assert np.ptp(np.log(p / q)) <= eta / 2 * (1 + 1e-9)
    assert mu_from_bounded_range(eta / 2) <= removal_mu(mu)


@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=8), st.booleans())
def test_whatever_is_spent_within_a_filter_stays_within_that_of_removal(mus: list[float], choose: bool) -> None:
    paid = [mu_from_bounded_range(bounded_range_from_mu(mu) / 2) if choose else mu / 2 for mu in mus]
    assert math.hypot(*paid) <= removal_mu(math.hypot(*mus)) <= math.hypot(*mus)


def test_planted_bug_half_of_mu_is_too_little_for_a_choice() -> None:
    assert mu_from_bounded_range(bounded_range_from_mu(2.0) / 2) > 1.02 * 2.0 / 2


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
    with pytest.raises(InputError, match="train in one selection"):
        joint("train", "val", "new")
