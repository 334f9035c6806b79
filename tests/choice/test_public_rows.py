"""Public rows determine a choice's prior, finalists and radii, and its plan and summary state them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from choice_tools import CANDIDATES, PEOPLE, PUBLIC, N, chosen, losses, privatizer
from dptune.choice import planning
from dptune.choice.outlook import outlook
from dptune.choice.public import FAR, PublicLosses, centred, distances, law, prior
from dptune.choice.result import PairedEstimate, Selection
from dptune.ledger.filter import Allowance
from dptune.privacy import stored_losses
from dptune.privacy.stored_losses import StoredLosses
from noises import NoNoise


def test_the_prior_falls_with_paired_standard_errors() -> None:
    V = PUBLIC.copy()
    V[3] = V[-1]  # equal to the best
    V[4] = V[-1] + 1e-9  # worse for every row
    z, odds = distances(V), prior(V, 1.0)
    assert odds.sum() == pytest.approx(1.0)
    assert z[3] == z[-1] == 0.0
    assert z[4] > 1e6
    assert (z[:3] > 1).all()
    assert odds[3] == odds[-1] == odds.max()
    assert odds[4] == pytest.approx(0.2 / len(V))  # misled people lose log 5 and log s at most
    np.testing.assert_allclose(odds, 0.8 * law(2 * z) + 0.2 / len(V))


def test_a_public_row_of_weight_four_counts_as_four() -> None:
    np.testing.assert_allclose(prior(PUBLIC, 4.0), prior(np.tile(PUBLIC, (1, 4)), 1.0))
    np.testing.assert_allclose(prior(PUBLIC, 0.0), 1 / CANDIDATES)


def test_a_weight_counts_in_finalists_and_in_the_estimate_s_radius() -> None:
    """Three copies of each row, of a third of the weight, are the rows; of weight 0 they say nothing."""
    rows, copies = (PublicLosses.of(np.tile(losses(4, N, 40), (1, k)), None) for k in (1, 3))
    assert copies.finalists(35, 1 / 3) == rows.finalists(35)
    for most in (20, 35):
        assert len(rows.finalists(most, 0.0)) == most
        assert min(rows.finalists(most, 0.0)) < min(rows.finalists(most))  # the worst come first in these losses
    radii = [planning.estimate_radius(of, 0, 9, (9,), 0.01, w) for of, w in ((rows, 1.0), (copies, 1 / 3), (rows, 0.1))]
    assert radii[0] == radii[1] < radii[2]
    assert planning.estimate_radius(rows, 0, 9, (9,), 0.01, 0.0) == np.abs(rows.clipped[0] - rows.clipped[9]).max()


def test_the_simulated_radius_protects_who_loses_much() -> None:
    """Nearly all gain a little by the candidates that ruin a few: a small radius would not see it."""
    rng = np.random.default_rng(0)
    fair = 0.5 + 0.05 * rng.standard_normal((10, 300))
    unfair = fair - 0.05
    unfair[:, :15] += 3.0
    public = PublicLosses.of(np.abs(np.vstack([fair, unfair])), None)
    r = planning.simulated_radius(public, 300, 3.0, 1.0, public.order, law)
    mean = np.clip(centred(public.clipped, public.m), -r, r).mean(axis=1)
    assert mean[:10].mean() < mean[10:].mean()


def test_the_simulated_radius_leaves_room_for_people_who_differ_more() -> None:
    """All public rows differ by nearly the same, and private people may differ more."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=300)
    public = PublicLosses.of(0.5 + 0.2 * np.array([signs, -signs, signs, -signs]), None)
    r = planning.simulated_radius(public, 300, 3.0, 1.0, public.order, law)
    assert r >= 1.25 * np.abs(centred(public.clipped, public.m)).max() > 0


