"""Candidates that public rows show to be hopeless, and what a choice says before and after it is made."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from choice_tools import chosen, privatizer

import dptune
from dptune.choice import planning
from dptune.choice.public import FAR, PublicLosses, distances
from dptune.errors import BudgetMismatch
from dptune.ledger.filter import Allowance

ROWS, PEOPLE = 150, 300


def few(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """Losses (9, rows): five candidates that are much alike, and four, the last, that a training lost."""
    rng = np.random.default_rng(seed)
    usual = rng.gamma(1.0, 0.1, size=rows)
    alike = [usual + 0.04 * rng.normal(size=rows) + 0.005 * j for j in range(5)]
    return np.array([*alike, *(usual + rng.uniform(1.0, 5.0, size=rows) for _ in range(4))])


def choice_in(folder: Path, V: np.ndarray, **about: Any) -> dptune.PublicChoice:
    return dptune.PublicChoice(V, privatizer(folder, n=PEOPLE), **{"name": "x", "default": 0, **about})


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
    plans = [choice_in(tmp_path / name, which)._plan for name, which in (("all", V), ("alike", V[:5]))]
    assert plans[0].estimate_radius == pytest.approx(plans[1].estimate_radius)
    assert plans[0].radius == pytest.approx(plans[1].radius)
    assert plans[0].estimate_radius < 0.2


def test_a_hopeless_default_is_compared_with_its_own_radius(tmp_path: Path) -> None:
    choice = choice_in(tmp_path, few(), default=5)
    assert 5 not in choice.finalists
    assert 5 in choice.to_train
    assert choice._plan.radius < 0.2 < 1.0 < choice._plan.estimate_radius
    found = chosen(choice, few(PEOPLE, 1))
    assert found.improvement is not None
    assert found.verdict == "better"
    assert "Better than the default" in found.summary()
    assert "better: the mean loss improves by" in str(found)


# ---- what is said ----------------------------------------------------------------------------------------


def test_a_plan_says_how_often_the_estimate_would_show_what_public_rows_expect(tmp_path: Path) -> None:
    rarely = choice_in(tmp_path / "a", few(), default=4, mu=0.1).outlook
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
        assert "Public rows expect" not in str(choice_in(tmp_path / name, few(), default=default).outlook)


def test_a_recorded_answer_is_announced_in_one_line(tmp_path: Path) -> None:
    choice = choice_in(tmp_path, few())
    assert choice.announcement == str(choice.outlook)
    chosen(choice, few(PEOPLE, 1))
    again = choice_in(tmp_path, few())
    assert again.announcement == choice.announcement == "Recorded answer of 'x'; nothing is charged."


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "search"}, "'search' belongs to a search, a report or a choice without public rows. "),
        ({"public": few(ROWS + 10)}, "it differs in public rows (150, now 160); public losses. "),
        ({"default": 1, "mu": 0.5}, "it differs in default (0, now 1); mu (1.0, now 0.5). "),
    ],
)
def test_a_refusal_of_an_old_name_says_what_differs(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    choice = choice_in(tmp_path, few(), mu=1.0)
    chosen(choice, few(PEOPLE, 1))
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db")
    ledger.fix_plan("search", lambda rest: {"mu": 1.0})
    spent = ledger.spent()
    if "name" not in change:
        said += "The answer of that choice stays recorded. "
    with pytest.raises(BudgetMismatch, match=re.escape(f"{said}Give this choice another name=")):
        choice_in(tmp_path, **{"V": change.pop("public", few()), "mu": 1.0, **change})
    assert ledger.spent() == spent


@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("shares", [{}, {"estimate_share": 0.3}, {"report_share": 0.3}])
def test_nothing_is_planned_of_a_budget_that_is_spent(eta: float, shares: dict[str, float]) -> None:
    """Also if a limit of choices is left: an estimate, or a report, is none."""
    public = PublicLosses.of(np.random.default_rng(0).uniform(size=(5, 40)), (0.0, 1.0))
    wanted = planning.Wanted(mu=None, public_weight=1.0, **{"estimate_share": None, **shares}, finalists=None)
    rest = Allowance(left=eta, unplanned=0.0, holders=(), eta=eta)
    plan = planning.plan(public, rest, wanted, n=100, default=0, weight=0.01)
    assert (plan.mu, plan.choice_mu, plan.finalists) == (0.0, 0.0, ())
    alone = planning.plan(public, rest, wanted, n=100, default=None, weight=0.01)
    assert (alone.choice_mu > 0) == (eta > 0 and "report_share" not in shares)
