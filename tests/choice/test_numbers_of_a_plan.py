"""The numbers of a plan are computed by hand: ranges, finalists, radii, shares and what a simulation says."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from choice_tools import PAIR, losses, privatizer
from dptune.choice import planning
from dptune.choice.outlook import FuturePeople, future_people, heavy_tails, hopeless, outlook
from dptune.choice.planning import ChoicePlan, Shares, Wanted
from dptune.choice.public import PublicLosses, clip_from, law
from dptune.ledger.approximate import largest_plan
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_pure
from dptune.losses.named import NamedLoss, as_loss
from dptune.results import NoiseLaw
from reading import numbers

REST, TIGHT, OF_PAIR = Allowance(1.0, 1.0, ()), Allowance(0.3, 0.3, ()), Allowance(PAIR.mu, PAIR.mu, (), PAIR)
WANTED = Wanted(None, 1.0, None, None)
LAST: Any = {"mu": None, "public_weight": 1.0, "estimate_share": None, "finalists": None}


def apart(*z: float, rows: int = 100) -> PublicLosses:
    """Candidates whose means lie so many paired standard errors above that of the first, by opposite errors."""
    signs = np.tile([0.1, -0.1], rows // 2)
    error = 0.1 / rows**0.5
    return PublicLosses.of(0.5 + np.array([np.zeros(rows), *(signs + error * each for each in z[1:])]), (0.0, 9.0))


# ---- ranges and ranks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "clip"),
    [
        ((0.5, 1.5), (0.0, 3.0)),
        ((-0.5, 1.5), (-1.0, 3.0)),
        ((0.0, 0.0), (0.0, 1.0)),
        ((0.5, 0.5), (0.0, 1.0)),
        ((-1.0, -1.0), (-1.0, 0.0)),
        ((1.0, 2.0, 3.0, 15.9), (0.0, 31.8)),  # not beyond ten times the median's distance to the best: 16
        ((1.0, 2.0, 3.0, 16.1), (0.0, 6.0)),
    ],
)
def test_a_range_is_twice_that_of_candidates_that_do_not_diverge(levels: Any, clip: tuple[float, float]) -> None:
    found = PublicLosses.of(np.repeat(np.array(levels)[:, None], 10, axis=1), None)
    assert (found.low, found.high) == pytest.approx(clip)
    if len(levels) == 2:
        assert clip_from([*levels, math.nan, math.inf]) == clip


def test_a_loss_that_is_no_number_counts_as_the_largest_one() -> None:
    V = np.full((5, 10), 0.5)
    V[0, :4], V[1], V[2], V[4] = [np.nan, np.inf, -np.inf, -7], np.nan, 0.25, 0.25
    found = PublicLosses.of(V, (-1.0, 2.0))
    assert found.clipped[0].tolist() == [2.0, 2.0, -1.0, -1.0] + [0.5] * 6
    assert (found.order, found.m, found.mean(0)) == ((2, 4, 0, 3), 5, 0.5)
    assert found.far((2,), 5) == (4, 3)  # neither one that failed for a row, nor one that is taken
    assert found.largest == 0.25  # the better half are two of four
    assert PublicLosses.of(np.zeros((3, 10)), (-1.0, 3.0)).largest == 4.0
    assert found.difference(3, 0, 1.0) == pytest.approx((0.0, 0.2**0.5 * 2**0.5))
    same = PublicLosses.of(V, (-1.0, 2.0)).digest
    others = [
        PublicLosses.of(*asked).digest for asked in ((V, (-2.0, 2.0)), (V, (-1.0, 3.0)), (V * 1.001, (-1.0, 2.0)))
    ]
    assert found.digest == same
    assert len({same, *others}) == 4


@pytest.mark.parametrize(
    ("public", "most", "count"),
    [
        (apart(0, *[2.0] * 19, 2.99, 3.01), 30, 21),  # from the 21st on near the best
        (apart(0, *[2.0] * 19, 2.99, 3.01), 29, 22),  # ranks decide
        (apart(0, 7.9, 7.99, 8.01), 30, 3),
        (apart(0, 7.9, 7.99, 8.01), 29, 3),
        (apart(0, 8.5, 9.0), 30, 2),  # the best two in any case
        (apart(0, 15.9, 15.99, 16.01, rows=800), 30, 3),  # 800 rows count as 200
    ],
)
def test_finalists_are_those_within_so_many_standard_errors(public: PublicLosses, most: int, count: int) -> None:
    assert public.finalists(most) == tuple(range(count))


@pytest.mark.parametrize(
    ("said", "most", "near", "far"),
    [
        (80.0, None, 20, 0), (100.0, None, 25, 0), (119.9, None, 29, 0), (120.0, None, 100, 0), (599.9, None, 100, 0),
        (600.0, None, 80, 20), (600.0, 59, 59, 0), (600.0, 60, 48, 12), (9000.0, None, 80, 20), (10.0, 7, 7, 0),
    ],
)  # fmt: skip
def test_the_number_of_finalists_grows_with_what_people_say(said: float, most: int | None, near: int, far: int) -> None:
    public = PublicLosses.of(np.random.default_rng(0).uniform(size=(150, 40)), (0.0, 1.0))
    found = planning._finalists(public, said, Wanted(None, 1.0, None, most))
    assert tuple(map(len, found)) == (near, far)
    few = PublicLosses.of(np.vstack([losses(0, 40, 1), losses(0, 40, 1) + np.arange(8, 60)[:, None]]), None)
    assert len(planning._finalists(few, 600.0, WANTED)[1]) == 2  # no more than near ones


# ---- shares and noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "wanted", "mu", "epsilon"),
    [
        (REST, WANTED, 1.0, 0.0),
        (REST, Wanted(**LAST, report_share=0.36), 0.8, 0.0),
        (REST, Wanted(**{**LAST, "mu": 0.5}), 0.5, 0.0),
        (OF_PAIR, WANTED, mu_from_pure(1.0), 1.0),
        (OF_PAIR, Wanted(**LAST, report_share=0.36), 0.8 * largest_plan(0.64 * 0.75, 1.0, 1e-5), 0.0),
        (OF_PAIR, Wanted(**{**LAST, "mu": 0.1}), 0.1, 0.0),
    ],
)
def test_a_budget_is_divided_between_choice_and_estimate(rest: Any, wanted: Any, mu: float, epsilon: float) -> None:
    made = Shares.of(rest, wanted, 0.25)
    assert (made.mu, made.share, made.epsilon) == pytest.approx((mu, 0.25, epsilon))
    if epsilon:
        wanted = mu_from_pure(0.75), 0.75, mu_from_pure(0.25)
        assert made.noise(0.01) == NoiseLaw(pytest.approx(2**0.5 * 0.01 / 0.25, rel=1e-5), laplace=True)
    else:
        wanted = mu * 0.75**0.5, bounded_range_from_mu(mu * 0.75**0.5), mu / 2
        assert made.noise(0.01) == NoiseLaw(pytest.approx(0.01 / (mu / 2), rel=1e-5))
    assert (made.choice_mu, made.eta, made.estimate_mu) == pytest.approx(wanted)
    assert Shares(1.0, 0.0, epsilon).estimate_mu == 0.0


def test_a_plan_is_stored_with_its_division_and_read_back() -> None:
    for epsilon, divides, shares in ((0.0, True, {"choice": 0.75}), (1.0, True, None), (0.0, False, None)):
        plan = ChoicePlan(1.5, 0.25, epsilon, (3, 1, 2), 2, 0.5, 0.75, divides)
        stored = plan.describe({"n": 3}, {"seed": 0})
        assert (stored.get("shares"), stored["asked"], stored["told"]) == (shares, {"n": 3}, {"seed": 0})
        assert ChoicePlan.read({**stored, "finalists": [3, 1, 2]}) == plan


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0, 4.0])
def test_a_radius_is_the_smallest_whose_bias_the_noise_hides(weight: float) -> None:
    V = losses(3, 60, 6) ** 3
    V[4] = V[0]
    public, sigmas = PublicLosses.of(V, None), [0.01, 0.1]
    found = planning.radii_of(public, 0, [1, 4, 5], sigmas, weight)
    for row, sigma in zip(found, sigmas, strict=True):
        for r, j in zip(row, (1, 4, 5), strict=True):
            D = V[0] - V[j]
            largest = np.abs(D).max() or public.largest
            rows, fits = 60 * min(weight, 1.0), [largest]
            for step in range(1, 40) if weight else ():
                over = D - np.clip(D, -largest * step / 40, largest * step / 40)
                bias = abs(over.mean()) + 2 * over.std() / rows**0.5
                fits += [largest * step / 40] * bool(bias <= 0.4 * sigma * 2 * largest * step / 40)
            assert r == pytest.approx(min(fits))
    assert planning.typical(np.arange(1.0, 11.0)) == 9.0  # nine tenths are not above it
    assert planning.typical(np.array([50.0, *np.arange(1.0, 11.0)])) == 50.0
    assert [planning.rival(apart(0, 1, 2), default) for default in (0, 1)] == [1, 0]


def test_the_radius_of_a_choice_is_the_largest_that_is_not_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third of seven radii has the smallest loss; five are within two standard errors of it, not in order."""
    public, asked = PublicLosses.of(np.outer([1.0, 2.0, 4.0], np.linspace(1, 2, 40)), None), []
    mean, signs = np.array([0.9, 1.1, 0.0, 0.9, 1.1, 0.9, 1.1]), np.array([1, -1, 1, -1])

    def simulated(public: Any, n: int, eta: float, weight: float, among: Any, near: int, radii: Any, law: Any) -> Any:
        asked.append((n, eta, weight, among, near, radii))
        return 0.5 + 0.01 * (mean + np.outer(signs, mean > 0)), None

    monkeypatch.setattr(planning, "simulate", simulated)
    found = planning.simulated_radius(public, 50, 2.0, 0.5, (0, 1, 2), law)
    grid = [4 / 2**k for k in range(6, -1, -1)]  # the largest distance to a row's median is 8 - 4
    assert asked == [(50, 2.0, 0.5, (0, 1, 2), 3, pytest.approx(grid))]
    distance = np.outer([1.0, 0.0, 2.0], np.linspace(1, 2, 40))
    assert found == pytest.approx(max(grid[5], 1.3 * np.quantile(distance, 0.99)))
    same = PublicLosses.of(np.ones((3, 20)), None)
    assert planning.simulated_radius(same, 50, 2.0, 1.0, (0, 1, 2), law) == 0.5  # the largest loss, halved
    mean[:] = [0.9, 0.9, 0.0, 1.1, 1.1, 1.1, 1.1]
    assert planning.simulated_radius(public, 50, 2.0, 0.5, (0, 1, 2), law) == pytest.approx(
        1.3 * np.quantile(distance, 0.99)
    )


