"""Plans, their ledgers and joint statements say what is true, to the letter."""

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

from dptune import Budget, InputError, PlanComplete, PrivacyLedger
from dptune.ledger.approximate import ACCOUNTANT, PURE_ACCOUNTANT, Limits
from dptune.ledger.budget_ledger import REPLACE_ONE
from dptune.ledger.dominating import Gaussian
from dptune.ledger.events import GaussianRelease
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join, noise_multipliers, profiles
from dptune.training.joint import CONDITIONS, JointStatement, _released
from dptune.training.repeats import one_of, repeat_and_select
from refusals import refused

ONE, LAW = TrainingPlan(2.0, 0.1, 20), Repeats.geometric(5)
SAID = "one training of 20 steps, noise multiplier 2, sampling rate 0.1"
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Repeats.geometric(1.0), "the mean number of repeats must be above 1; got 1.0."),
    (
        lambda: TrainingPlan(0.05, 0.1, 10),
        "the noise multiplier (z, or noise_multiplier) must be finite and at least 0.1; got 0.05. Less noise protects "
        "nobody.",
    ),
    (lambda: profiles.epsilon_of([ONE], 1.0), "delta must lie strictly between 0 and 1; got 1.0."),
    (lambda: Repeats(3, -0.5), "shape must be a number >= 0, or None for Poisson; got -0.5."),
    (lambda: SelectionPlan(5), "repeats must be the law of their number, e.g. Repeats.geometric(10)."),
    (
        lambda: SelectionPlan(LAW),
        "give training=, if these people are trained on, score_mu=, if they score, or both.",
    ),
    (
        lambda: SelectionPlan(LAW, TrainingPlan(2.0, 0.1, 20, 2)),
        "training must be the plan of one training: repeats says how many there are.",
    ),
    (
        lambda: TrainingPlan.of_event(dp_event.GaussianDpEvent(2.0)),
        "a TrainingPlan is a number of Poisson-sampled Gaussian steps, SelfComposedDpEvent(PoissonSampledDpEvent(rate, "
        "GaussianDpEvent(noise)), steps); got GaussianDpEvent. Other samplings are not supported.",
    ),
    (lambda: one_of([{}, {}], [1.0, 2.0, 3.0]), "odds must have one number for each of 2 candidates; got 3."),
    (lambda: one_of(None, [1.0]), "odds= needs candidates=, the list that they belong to."),
    (lambda: one_of([]), "candidates is empty: give configurations, or leave it out to draw from the whole space."),
    (
        lambda: repeat_and_select(lambda: modle(rates), [], clip=(0.0, 1.0)),  # noqa: F821 - typing errors
        "once uses modle, rates, which is not defined: every repeat would fail. Nothing was charged. Define it, and "
        "try once() on public rows.",
    ),
    (
        lambda: repeat_and_select(lambda: None, [], clip=(0.0, 1.0)),
        "ledgers must be TrainingLedgers of one SelectionPlan for each population, all with the same repeats. Exactly "
        "one of them must have score_mu: the people whose losses choose.",
    ),
]


def test_a_refusal_of_a_plan_or_a_selection_says_what_to_give() -> None:
    for act, text in REFUSED:
        refused(InputError, f"^{re.escape(text)}$", act)
    assert [Repeats(mean, shape).mean for mean, shape in ((1, None), (1.5, 0), (1.5, 2.5))] == [1, 1.5, 1.5]


def test_plans_describe_themselves_in_words() -> None:
    said = {
        ONE: SAID,
        TrainingPlan(2.0, 0.1, 20, 3): "3 trainings of 20 steps, noise multiplier 2, sampling rate 0.1 each",
        SelectionPlan(
            LAW, ONE, 0.5
        ): f"the best of a geometric number of repeats of mean 5; {SAID}; a score of mu = 0.5 each",
        SelectionPlan(Repeats(9, 2.5), score_mu=0.5): "the best of a truncated negative binomial (shape 2.5) number of "
        "repeats of mean 9; a score of mu = 0.5 each",
    }
    assert {plan: str(plan) for plan in said} == said


# ---- the ledger of a plan ----------------------------------------------------------------------------------

FLOATS = "from the library that trains, in floating point (an ordinary generator, such as PyTorch's own, in {} charges"
PLD = "privacy loss distributions (dp-accounting, add-or-remove relation, pessimistic rounding)"