def test_equal_candidates_are_finalists_once_each(tmp_path: Path) -> None:
    """Near the best are 60 candidates of three kinds: each kind is there before the second of any."""
    kinds = np.repeat(losses(6, N, 1), 3, axis=0)
    kinds[1] += 1e-3 * np.tile([1, -1], N // 2)
    kinds[2] += 2e-3 * np.tile([-1, 1], N // 2)
    among = PublicLosses.of(np.repeat(kinds, 20, axis=0), None).finalists(45)
    assert len(set(among)) == len(among) == 45
    assert {j // 20 for j in among} == {0, 1, 2}
    same = dptune.PublicChoice(np.ones((60, N)), privatizer(tmp_path), name="x", finalists=50)
    assert len(set(same.finalists)) == 50


# ---- hopeless candidates, and what is said ------------------------------------------------------------


ROWS, MANY = 150, 300


def few(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """Losses (9, rows): five candidates that are much alike, and four, the last, that a training lost."""
    rng = np.random.default_rng(seed)
    usual = rng.gamma(1.0, 0.1, size=rows)
    alike = [usual + 0.04 * rng.normal(size=rows) + 0.005 * j for j in range(5)]
    return np.array([*alike, *(usual + rng.uniform(1.0, 5.0, size=rows) for _ in range(4))])


def choice_in(folder: Path, V: np.ndarray, **about: Any) -> dptune.PublicChoice:
    return dptune.PublicChoice(V, privatizer(folder, n=MANY), **{"name": "x", "default_place": 0, **about})


@pytest.mark.parametrize("most", [20, 100])
def test_hopeless_candidates_are_no_finalists_but_two_are_left(most: int) -> None:
    assert sorted(PublicLosses.of(few(), None).finalists(most)) == [0, 1, 2, 3, 4]
    two = PublicLosses.of(few()[[0, 5, 6, 7]], None).finalists(most)
    assert (two[0], len(two)) == (0, 2)
    many = PublicLosses.of(few(20_000), None)  # do not make a slightly worse one hopeless
    assert distances(many.clipped)[4] > 2 * FAR
    assert sorted(many.finalists(most)) == [0, 1, 2, 3, 4]


def test_below_far_the_best_twenty_are_finalists_as_before() -> None:
    rng = np.random.default_rng(1)
    V = np.abs(rng.normal(size=200) + 0.3 * rng.normal(size=(30, 200))) + 0.003 * np.arange(30)[:, None]
    public = PublicLosses.of(V, None)
    assert distances(public.clipped[list(public.order[:20])]).max() < FAR
    assert public.finalists(20) == public.order[:20]


def test_hopeless_candidates_do_not_widen_the_radii(tmp_path: Path) -> None:
    V = few()
    choices = [choice_in(tmp_path / name, which) for name, which in (("all", V), ("alike", V[:5]))]
    assert choices[0]._plan.near == 5
    assert choices[0]._plan.radius == pytest.approx(choices[1]._plan.radius)  # the others are far finalists
    assert choices[0].outlook.shows == pytest.approx(choices[1].outlook.shows)
    assert choices[0].outlook.shows < 0.2


def test_a_wild_finalist_that_is_not_chosen_changes_no_verdict(tmp_path: Path) -> None:
    wild = few()[0] + np.where(np.arange(ROWS) % 30 == 0, 4.0, -0.05)
    choices = [
        choice_in(tmp_path / name, V) for name, V in (("tame", few()[:5]), ("wild", np.vstack([few()[:5], wild])))
    ]
    assert choices[1].finalists[-1] == 5
    assert choices[0].outlook.shows == pytest.approx(choices[1].outlook.shows, rel=0.1)  # shares may differ
    radii = [planning.estimate_radius(one.public, 0, 1, one.finalists, 0.01, 1.0) for one in choices]
    assert radii[0] == pytest.approx(radii[1], rel=0.1)
    tame, wild = (planning.estimate_radius(choices[1].public, 0, j, (1, 2, 3, 4), 0.01, 1.0) for j in (1, 5))
    assert wild > 3 * tame  # the chosen one counts, however tame the others are


def test_a_surprise_counts_the_sampling_of_both_groups(tmp_path: Path) -> None:
    weights = np.linspace(1, 9, PEOPLE)
    found = chosen(dptune.PublicChoice(PUBLIC, privatizer(tmp_path, person_weights=weights), name="x", default_place=0))
    gain, w = found.improvement, weights / weights.sum()
    assert gain is not None
    cut = np.clip(PUBLIC[0] - PUBLIC[found.index], -gain.radius, gain.radius)
    assert gain.sampling == pytest.approx(cut.std() * (1 / N + w @ w) ** 0.5)
    assert gain.beyond == pytest.approx((PUBLIC[0] - PUBLIC[found.index] - cut).mean())


@pytest.mark.parametrize("people", [4 * N, 4 * N + 1])
def test_few_public_rows_do_not_say_what_the_cut_hides_of_many_people(tmp_path: Path, people: int) -> None:
    losses = np.resize(PUBLIC, (len(PUBLIC), people))
    one = dptune.LossPrivatizer(dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(1e4)), n=people)
    found = dptune.PublicChoice(PUBLIC, one, name="x", default_place=0).choose(dict(enumerate(losses)))
    assert found.improvement is not None
    assert (found.improvement.beyond is None) is (people > 4 * N)


@pytest.mark.parametrize(
    ("value", "beyond", "least"),
    [
        (1.0, 0.1, 0.804), (1.0, 0.0, 0.804), (1.0, -0.1, None), (-1.0, 0.1, None), (-1.0, -0.1, 0.804),
        (0.1, 0.1, None), (1.0, None, None), (-1.0, None, None),
    ],
)  # fmt: skip
def test_without_the_cut_one_end_is_stated(value: float, beyond: float | None, least: float | None) -> None:
    gain = PairedEstimate(value, 0.1, True, radius=2.0, predicted=1.0, sampling=0.1, beyond=beyond)
    found = Selection(1, 4, None, 1.0, "exponential selection", True, improvement=gain, default=0, people=9)
    said = re.search(r"is cut at \+-2(.*)\.\n", found.summary())
    assert said is not None
    assert said[1] == ("" if least is None else f"; without the cut read at least {least}")
    predicted = re.search(r"Public rows predicted (.*?)\. ", found.summary())
    assert predicted is not None
    assert predicted[1] == ("an improvement of 1" if value < 0 else "1")  # the verdict is about a rise
    assert "(at most mu=1)" in replace(found, index=0, improvement=None).summary()  # nothing was estimated


@pytest.mark.parametrize("value", [-1.0, 3.0])
def test_the_causes_of_a_surprise_come_with_a_next_step(value: float) -> None:
    gain = PairedEstimate(value, 0.1, True, radius=2.0, predicted=1.0, sampling=0.1)
    said = Selection(1, 4, None, 1.0, "exponential selection", True, improvement=gain, default=0, people=9).summary()
    causes = ["the populations differ", "public_weight=0.5", "written differently", "spelling, units and dtypes"]
    found = [said.index(cause) for cause in causes]
    assert found == sorted(found)
    assert ("overfitted" in said) is (value < 1.0)  # which cannot be why people gain more


def test_a_hopeless_default_is_compared_with_its_own_radius(tmp_path: Path) -> None:
    choice = choice_in(tmp_path, few(), default_place=5)
    assert 5 not in choice.finalists[: choice._plan.near]
    assert 5 in choice.to_train
    found = chosen(choice, few(MANY, 1))
    assert found.improvement is not None
    assert choice._plan.radius < 0.2 < 1.0 < found.improvement.radius
    assert found.verdict == "better"
    assert "Better than the default" in found.summary()
    assert "better: the mean loss improves by" in str(found)


def test_a_plan_states_how_often_the_expected_improvement_would_show(tmp_path: Path) -> None:
    rarely = choice_in(tmp_path / "a", few(), default_place=4, mu=0.1).outlook
    assert rarely.shows is not None
    assert rarely.expected == pytest.approx(0.02, abs=0.01)
    assert rarely.expected < rarely.shows
    said = re.search(r"an improvement of (0\.0\d+), which the estimate would show in (\d+)% of runs\.", str(rarely))
    assert said is not None
    assert float(said[1]) == pytest.approx(rarely.expected, rel=0.01)
    sigma = rarely.shows / (1.959964 + 1.644854)
    shown = np.random.default_rng(0).normal(rarely.expected, sigma, size=200_000) > 1.959964 * sigma
    assert int(said[2]) == pytest.approx(100 * shown.mean(), abs=1)
    none = choice_in(tmp_path / "b", few()).outlook
    assert "Public rows expect no improvement over the default." in str(none)
    for gain, said in ((0.0123, " 0.012."), (0.0, " none: you pay for the verdict.")):
        assert f"Expected gain over cross-validation alone:{said}" in str(replace(none, gain=gain))
    for name, default in (("it shows", 5), ("no default", None)):
        assert "Public rows expect" not in str(choice_in(tmp_path / name, few(), default_place=default).outlook)


def test_the_estimate_has_the_least_share_that_shows_what_is_expected() -> None:
    """Half of that noise, or twice, would lead to another share."""
    rng = np.random.default_rng(0)
    usual = rng.gamma(2.0, 0.2, size=300)
    public = PublicLosses.of([usual + 0.02 * j + 0.2 * rng.uniform(size=300) for j in range(6)], None)
    wanted, rest = planning.Wanted(None, 1.0, None, None), Allowance(1.0, 1.0, ())
    planned: list[float] = []
    for n in (20, 30, 40, 50, 75):
        about: dict[str, Any] = {"n": n, "weight": 1 / n, "default": 5}
        plans = [planning.plan(public, rest, replace(wanted, estimate_share=w), **about) for w in planning.SHARES]
        views = [outlook(public, plan, **about, loss=None, name="", spends="", risk="") for plan in plans]
        enough = [plan.share for plan, view in zip(plans, views, strict=True) if (view.expected or 0) >= view.shows]
        planned.append(planning.plan(public, rest, wanted, **about).share)
        assert planned[-1] == (enough or [planning.USUAL_SHARE])[0]
    assert len(set(planned)) >= 4


def test_a_recorded_answer_is_announced_in_one_line(tmp_path: Path) -> None:
    choice = choice_in(tmp_path, few())
    assert choice.announcement == str(choice.outlook)
    chosen(choice, few(MANY, 1))
    again = choice_in(tmp_path, few())
    assert again.announcement == choice.announcement
    assert re.match(r"Recorded answer of 'x', from [\d-]{10}\. Nothing is charged\. data= played", again.announcement)


@pytest.mark.parametrize("shares", [{}, {"estimate_share": 0.3}, {"report_share": 0.3}])
def test_nothing_is_planned_of_a_budget_that_is_spent(shares: dict[str, float]) -> None:
    public = PublicLosses.of(np.random.default_rng(0).uniform(size=(5, 40)), (0.0, 1.0))
    wanted = planning.Wanted(mu=None, public_weight=1.0, **{"estimate_share": None, **shares}, finalists=None)
    for default in (0, None):
        plan = planning.plan(public, Allowance(0.0, 0.0, ()), wanted, n=100, default=default, weight=0.01)
        assert (plan.mu, plan.choice_mu, plan.finalists) == (0.0, 0.0, ())


@pytest.mark.parametrize(
    ("people", "mu", "settings", "helps"),
    [
        (12, 0.3, {}, r"about \d+ people or a larger budget"),
        (12, 0.3, {"estimate_share": 0.9}, r"about \d+ people or a larger budget"),
        (70, 0.3, {"estimate_share": 0.01}, r"estimate_share=0.4, about \d+ people or a larger budget"),
        (12, 0.3, {"loss": "log_loss"}, r'loss="brier", which is bounded, about \d+ people or a larger budget'),
    ],
)
def test_no_budget_is_spent_on_a_verdict_that_cannot_come(
    tmp_path: Path, people: int, mu: float, settings: dict[str, float], helps: str
) -> None:
    p = privatizer(tmp_path, budget=dptune.Budget.gdp(mu), n=people)
    about: dict[str, Any] = {"name": "x", "default_place": 0, **settings}
    words = "in 95% of runs, and the largest that can be is .*so expect no verdict. What helps: " + helps
    with pytest.raises(dptune.InputError, match=f"{words}. Or give estimate_share=0 .* Nothing was charged."):
        dptune.PublicChoice(PUBLIC, p, **about)
    assert p.ledger.spent() == 0
    asked = dptune.PublicChoice(PUBLIC, p, **about, even_if_hopeless=True)  # the refusal has not bound the name
    assert re.search(f"\nWarning: the estimate shows .* {words}", str(asked.outlook))
    alone = dptune.PublicChoice(PUBLIC, p, name="y", default_place=0, estimate_share=0, mu=mu / 9)
    assert "Warning" not in str(alone.outlook)


def test_one_person_cannot_choose(tmp_path: Path) -> None:
    with pytest.raises(dptune.InputError, match="two private people or more; got 1"):
        dptune.PublicChoice(PUBLIC, privatizer(tmp_path, n=1), name="x")


# ---- far finalists ---------------------------------------------------------------------------------------------------

TWO_KINDS = 80  # candidates that are good on public rows, and as many that are bad there
FAR_PEOPLE = 1000


def two_kinds(rows: int, seed: int, *, turned: bool) -> np.ndarray:
    """Losses (2 TWO_KINDS, rows): the second half is far worse, or better if the populations are upside down."""
    rng = np.random.default_rng(seed)
    usual = rng.gamma(2.0, 0.2, size=rows)
    level = np.repeat([0.6, 0.0] if turned else [0.0, 0.6], TWO_KINDS)[:, None]
    return usual + level + 0.05 * np.abs(rng.normal(size=(2 * TWO_KINDS, rows)))


def far_choice(folder: Path, noise: Any = None, default: int | None = 0) -> dptune.PublicChoice:
    p = privatizer(folder, n=FAR_PEOPLE, noise=noise)
    return dptune.PublicChoice(two_kinds(200, 0, turned=False), p, name="x", default_place=default)


def test_some_finalists_are_far_where_many_people_say_much(tmp_path: Path) -> None:
    choice = far_choice(tmp_path)
    plan = choice._plan
    near, far = choice.finalists[: plan.near], choice.finalists[plan.near :]
    assert len(near) > len(far) == 20
    assert max(near) < TWO_KINDS
    assert sum(j >= TWO_KINDS for j in far) > 5
    assert distances(choice.public.clipped)[TWO_KINDS:].min() > FAR  # these are hopeless by public rows
    few = dptune.PublicChoice(two_kinds(200, 0, turned=False), privatizer(tmp_path / "few", n=100), name="x")
    assert few._plan.near == len(few.finalists)  # n eta is below FAR_FROM
    alone = planning.simulated_radius(choice.public, FAR_PEOPLE, plan.eta, 1.0, near, plan.law)
    assert plan.radius == pytest.approx(alone)


def test_far_finalists_save_a_choice_where_populations_are_upside_down(tmp_path: Path) -> None:
    found = chosen(far_choice(tmp_path), two_kinds(FAR_PEOPLE, 1, turned=True))  # fails with a chance below e^-50
    assert found.index >= TWO_KINDS
    assert found.verdict == "better"


def test_exponents_are_those_of_the_formula_with_far_finalists(tmp_path: Path) -> None:
    """Also where some cannot be trained: the median is over the near ones that are left, or over all."""
    V, L = two_kinds(200, 0, turned=False), two_kinds(FAR_PEOPLE, 1, turned=True)
    for name, dropped in (("none", 0), ("some", 7), ("all near ones", 72)):
        noise = NoNoise()
        choice = far_choice(tmp_path / name, noise, None)
        left = [j for j in choice.finalists if j not in choice.finalists[:dropped]]
        near = [j for j in left if j in choice.finalists[: choice._plan.near]] or left
        choice.choose({j: L[j] if j in left else None for j in choice.to_train})
        plan, r = choice._plan, choice._plan.radius
        count = np.where(np.isin(left, near), 1.0, 0.5)[:, None]
        cut = np.clip(count * (L[left] - np.median(L[near], axis=0)), -r, r).sum(axis=1)
        expected = cut * plan.eta / (4 * r) - np.log(prior(V[left], 1.0))
        statistic, scale = noise.seen[0]
        np.testing.assert_allclose(statistic / scale, expected, rtol=1e-4, atol=1e-3)  # rows are kept in float32


def uncut(g: np.ndarray, clip: Any, middle: float) -> np.ndarray:
    """Planted: a far finalist is bounded by the range of losses instead of by r."""
    return np.nan_to_num(np.clip(g, -4, 4), nan=4.0)


def of_the_one_before(self: StoredLosses, query: Any, people: slice) -> np.ndarray:
    """Planted: the reference is the median of the person before."""
    L = self.combine(query.points, query.weights, people)
    return np.asarray(L - np.roll(np.median(L[: query.centred_on], axis=0), 1))


@pytest.mark.parametrize("bug", [None, uncut, of_the_one_before])
def test_a_person_moves_no_exponent_by_more_than_half_of_eta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Any
) -> None:
    """Replacements by brute force: one row at a corner of the losses' range for each pair of near and far."""
    L = two_kinds(FAR_PEOPLE, 1, turned=True)
    replaced, eta = [], 0.0
    if bug is uncut:
        monkeypatch.setattr(stored_losses, "clipped", uncut)
    if bug is of_the_one_before:
        monkeypatch.setattr(StoredLosses, "_asked", of_the_one_before)
    for place in range(14):
        noise = NoNoise()
        choice = far_choice(tmp_path / str(place), noise, None)
        eta = choice._plan.eta
        near, far = choice.finalists[place], choice.finalists[choice._plan.near + place]
        row = L.copy()
        row[:, 7] = [0.0, 1e9, np.nan, -1e9][place % 4]
        row[[near, far], 7] = [[1e9, -1e9], [-1e9, 1e9]][place % 2]
        chosen(choice, row if place else L)
        statistic, scale = noise.seen[0]
        replaced.append(statistic / scale)
    moved = np.abs(np.array(replaced)[:, None] - np.array(replaced)[None]).max()
    assert moved > 0
    assert bool(moved <= eta / 2 * (1 + 1e-6)) == (bug is None)