def test_a_simulation_lets_half_of_the_rows_vote_and_the_others_be_people() -> None:
    public, n, eta, weight, radii = PublicLosses.of(losses(5, 41, 5), None), 70, 3.0, 0.5, [0.1, 0.4]
    found, alone = planning.simulate(public, n, eta, weight, (4, 2, 0, 1), 3, radii, law)
    rng, V = np.random.default_rng(0), public.clipped[[4, 2, 0, 1]]
    assert found.shape == (25, 2)
    for split in range(25):
        rows = rng.permutation(41)
        voting, people = V[:, rows[:20]], V[:, rows[20:]]
        centred = (people - np.median(people[:3], axis=0)) / np.array([1, 1, 1, 2])[:, None]
        drawn = centred[:, rng.integers(0, 21, size=n)]
        gap = voting - voting[np.argmin(voting.mean(axis=1))]
        z = np.nan_to_num(gap.mean(axis=1) / (gap.std(axis=1) / 20**0.5 + 1e-300))
        prior = 0.8 * np.exp(-2 * 0.5**0.5 * z) / np.exp(-2 * 0.5**0.5 * z).sum() + 0.2 / 4
        for place, r in enumerate(radii):
            p = prior * np.exp(-eta / (4 * r) * np.clip(drawn, -r, r).sum(axis=1))
            assert found[split, place] == pytest.approx(p @ people.mean(axis=1) / p.sum())
        assert alone[split] == people.mean(axis=1)[np.argmin(voting.mean(axis=1))]


