"""Every front end accepts a privatizer, a ledger, its path or its URL, and learns whose each row is."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression

import dptune
from dptune.choice.payer import privatizer_of
from dptune.errors import InputError
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