def test_a_ledger_of_trainings_counts_which_generators_they_had(fast_path: Path) -> None:
    ledger = TrainingLedger(fast_path / "t.db", TrainingPlan(2.0, 0.1, 20, 3), n=900)
    for secure in (True, False, True):
        ledger.begin(secure=secure)
    statement = ledger.statement(delta=1e-4)
    rows = dict(statement.rows())
    assert rows["Made so far"] == "3 of 3 trainings"
    assert rows["Plan"] == str(ledger.plan)
    assert rows["Guarantee"].endswith(" at delta = 0.0001, for the whole plan")
    assert rows["Accountant"] == f"{PLD}; the plan was fixed before the first training"
    assert rows["Mechanisms"] == f"DP-SGD: {ledger.plan} (3)"
    assert rows["Trust model"] == (
        "trusted curator: one process trains; everybody else sees the models that the plan lets out, or the best only"
    )
    assert statement.noise == f"of DP-SGD: {FLOATS.format('1 of 3')}, else a secure one)"
    assert [warning.partition(",")[0] for warning in statement.warnings] == [
        "1 training drew noise and samples from an ordinary generator"
    ]
    said = f"all of the plan is begun ({ledger.plan}); it is fixed for good. More trainings need a ledger of their "
    refused(PlanComplete, f"^{re.escape(said)}", partial(ledger.begin, secure=True))
    assert ledger.count() == 3


def test_a_ledger_of_a_selection_counts_one(fast_path: Path) -> None:
    ledger = TrainingLedger(fast_path / "s.db", SelectionPlan(LAW, score_mu=0.5), n=900)
    ledger.begin_selection("settings", secure=True)
    charge = ledger.begin_selection("settings", secure=True)
    assert (ledger.count(), charge.value) == (1, None)
    rows = dict(ledger.statement(delta=1e-4).rows())
    assert rows["Made so far"] == "1 of 1 selection"
    assert rows["Mechanisms"] == f"repeat and select: {ledger.plan} (1)"


def test_the_noise_of_trainings_is_named_before_that_of_scores(fast_path: Path) -> None:
    ledger = TrainingLedger(fast_path / "s.db", SelectionPlan(LAW, ONE, 0.5), n=900)
    noise = ledger.statement(delta=1e-4).noise.split("; of scores: ")
    assert noise[0] == f"of DP-SGD: {FLOATS.format('0 of 0')}, else a secure one)"
    assert noise[1].startswith("OpenDP")


# ---- costs -------------------------------------------------------------------------------------------------


def test_accountants_are_named_after_the_parts() -> None:
    selection, gaussian, choices = SelectionPlan(LAW, ONE), Gaussian(1.0), Limits(0.0, 1.0).profiles()
    product = f"; {profiles.PRODUCT}"
    for parts, words in (
        ([ONE], profiles.PLD),
        ([ONE, ONE, gaussian], profiles.PLD),
        ([ONE, *choices], profiles.PLD + product),
        ([selection], profiles.PROFILE),
        ([selection, ONE], profiles.PROFILE + product),
    ):
        assert profiles.accountant_of(parts) == words
    assert profiles.PLD == PLD
    assert "Zhu, Dong & Wang 2022" in profiles.PRODUCT
    assert "Papernot & Steinke, theorems 2 and 6" in profiles.PROFILE


