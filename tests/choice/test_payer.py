"""Every front end accepts a privatizer, a ledger, its path or its URL, and learns whose each row is."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression

import dptune
from dptune.choice.payer import (
    Meaning,
    check_affordable,
    check_choice,
    check_earlier,
    explained,
    privatizer_of,
    rows_of,
)
from dptune.errors import BudgetExhausted, BudgetMismatch, BudgetPlanned, InputError, LedgerError
from dptune.ledger.gdp import Spent
from dptune.results import left_in_words
from dptune_optuna import choose

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), RNG.integers(2, size=60)
ROWS = 40
DATA = RNG.normal(size=(ROWS, 2)), RNG.integers(2, size=ROWS)
GROUPS = np.arange(ROWS) // 2
BUDGET = dptune.Budget.gdp(1.0)
MODEL = LogisticRegression().fit(X, Y)


def selected(ledger: Any, **people: Any) -> object:
    candidates = [MODEL, LogisticRegression(C=0.01).fit(X, Y)]
    return dptune.select(candidates, ledger, data=DATA, loss="zero_one", mu=0.5, **people)


def reported(ledger: Any, **people: Any) -> object:
    return dptune.report(MODEL, ledger, data=DATA, public=(X, Y), mu=0.5, bins=4, **people).to_dict()


def chosen(ledger: Any, **people: Any) -> object:
    study = optuna.create_study(study_name="s", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("C", 0.1, 9.0), 3)
    about: dict[str, Any] = {"data": DATA, "loss": "zero_one", "public": (X, Y), "progress": False}
    return choose(study, LogisticRegression(), ledger=ledger, mu=0.5, **about, **people).selection


@pytest.mark.parametrize("answer", [selected, reported, chosen])
def test_every_form_of_a_ledger_gets_the_answer_that_was_paid(answer: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = dptune.PrivacyLedger(path, BUDGET)
    first = answer(ledger)
    for payer in (path, str(path), f"sqlite:///{path}", dptune.LossPrivatizer(ledger, n=ROWS, clip=(0.0, 1.0))):
        assert answer(payer) == first
    assert ledger.spent() == pytest.approx(0.5)


@pytest.mark.parametrize("answer", [selected, reported, chosen])
def test_groups_are_people(answer: Any, tmp_path: Path) -> None:
    answer(dptune.PrivacyLedger(tmp_path / "ledger.db", BUDGET), groups=GROUPS)
    with pytest.raises(dptune.errors.BudgetMismatch):  # the ledger protects 20 people
        answer(tmp_path / "ledger.db")


@pytest.mark.parametrize("answer", [selected, reported, chosen])
def test_people_who_are_given_twice_are_refused(answer: Any, tmp_path: Path) -> None:
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", BUDGET)
    with pytest.raises(InputError, match="groups= cannot be given with a LossPrivatizer"):
        answer(dptune.LossPrivatizer(ledger, n=ROWS, clip=(0.0, 1.0)), groups=GROUPS)
    twice: dict[str, Any] = {"groups": GROUPS, "n": ROWS, "budget": BUDGET, "person_weights": np.ones(ROWS)}
    for name, value in twice.items():
        with pytest.raises(InputError, match=f"{name}= cannot be given with a LossPrivatizer, which has its own"):
            privatizer_of(dptune.LossPrivatizer(ledger, n=ROWS, clip=(0.0, 1.0)), DATA, **{name: value})
    with pytest.raises(InputError, match="ledger must be a PrivacyLedger, its path or URL"):
        answer(3)
    assert ledger.spent() == 0


def test_a_refused_price_names_the_latest_runs_first(tmp_path: Path) -> None:
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", BUDGET)
    names = "one", "two", "three", "four"
    for name in names:
        dptune.select(DATA[0].T.repeat(2, axis=0), ledger, name=name, mu=0.49, clip=(0, 1))
    with pytest.raises(dptune.errors.BudgetExhausted) as refused:
        reported(ledger)
    (listed,) = re.findall(r"Charged before: (.*?)\.", str(refused.value))
    assert re.findall(r"'(\w+)' on ", listed) == [*reversed(names)][:3]


# ---- what a name means, and what a refusal says ------------------------------------------------------------


def of_study(seed: int = 0, rate: float = 1.0, **asked: Any) -> Meaning:
    """A front end's choice: its configurations and public losses follow from the seed."""
    about = {"configurations": f"c{seed}", "public losses": f"p{seed}", "default": seed, "mu": 0.5}
    return Meaning({**about, "default configuration": f'{{"C": {rate}, "depth": 3}}', **asked}, {"seed": seed})