# ---- what a plan says ------------------------------------------------------------------------------------


def test_many_people_gain_over_few_public_rows() -> None:
    public = PublicLosses.of(losses(2, 20, 30)[10:], None)
    about: dict[str, Any] = {"n": 20_000, "weight": 1 / 20_000, "default": 0}
    plan = planning.plan(public, REST, WANTED, **about)
    view = outlook(public, plan, **about, loss=None, name="", spends="", risk="")
    chosen, alone = planning.simulate(public, 20_000, plan.eta, 1.0, plan.finalists, plan.near, [plan.radius], plan.law)
    assert view.gain == pytest.approx(float((alone - chosen[:, 0]).mean()))
    assert view.gain > 0
    assert plan.share == 0.05  # the least one shows it
    assert (view.best_loss, view.default_loss) == (public.clipped.mean(axis=1).min(), public.clipped[0].mean())
    for weight, assumes in ((1.0, True), (0.5, False), (2.0, False)):
        wanted = Wanted(None, weight, None, None)
        made = outlook(
            public, planning.plan(public, REST, wanted, **about), **about, loss=None, name="", spends="", risk=""
        )
        assert bool(made.assumes) is assumes


SQUARED = as_loss("squared_error")


@pytest.mark.parametrize("loss", [SQUARED, as_loss("log_loss"), as_loss("zero_one"), None])
def test_heavy_tails_are_a_quarter_of_the_loss_in_a_hundredth_of_the_rows(loss: NamedLoss | None) -> None:
    for part in (0.2501, 0.2499):
        row = np.where(np.arange(250) == 17, 1.5, 1.0)
        row[[3, 99, 200]] = part / (1 - part) * 247.5 * np.array([0.2, 0.5, 0.3])  # a hundredth, rounded up
        said = heavy_tails(PublicLosses.of([row[::-1] / 9, row], (0.0, 99.0)), 1, loss)
        assert said == (
            "Heavy tails: 3 of 250 public rows have 25% of the squared_error, and noise grows with the "
            'largest. What helps: train on the logarithm of the answers, loss="absolute_error" or "huber", or '
            "clip=(0, 1.5)."
            if loss is SQUARED and part > 0.25
            else ""
        )


