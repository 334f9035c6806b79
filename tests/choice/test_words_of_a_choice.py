"""Plans, summaries and verdicts of a choice, and the words for budgets and risks, are read word by word."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dptune
from choice_tools import PUBLIC, Chooses, chosen, privatizer
from dptune._numbers import rounded_up
from dptune.choice.averages import in_words
from dptune.choice.figure import draw_finalists, draw_improvement, is_choice
from dptune.choice.outlook import ASSUMES, Outlook, choice_forecast, in_front
from dptune.choice.recorded import recorded_choices, side_by_side
from dptune.choice.result import PairedEstimate, Selection
from dptune.choice.workers import NoCheckpoint, TrainingFailed, failures
from dptune.errors import BudgetExhausted, BudgetPlanned
from dptune.ledger.approximate import Limits
from dptune.ledger.filter import Allowance
from dptune.privacy.noise import SeededNoise
from dptune.privacy.query import Interval
from dptune.results import Estimate, NoiseLaw, parameters_in_words, risk_in_words, share_in_words, share_of

PLAN = Outlook(
    120, 75, 7, 0.25, 0.5, 0.03125, NoiseLaw(0.01), 0.25, 0.75, (-1.0, 2.0), "svm", "mu=0.75 of it", "A risk.",
    assumes=ASSUMES.format(""),
)  # fmt: skip
HEAD = "Plan: 120 private people choose among 7 finalists, once. Public loss: best 0.25, your default 0.5."
SPENDS = "Spends: mu=0.75 of it. Each loss is clipped to (-1, 2)."
SHOWS = "Shows: an improvement over the default of 0.036, in 95% of runs."
GAIN = "Expected gain over cross-validation alone: 0.031."
ASSUMED = "Assumes: one population. For another region, age group or year give public_weight=0.5."
STOP = "Stop: now, and nothing is charged. Rerun as 'svm' to resume; a recorded answer is free."
USUAL = (HEAD, SPENDS, f"{SHOWS} {GAIN}", ASSUMED, "A risk.", STOP)
AVERAGED = ASSUMED[:-1] + " and averages=True."
UNREAD = "Not checked: whether a training can reach the private rows, as a dry run does not call data=."
NONE = "Expected gain over cross-validation alone: none: you pay for the verdict."
ALONE = f"Shows: which finalist is chosen; without default= nothing is compared. {GAIN}"
RECORDED = "Recorded: on 2026-01-02; the answer of 'svm' is returned, and nothing is charged."
NOTHING = "Public rows expect no improvement over the default."
PLANS: dict[str, tuple[Outlook, tuple[str, ...]]] = {
    "usual": (PLAN, USUAL),
    "without a default": (
        replace(PLAN, default_loss=None, noise=None, expected=None),
        (HEAD.replace(", your default 0.5", ""), SPENDS, ALONE, *USUAL[3:]),
    ),
    "no gain": (replace(PLAN, gain=0.0), (HEAD, SPENDS, SHOWS, NONE, *USUAL[3:])),
    "nothing is expected": (replace(PLAN, expected=0.0), (*USUAL[:3], NOTHING, *USUAL[3:])),
    "hopeless": (replace(PLAN, expected=0.0, hopeless="no."), (*USUAL[:3], "Warning: no.", *USUAL[3:])),
    "all else": (
        replace(PLAN, tails="Tails.", report="a report", unchecked="Unchecked.", recorded="2026-01-02"),
        (*USUAL[:3], "Tails.", "Report: a report.", ASSUMED, "Unchecked.", "A risk.", RECORDED),
    ),
    "of a front end": (in_front(PLAN, average=False, unread=False), USUAL),
    "with averages": (in_front(PLAN, average=True, unread=True), (*USUAL[:3], AVERAGED, UNREAD, *USUAL[4:])),
    "of another population": (
        in_front(replace(PLAN, assumes=""), average=True, unread=False), (*USUAL[:3], *USUAL[4:]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_is_read_line_by_line(case: str) -> None:
    plan, lines = PLANS[case]
    assert str(plan) == "\n".join(lines)


GAINED = PairedEstimate(0.25, 0.01, True, radius=2.0, predicted=0.125, sampling=0.5)
FOUND = Selection(
    3, 9, None, 0.75, "exponential selection", True, improvement=GAINED, finalists=5, default=0, people=80
)
BETTER = "Better than the default: the mean loss improves by 0.25 (95% interval of the noise: 0.23 to 0.27)."
BY = "Chosen: candidate 3, by one private choice among 5 finalists (mu=0.75)."
CUT = "Public rows predicted 0.125. Each person's difference is cut at +-2; without the cut read at least 0.23."
THESE = "It holds for these 80 people; another 80 may differ."
TAKE = f"Next: take the model, and publish the statement. {THESE}"
SURPRISE = (
    "Noise and sampling do not explain the difference. Likely causes, in this order: the populations differ (then give "
    "public_weight=0.5 in the next choice); private labels or columns are written differently (compare spelling, units "
    "and dtypes){}. The verdict is about the private people and stands."
)
KEPT = "Keep the default: it was chosen, so no improvement is estimated. "
UNREADABLE = "Labels or columns that cannot be read show no preference, too: compare their spelling"
KEEP = "Next: keep what you have, and publish the statement."
LEVEL = Estimate(0.5, 0.01, True)
SELECTIONS: dict[str, tuple[Selection, tuple[str, ...]]] = {
    "better": (FOUND, (BETTER, BY, CUT, "Left.", TAKE)),
    "recorded, seeded": (
        replace(FOUND, private=False, recorded="2026-01-02"),
        (
            "NOT PRIVATE: the noise was seeded.",
            "Recorded answer, from 2026-01-02. data= played no part: new people need a new ledger.",
            *(BETTER, BY, CUT, "Left.", TAKE),
        ),
    ),
    "worse, as predicted": (
        replace(FOUND, improvement=replace(GAINED, value=-0.25, predicted=-0.125)),
        (
            "Worse than the default: the mean loss rises by 0.25 (95% interval of the noise: 0.23 to 0.27).",
            BY,
            CUT.replace("0.125", "a rise of 0.125"),
            "Left.",
            f"Next: keep the default, and report on it. {THESE}",
        ),
    ),
    "nothing": (
        replace(FOUND, people=None, improvement=replace(GAINED, value=0.01, sampling=0.001)),
        (
            "Not distinguishable from the default: the mean loss improves by 0.01 (95% interval of the noise: -0.0096 "
            "to 0.0296).",
            BY,
            CUT.partition("; without")[0] + ".",
            SURPRISE.format("; the search overfitted the public rows"),
            "Left.",
            "Next: keep the default and report on it, or ask more people.",
        ),
    ),
    "better than predicted": (
        replace(FOUND, improvement=replace(GAINED, sampling=0.001)),
        (BETTER, BY, CUT, SURPRISE.format(""), "Left.", TAKE),
    ),
    "the default": (
        replace(FOUND, default=3, improvement=None, cost="epsilon=1"),
        (f"{KEPT}{UNREADABLE}.", BY.replace("mu=0.75", "at most epsilon=1"), "Left.", KEEP),
    ),
    "the first, which is the default": (
        replace(FOUND, index=0, improvement=None, public_loss=0.25, finalists=None),
        (f"{KEPT}{UNREADABLE} with public rows.", "Chosen: candidate 0, by one private choice among 9 candidates (at "
         "most mu=0.75).", "Left.", KEEP),
    ),
    "no default": (
        replace(FOUND, default=None, improvement=None, estimate=LEVEL),
        (
            "No default was given, so nothing says how much better it is.",
            BY,
            "Its mean loss: 0.5 (95% interval of the privacy noise: 0.4804 to 0.5196).",
            "Left.",
        ),
    ),
    "no estimate": (replace(FOUND, improvement=None), (BY, "Left.")),
}  # fmt: skip


@pytest.mark.parametrize("case", SELECTIONS)
def test_a_summary_is_read_line_by_line(case: str) -> None:
    found, lines = SELECTIONS[case]
    assert found.summary(left="Left.") == "\n".join(lines)
    assert found.summary("C = 1").count("Chosen: C = 1, by one private choice among") == 1


def test_what_selections_and_estimates_print_is_read_word_by_word() -> None:
    one = "candidate 3 of 9 by exponential selection, mu=0.75"
    cut = "better: the mean loss improves by 0.25 (95% interval of the privacy noise: 0.23 to 0.27; each person's "
    cut += "difference is cut at +-2)"
    seeded = replace(FOUND, private=False, estimate=replace(LEVEL, private=False))
    level = "0.5 (95% interval of the privacy noise: 0.4804 to 0.5196"
    assert str(FOUND) == f"{one}; {cut}"
    assert str(seeded) == f"{one}, NOT PRIVATE; mean loss {level}) NOT PRIVATE; {cut}"
    assert str(replace(GAINED, private=False)) == f"{cut} NOT PRIVATE"
    tight = (
        "1.95 (95% interval of the privacy noise: 1.93 to 1.97), better than the defaults: improvement 0.25 (95%: "
        "0.2304 to 0.2696) of mean losses that are cut at 2, by one release and no model NOT PRIVATE"
    )
    gain = Estimate(0.25, 0.01, False, cut=2.0)
    assert str(Estimate.of_loss(1.95, 0.01, Interval(-1, 2), private=True, improvement=gain)) == tight
    same = "not distinguishable from mine: improvement 0 (95%: -0.0196 to 0.0196), by one release and no model"
    assert Estimate(0.0, 0.01, True).compared("mine") == same
    said = (
        ", which reaches the upper clip: it is too tight for most losses, or they are no numbers, as a NaN or the loss "
        "of a label that the model has not seen ('1' for 1)"
    )
    for value, sigma, reaches in ((1.99, 0.1, True), (0.7, 0.1, False), (1.5, 0.5, True), (1.5, 0.6, False)):
        estimate = Estimate.of_loss(value, sigma, Interval(-1, 2), private=True)  # the middle is 0.5
        assert (estimate.at_clip, said in str(estimate)) == (reaches, reaches)
    over = Estimate.of_loss(2.5, 0.1, Interval(0, 2), private=True)
    assert over.shown() == pytest.approx((2.0, 2.0, 2.0))
    for wrong in (0.0, 1.0):
        with pytest.raises(dptune.InputError, match=f"^confidence must lie between 0 and 1; got {wrong}"):
            over.interval(wrong)
    assert parameters_in_words({"C": 0.123456, "k": 3, "kind": "a"}, "`") == "C = `0.1235`, k = `3`, kind = `a`"
    assert in_words({}) == "the only configuration"


def test_a_share_of_a_budget_is_said_in_the_units_of_the_budget() -> None:
    gdp, pair = dptune.Budget.gdp(2.0), dptune.Budget.approximate_dp(4.0, 1e-5)
    divided = Limits(0.5, 1.5)
    said = {
        "all of the ledger's mu=2": (gdp, Limits(2.0), 2.0),
        "mu=0.5 of the ledger's mu=2": (gdp, Limits(2.0), 0.5),
        "mu=0.5 of the ledger's epsilon=4 at delta=1e-05": (pair, divided, 0.5),
        "all of the ledger's epsilon=4 at delta=1e-05": (pair, divided, divided.gdp),
        f"mu={rounded_up(1.001 * pair.mu)} of the ledger's epsilon=4 at delta=1e-05": (
            pair,
            Limits(9.0),
            1.001 * pair.mu,
        ),
        "mu=0.9901 of the ledger's mu=1.235": (dptune.Budget.gdp(1.23421), Limits(1.23421), 0.99002),  # none less
        "all of the ledger's epsilon=1.235 at delta=1e-05": (
            dptune.Budget.approximate_dp(1.23401, 1e-5),
            divided,
            divided.gdp,
        ),
    }
    assert [share_in_words(*asked) for asked in said.values()] == list(said)
    people: Any = SimpleNamespace(private=True, ledger=SimpleNamespace(private=True))
    risk = "Risk: an attacker who sees every release picks the right one of two records at most {} times in 100 "
    for mu, right in ((0.5, 60), (2.0, 85)):  # the normal law at mu / 2, rounded up
        assert risk_in_words(people, Limits(mu)) == f"{risk.format(right)}(50 by chance)."
    people.private = False
    assert risk_in_words(people, Limits(1.0)) == ""
    people.private, people.ledger.private = True, False
    assert risk_in_words(people, Limits(1.0)) == ""


def test_a_release_that_cannot_begin_says_what_is_left_and_of_what() -> None:
    with pytest.raises(BudgetPlanned) as planned:
        share_of(Allowance(0.5, 0.0, ("a",)), None, 2.0, 0.0)
    assert (planned.value.left, planned.value.budget, planned.value.runs) == (0.5, 2.0, ("a",))
    with pytest.raises(BudgetExhausted) as spent:
        share_of(Allowance(0.0, 0.0, ()), None, 2.0, 0.0)
    assert (spent.value.asked, spent.value.left, spent.value.budget) == (2.0, 0.0, 2.0)


def test_failures_are_counted_by_kind_with_the_first_error_of_each() -> None:
    errors = [ValueError("a"), NoCheckpoint("trial 3 has none"), TrainingFailed("KeyError: b"), NoCheckpoint("c")]
    assert failures(errors, 9) == (
        "2 of 9 trials have no checkpoint and are not candidates: trial 3 has none\n"
        "2 of 9 configurations failed on public rows and drop out: ValueError: a"
    )
    assert failures(errors[2:3], 4) == "1 of 4 configurations failed on public rows and drop out: KeyError: b"


@pytest.mark.parametrize("width", [1.0, 3.0])
def test_a_forecast_of_a_choice_has_its_noise_and_what_it_shows(width: float) -> None:
    """A fifth of mu^2 is the estimate's, whose mean a person moves by the clip's width; or a pair is shared."""
    row = choice_forecast(400, width, dptune.Budget.gdp(2.0))
    sigma = width / 400 / (2.0 * 0.2**0.5)
    assert row == {
        "method": "one private choice on public rows", "mu": 2.0, "trials": "any", "noise of": "the improvement",
        "sigma": pytest.approx(sigma, rel=1e-5), "shows": pytest.approx(3.604817 * sigma, rel=1e-5), "warning": "",
    }  # fmt: skip
    pure = choice_forecast(400, width, dptune.Budget.approximate_dp(1.0, 1e-5))
    hidden = [bool(choice_forecast(n, width, dptune.Budget.gdp(1.0))["warning"]) for n in (1, 8, 9, 400)]
    assert hidden == [True, True, False, False]  # 1.96 / (n sqrt(0.2)) of the width, and half of it
    assert pure["sigma"] == pytest.approx(width * 2**0.5 / 400 / 0.1, rel=1e-5)


def test_a_figure_of_a_choice_names_its_points_lines_and_axes(tmp_path: Any) -> None:
    texts = {}
    for place, name in ((3, "better"), (0, "kept"), (3, "alone")):
        p = privatizer(tmp_path / name, noise=Chooses(place))
        default = None if name == "alone" else 0 if name == "kept" else int(np.argmax(PUBLIC.mean(axis=1)))
        V = PUBLIC[::-1] if name == "kept" else PUBLIC
        chosen(dptune.PublicChoice(V, p, name="x", default_place=default))
        charges = p.ledger.charges("x")
        left, right = plt.figure().subplots(1, 2)
        draw_finalists(left, charges)
        draw_improvement(right, charges)
        assert charges[0].note["public_rows"] == PUBLIC.shape[1]
        titles = [(each.get_title(), each.get_xlabel(), each.get_ylabel()) for each in (left, right)]
        assert titles == [
            ("Public rows propose", "rank on public rows", "mean loss of public rows"),
            ("Private people decide", "improvement over your default, and 95% interval", ""),
        ]
        assert [is_choice(charge) for charge in charges] == [True, False][: len(charges)]
        ticks = [each.get_text() for each in right.get_yticklabels()]
        texts[name] = [each.get_label() for each in left.lines], ticks, [each.get_text() for each in right.texts]
        plt.close("all")
    labels = ["finalists", "your default", "chosen by private people"]
    rows = ["public rows\n(cross-validated)", "private people\n(released once)"]
    assert texts == {
        "better": (labels, rows, ["better"]),
        "kept": (labels, [], ["nothing was released about it"]),
        "alone": ([labels[0], labels[2]], [], ["nothing was released about it"]),
    }
    p = privatizer(tmp_path / "without public rows", noise=SeededNoise(0), clip=(0.0, 3.0))
    dptune.select(np.ones((3, p.n)), p, name="x", mu=1.0)
    assert not any(map(is_choice, p.ledger.charges("x")))  # it has no finalists to draw


def test_a_recorded_choice_says_its_day_and_its_number_of_candidates(tmp_path: Any) -> None:
    about: Any = {"name": "x", "default_place": 0, "finalists": 3}
    p = privatizer(tmp_path, noise=Chooses(1))
    found = chosen(dptune.PublicChoice(PUBLIC, p, **about))
    order = np.argsort(PUBLIC.mean(axis=1))
    assert (found.candidates, found.finalists, found.index) == (12, 3, order[1])
    assert found.public_loss == pytest.approx(PUBLIC[order[1]].mean())
    again = dptune.PublicChoice(PUBLIC, p, **about)
    (said,) = recorded_choices(p.ledger)
    recorded, day = again.recorded(), said["charged"]
    assert recorded is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert recorded.summary().splitlines()[:2] == [
        "NOT PRIVATE: the noise was seeded.",
        f"Recorded answer, from {day}. data= played no part: new people need a new ledger.",
    ]
    last = f"Recorded: on {day}; the answer of 'x' is returned, and nothing is charged."
    assert str(again.outlook).splitlines()[-1] == last
    assert again.announcement.startswith(f"Recorded answer of 'x', from {day}. Nothing is charged. data= ")
    rows = {row[""]: row["x"] for row in side_by_side({"x": said})}
    assert rows["verdict"] == f"{found.verdict} (NOT PRIVATE)"
    assert [*rows][:4] == ["ledger", "choice", "charged", "people"]


@pytest.mark.parametrize(("share", "cost"), [(None, "epsilon=4"), (0.3, "mu=")])
def test_a_price_is_the_pair_if_a_choice_has_all_of_it(tmp_path: Any, share: float | None, cost: str) -> None:
    p = privatizer(tmp_path, budget=dptune.Budget.approximate_dp(4.0, 1e-5), noise=Chooses(3))
    choice = dptune.PublicChoice(PUBLIC, p, name="x", default_place=0, report_share=share, loss="brier")
    assert choice.clip == (0.0, 2.0)
    assert chosen(choice).cost.startswith(cost)


def test_laplace_noise_explains_more_than_gaussian_noise() -> None:
    """Three deviations of a normal variable are 4.18 of a Laplace one."""
    for far, laplace, surprising in ((3.1, False, True), (3.1, True, False), (4.1, True, False), (4.3, True, True)):
        gain = PairedEstimate(0.5 + far * 0.01, 0.01, True, laplace=laplace, predicted=0.5, sampling=1e-9)
        assert gain.surprising is surprising