DIGESTS = "public losses (other public rows, folds, seeds or training code)"
SPACE = "configurations (another space, seed or number of candidates)"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (of_study(), ""),
        (of_study(7), "seed (0, now 7)"),  # the rest follows from it
        (of_study(7, mu=0.25), "mu (0.5, now 0.25); seed (0, now 7)"),
        (of_study(rate=0.5), "default configuration (C = 1, now C = 0.5)"),
        (of_study(**{"public losses": "x"}), DIGESTS),
        (of_study(configurations="x"), SPACE),
        (of_study(configurations="x", **{"public losses": "x"}), f"{SPACE}; {DIGESTS}"),
        (of_study(**{"default configuration": "{}"}), "default configuration (C = 1, depth = 3, now none)"),
        (of_study(**{"default configuration": None}), 'default configuration ({"C": 1.0, "depth": 3}, now None)'),
        (Meaning({"unknown": 3}), ""),
    ],
)
def test_a_choice_says_in_what_it_differs_from_another_one(other: Meaning, said: str) -> None:
    assert other.differences({"asked": of_study().asked, "told": {"seed": 0}}) == said


def test_candidates_and_losses_follow_from_the_number_of_candidates() -> None:
    was, now = ({"candidates": m, "public losses": str(m), "configurations": str(m), "mu": 1} for m in (3, 4))
    assert Meaning(now).differences({"asked": was}) == "candidates (3, now 4)"


@pytest.mark.parametrize(
    ("plan", "recorded", "said"),
    [
        ({"mu": 1.0}, True, "belongs to a search, a report or a choice without public rows."),
        ({"asked": {"n": 1}}, False, "belongs to another choice: it differs in n (1, now 2)."),
        (
            {"asked": {"n": 1}},
            True,
            "belongs to another choice: it differs in n (1, now 2). The answer of that choice stays recorded.",
        ),
    ],
)
def test_a_name_that_is_taken_is_refused_with_what_differs(plan: Any, recorded: bool, said: str) -> None:
    with pytest.raises(BudgetMismatch) as refused:
        Meaning({"n": 2}).refuse_other("svm", plan, recorded=recorded)
    assert str(refused.value) == (
        f"the name 'svm' {said} Give this choice another name= (it is then a new choice, and is charged again), or "
        "what it had. Nothing was charged."
    )
    Meaning({"n": 2}).refuse_other("svm", {"asked": {"n": 2}}, recorded=recorded)


class Told:
    """A ledger of runs, the latest first, and their plans."""

    mu, budget = 1.0, dptune.Budget.gdp(1.0)
    runs_: tuple[tuple[str, str], ...] = (("d", "2026-01-05"), ("c", "2026-01-04"), ("b", "2026-01-03"), ("a", "x"))

    def __init__(self, **plans: Any) -> None:
        self.plans = plans

    def runs(self) -> list[tuple[str, str]]:
        return [*self.runs_]

    def facts(self, name: str) -> dict[str, Any]:
        return self.plans

    def remaining(self) -> float:
        return 0.25


BEFORE = "Charged before: 'd' on 2026-01-05, 'c' on 2026-01-04, 'b' on 2026-01-03."
MORE = "To allow more for these people, raise the budget: `dptune raise-budget`. Other people need another ledger."
DIFFERS = "This choice differs from 'c' in {}. Repeat what was run then for its recorded answer, at no cost."
STUDY = {"asked": of_study().asked, "told": {"seed": 0}}