def test_noise_multipliers_asks_for_what_the_people_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for the least noise is replaced: it shows the parts that noise of 3.0 would have, and the budget."""
    monkeypatch.setattr(profiles, "epsilon_of", lambda parts, delta: (parts, delta))
    monkeypatch.setattr(profiles, "least_noise", lambda cost, epsilon: (cost(3.0), epsilon))
    once = TrainingPlan(3.0, 0.1, 20)

    def asked(**more: Any) -> dict[str, Any]:
        found: Any = noise_multipliers(**{"epsilon": 2.0, "delta": 1e-6, "sample_rate": 0.1, "steps": 20, **more})
        assert {(delta, epsilon) for (_, delta), epsilon in found.values()} == {(1e-6, 2.0)}
        return {way: parts for way, ((parts, _), _) in found.items()}

    laws = {"geometric": Repeats.geometric(9), "poisson": Repeats.poisson(9)}
    whole = [TrainingPlan(3.0, 0.1, 20, 9)]
    assert asked(trainings=9) == {
        "composition": whole,
        **{way: [SelectionPlan(law, once)] for way, law in laws.items()},
    }
    scored = asked(trainings=9, score_mu=0.5)
    assert scored["composition"] == [*whole, Gaussian(1.5)]
    assert scored["poisson"] == [SelectionPlan(laws["poisson"], once, 0.5)]
    assert asked(trainings=1) == {"composition": [once]}
    assert list(asked(trainings=9, ways=("poisson",))) == ["poisson"]


def test_the_smaller_of_two_bounds_holds_from_its_own_epsilon_and_delta_on() -> None:
    curve = Gaussian(1.0)
    smaller = profiles._Smaller(curve, at=1e-3, most=0.5)
    assert [smaller.delta(e) for e in (0.4, 0.5, 0.6)] == [curve.delta(0.4), 1e-3, 1e-3]
    assert [smaller.epsilon(d) for d in (1e-4, 1e-3, 1e-2)] == [curve.epsilon(1e-4), 0.5, 0.5]


# ---- joint statements ----------------------------------------------------------------------------------------

PAY = GaussianRelease(0.1, 1.0, 10.0, 1, "mean")


def test_every_row_of_a_joint_statement_comes_from_its_parts(fast_path: Path) -> None:
    one = PrivacyLedger(fast_path / "one.db", Budget.gdp(0.6), dataset="wards", unit="one person")
    two = PrivacyLedger(fast_path / "two.db", Budget.gdp(0.8), dataset="labs", unit="one clinic")
    three = PrivacyLedger(fast_path / "three.db", Budget.gdp(0.8), dataset="labs", unit="one person")
    apart, together = join([one, two], disjoint=True, delta=1e-5), join([one, three], delta=1e-5)
    heads = [each.rows()[:5] for each in (apart, together)]
    for statement, rows in zip((apart, together), heads, strict=True):
        assert [name for name, _ in rows] == ["Protects", "Guarantee", "Conditions", "Adjacency", "Accountant"]
        assert rows[3:] == (("Adjacency", statement.adjacency), ("Accountant", statement.accountant))
        assert rows[0][1] == "; ".join(part.protects for part in statement.parts)
        listed = [("", ""), ("Part", "wards"), *statement.parts[0].rows()[1:], ("", ""), ("Part", "labs")]
        assert list(statement.rows()[5 : 5 + len(listed)]) == listed
    assert heads[0][1][1] == "epsilon = 3.387 at delta = 1e-05, for one clinic or one person"
    assert heads[1][1][1] == "epsilon = 4.378 at delta = 1e-05, for one person"
    assert [rows[2][1] for rows in heads] == [CONDITIONS, "none: a person may be in every part"]
    assert apart.accountant == (
        "the largest epsilon of the parts: each person is in one, and the others' releases do not read it"
    )
    assert together.accountant == "Gaussian differential privacy; mu^2 is the sum of the ledgers' mu^2"
    for statement in (apart, together):
        said = [f"n of {name!r} is not stated yet." for name in ("wards", "labs")]
        assert list(statement.warnings) == said
        assert statement.to_dict()["disjoint"] == (statement is apart)
    said = "the ledgers protect different units (one clinic; one person), whose costs do not add up."
    refused(InputError, f"^{re.escape(said)}$", partial(join, [one, two], delta=1e-5))
    rows = PrivacyLedger(fast_path / "rows.db", Budget.gdp(1.0), dataset="rows", max_change=0.5, unit="one person")
    said = f"the guarantee of the ledger of 'rows' cannot be added to another: {rows.adjacency}. Ledgers of disjoint "
    refused(InputError, f"^{re.escape(said)}people can still be joined", partial(join, [one, rows], delta=1e-5))


def test_a_late_ledger_among_namesakes_is_named_by_its_identity(fast_path: Path) -> None:
    def joint(*names: str) -> JointStatement:
        made = []
        for place, name in enumerate(names):
            made.append(PrivacyLedger(fast_path / f"{names}{place}.db", Budget.gdp(1.0), dataset=name))
            made[0].charge("run", str(place), PAY, digest="d")
        late = join(made, delta=1e-5)
        named = made[1].dataset if len({*names}) == 2 else f"{made[1].dataset}, ledger {made[1].identity[:12]}"
        assert late.late == (named,)
        assert any(named in each for each in late.warnings)
        return late

    found = joint("a", "b")
    assert found.to_dict()["conditions"] == "what the warnings name; a person may be in every part"
    assert found.mechanisms == tuple(each for part in found.parts for each in part.mechanisms)
    assert (found.releases, found.trust_model, found.noise) == (2, found.parts[0].trust_model, found.parts[0].noise)
    assert found.not_covered == found.parts[1].not_covered
    joint("a", "a")


def test_a_seeded_training_is_said_to_protect_nobody(fast_path: Path) -> None:
    ledger = TrainingLedger(fast_path / "t.db", TrainingPlan(2.0, 0.1, 20, 3), n=900)
    ledger.begin(secure=True, private=False)
    statement = ledger.statement(delta=0.4)
    assert (statement.epsilon, statement.noise) == (math.inf, "A SEEDED GENERATOR")
    seeded = "NOT PRIVATE: noise or samples of a training came from a known seed; epsilon = infinity."
    assert [each.partition(": choose")[0] for each in statement.warnings] == [
        seeded,
        "delta = 0.4 is not below 1/n = 0.00111111",
    ]


def test_a_joint_statement_names_the_accountants_of_what_it_adds() -> None:
    """One Gaussian and one choice have a closed form; all else is a product."""
    gdp = "Gaussian differential privacy; mu^2 is the sum of the ledgers' mu^2"
    product = "of ledgers that each have such limits, the product of what dominates each (Zhu, Dong & Wang 2022)"
    for exposures, words in (
        ([Limits(0.6), Limits(0.8)], [gdp]),
        ([Limits(0.6), Limits(0.8, 0.5)], [gdp, ACCOUNTANT]),
        ([Limits(0.6, 0.5), Limits(0.8, 0.5)], [gdp, ACCOUNTANT, product]),
        ([Limits(0.6), Limits(0.0, 0.0, 0.5)], [gdp, PURE_ACCOUNTANT, product]),
    ):
        assert _released(exposures, 1e-5)[1:] == (REPLACE_ONE, "; ".join(words))