def test_a_hopeless_choice_says_how_many_people_would_help() -> None:
    public = PublicLosses.of(losses(2, 60, 8), None)
    about: dict[str, Any] = {"n": 12, "weight": 1 / 12, "default": 0}
    plan = planning.plan(public, TIGHT, WANTED, **about)
    needed, often, most, people = numbers(hopeless(public, plan, **about, loss=None))
    noise, r = planning.shows(plan.noise(2 / 12)), 0.0
    r = planning.estimate_radius(public, 0, 7, plan.finalists[: plan.near], plan.noise(1 / 12).sigma, 1.0)
    assert (needed, often) == pytest.approx((noise * r, 95), rel=6e-3)
    assert most == pytest.approx(min(r, public.clipped[0].mean()), rel=6e-3)
    assert people == math.ceil(12 * noise * r / min(r, public.clipped[0].mean()))
    level = PublicLosses.of(5 + losses(2, 60, 8) / 50, None)  # a large loss, of which little can change
    _, _, most, _ = numbers(hopeless(level, planning.plan(level, TIGHT, WANTED, **about), **about, loss=None))
    assert most < 0.1
    for never in ({"default": None}, {}):
        given = {**about, **never}
        made = plan if never else planning.plan(public, REST, Wanted(None, 1.0, 0.0, None), **about)
        assert hopeless(public, made, **given, loss=None) == ""


def test_a_plan_knows_people_by_their_number_alone(tmp_path: Path) -> None:
    path, budget = tmp_path / "new.db", dptune.Budget.gdp(0.5)
    data = np.zeros((9, 2)), np.zeros(9)
    for given, n in (({"groups": [1, 1, 2, 7]}, 3), ({"n": 5}, 5), ({}, 9)):
        people = future_people(path, data, budget=budget, clip=(-1.0, 2.0), **given)
        assert (people.n, people.largest_weight, people.squared_weights) == (n, 1 / n, 1 / n)
        assert (people.knows_clip, people.interval.low, people.interval.high) == (True, -1.0, 2.0)
        people.use_clip((0.0, 9.0))  # the one that was given stays
        assert people.interval.high == 2.0
    assert not path.exists()
    ledger = people.ledger
    assert (ledger.remaining(), ledger.allowance().left, ledger.count(), ledger.runs()) == (0.5, 0.5, 0, [])
    with pytest.raises(dptune.BudgetExhausted):
        ledger.check(0.6)
    weights = np.arange(1.0, 81.0)
    known = privatizer(tmp_path, n=80, person_weights=weights / weights.sum())
    people = future_people(known, None)
    assert (people.largest_weight, people.squared_weights) == (known.largest_weight, known.squared_weights)
    people.use_clip((0.0, 9.0))
    assert not known.knows_clip  # a plan leaves the privatizer as it is
    made = future_people(tmp_path / "ledger.db", None, n=80, budget=dptune.Budget.gdp(2.0))
    assert isinstance(made, FuturePeople)
    assert made.ledger.identity == known.ledger.identity
    with pytest.raises(dptune.errors.BudgetMismatch):
        future_people(tmp_path / "ledger.db", None, n=80, budget=budget)
    assert not made.knows_clip