@pytest.mark.parametrize(
    ("plans", "meaning", "said"),
    [
        ({}, of_study(), ()),
        ({"d": {"mu": 1.0}, "c": STUDY, "b": STUDY}, of_study(7), (DIFFERS.format("seed (0, now 7)"),)),
        ({"c": STUDY}, of_study(), ("It is the choice 'c': under that name its recorded answer costs nothing.",)),
        ({"c": STUDY}, Meaning({}), ()),
    ],
)
def test_a_budget_that_is_spent_says_by_what_and_what_to_do(plans: Any, meaning: Meaning, said: Any) -> None:
    ledger: Any = Told(**plans)
    for mu, asked in ((None, ()), (0.5, ("mu=0.5 was asked for.",))):
        error = BudgetExhausted(0.5, 0.25, 1.0)
        with pytest.raises(BudgetExhausted) as refused, explained(ledger, meaning, mu):
            raise error
        lines = ("Budget left: mu=0.25 of 1.", *asked, BEFORE, *said, MORE, "Nothing was charged.")
        assert str(refused.value) == " ".join(lines)
    with pytest.raises(BudgetPlanned) as planned, explained(ledger, Meaning({}), None):
        raise BudgetPlanned(0.25, 1.0, ("r", "s", "t", "u"))
    taken = "What is left is planned by 'r', 's', 't': give mu= to take of it."
    assert str(planned.value) == " ".join(("Budget left: mu=0.25 of 1.", taken, BEFORE, MORE, "Nothing was charged."))


def test_another_ledger_of_the_same_people_is_named_with_both_identities(tmp_path: Path) -> None:
    ledger, said = dptune.PrivacyLedger(tmp_path / "ledger.db", BUDGET, dataset="mine"), list[str]()
    kept = {"ledger": "mine", "identity": "0123456789abcdef", "charged": "2026-01-02", "mark": None}
    check_earlier(ledger, [kept, {**kept, "ledger": "theirs"}], said.append)
    assert said == [
        "This search asked 'mine' on 2026-01-02 through ledger 0123456789ab, and this is ledger "
        f"{ledger.identity[:12]}. If the people are the same, what both spend adds up: use the first one, wherever its "
        "file is now. If they are others, give the ledger a dataset= of its own."
    ]
    selected(ledger)
    here = {**kept, "identity": ledger.identity, "mark": ledger.mark()}
    check_earlier(ledger, [here], said.append)
    with pytest.raises((LedgerError, BudgetMismatch)):  # a file from before that charge
        check_earlier(ledger, [{**here, "mark": {**ledger.mark(), "seq": 9}}], said.append)
    assert len(said) == 1


def test_what_is_kept_for_a_report_is_taken_only_by_a_price(tmp_path: Path) -> None:
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", BUDGET)
    V, L = (np.random.default_rng(0).uniform(size=(3, rows)) for rows in (30, ROWS))
    dptune.select(L, ledger, public_losses=V, name="first", report_share=0.36)
    check_choice(ledger, "first", None)  # a rerun
    check_choice(ledger, "other", 0.5)
    with pytest.raises(BudgetPlanned) as refused:
        check_choice(ledger, "other", None)
    assert (refused.value.left, refused.value.budget) == pytest.approx((0.6, 1.0))
    assert refused.value.runs == ("first",)
    with pytest.raises(BudgetExhausted) as dear:
        check_affordable(ledger, "other", 0.7, Meaning({}))
    assert (dear.value.asked, type(dear.value)) == (0.7, BudgetExhausted)
    assert [check_affordable(ledger, name, 0.5, Meaning({})) for name in ("first", "other", None)] == [
        True,
        False,
        False,
    ]
    dptune.select(L, ledger, public_losses=V, name="last", mu=0.1, even_if_hopeless=True)
    with pytest.raises(BudgetPlanned) as refused:
        check_choice(ledger, "other", None)  # the choice that took a part for a price takes no more for others
    assert refused.value.runs == ("first",)
    with pytest.raises(BudgetPlanned):
        dptune.select(L, ledger, clip=(0.0, 1.0), name="without public rows")
    reported(ledger)
    check_choice(ledger, "other", None)
    known: Any = SimpleNamespace(facts=lambda name: {"a": {"asked": {"configurations": "c1"}}})
    assert check_affordable(known, None, None, Meaning({"configurations": "c1"}))
    assert check_affordable(known, None, None, Meaning({}))  # it may be this one
    assert rows_of(np.zeros((4, 4))) == 4
    left = dptune.PrivacyLedger(tmp_path / "left.db", dptune.Budget.gdp(0.45678))
    assert left_in_words(left) == left_in_words(left, Spent()) == "Budget left: mu=0.4567 of 0.4568."  # rounded down
