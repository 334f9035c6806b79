"""The ledger's contract. Every test with a ``url`` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import copy
import json
import math
import multiprocessing
import pickle
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from dptune import (
    Budget,
    BudgetExhausted,
    BudgetMismatch,
    InputError,
    KeyConflict,
    LedgerError,
    LossPrivatizer,
    PlanComplete,
    PrivacyLedger,
)
from dptune.accounting.events import GaussianRelease, LaplaceRelease, PureRelease
from dptune.accounting.gdp import epsilon_from_mu, remaining_mu
from dptune.accounting.ledger import PLAN, Limit, Rest

Urls = Callable[[], str]


def gaussian(mu: float, statistic: str = "mean") -> GaussianRelease:
    return GaussianRelease(mu, sensitivity=1.0, sigma=1 / mu, dimension=1, statistic=statistic)


def pay(ledger: PrivacyLedger, key: str, mu: float = 1.0, **settings: Any) -> Any:
    settings = {"digest": "question", **settings}
    return ledger.charge(settings.pop("scope", "study"), key, gaussian(mu), **settings)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, fast_path: Path) -> Urls:
    """Return a factory of places for a new ledger."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql")
    names = iter(range(10_000))
    return lambda: str(fast_path / f"ledger{next(names)}.db")


@pytest.fixture
def url(new_url: Urls) -> str:
    return new_url()


# ---- charging ------------------------------------------------------------------------------------------


def test_a_charge_is_paid_once_per_key(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    first = pay(ledger, "a", note={"theta": [0.5]})
    assert (first.scope, first.key, first.mu, first.private, first.value) == ("study", "a", 1.0, True, None)
    assert first.note == {"theta": [0.5]}
    again = pay(ledger, "a", note={"theta": [0.5]})
    assert again == first
    assert ledger.spent() == 1.0
    assert pay(ledger, "a", scope="other study").seq != first.seq
    assert ledger.spent() == math.sqrt(2)
    assert [c.key for c in ledger.charges("study")] == ["a"]


@pytest.mark.parametrize("change", [{"digest": "another question"}, {"private": False}])
def test_a_key_answers_one_question(url: str, change: dict[str, Any]) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    pay(ledger, "a")
    with pytest.raises(KeyConflict, match="another"):
        pay(ledger, "a", **change)
    assert ledger.spent() == 1.0
    assert ledger.private


def test_the_budget_is_never_passed_and_the_error_says_what_is_left(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    for step in range(3):
        pay(ledger, str(step), 0.5)
    with pytest.raises(BudgetExhausted) as refused:
        pay(ledger, "too much", 0.75)
    error = refused.value
    assert (error.asked, error.budget) == (0.75, 1.0)
    assert error.left == pytest.approx(0.5)
    assert "0.75" in str(error)
    assert "0.5" in str(error)
    assert len(ledger.charges()) == 3
    restored = pickle.loads(pickle.dumps(error))
    assert (restored.asked, restored.left, restored.budget) == (error.asked, error.left, error.budget)
    pay(ledger, "3", 0.5)
    assert ledger.spent() == pytest.approx(1.0, rel=1e-12)
    assert ledger.remaining() == 0.0
    pay(ledger, "3", 0.5)  # paid already: a retry is free on an empty ledger
    with pytest.raises(BudgetExhausted):
        pay(ledger, "4", 1e-5)


def test_check_refuses_what_charge_would_refuse_and_writes_nothing(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    ledger.check(0.5, releases=4)
    with pytest.raises(BudgetExhausted):
        ledger.check(0.5, releases=5)
    assert ledger.charges() == []


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_a_charge_without_a_price_is_refused(url: str, mu: float) -> None:
    class Free:
        mechanism = "free lunch"

        def __init__(self) -> None:
            self.mu = mu

        def describe(self) -> dict[str, object]:
            return {}

    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    with pytest.raises(InputError, match="mu"):
        ledger.charge("s", "k", Free(), digest="d")
    assert ledger.charges() == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0.05, 0.9)), max_size=15))
def test_any_sequence_of_charges_stays_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, float]]
) -> None:
    ledger = PrivacyLedger(tmp_path_factory.mktemp("ledger") / "x.db", Budget.gdp(1.0))
    paid: dict[str, float] = {}
    for key, mu in asked:
        try:
            charge = pay(ledger, key, mu)
        except BudgetExhausted:
            assert sum(m * m for m in paid.values()) + mu * mu > 1 - 1e-9
        else:
            assert charge.mu == paid.setdefault(key, mu)
    assert {c.key: c.mu for c in ledger.charges()} == paid
    assert ledger.spent() <= 1 + 1e-12


# ---- recording -----------------------------------------------------------------------------------------


def test_the_first_recorded_value_is_everybodys(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    charge = pay(ledger, "a")
    assert ledger.find("study", "a") == charge
    assert ledger.record(charge, [0.1, -2.5]).value == (0.1, -2.5)
    assert PrivacyLedger(url).record(charge, [9.0, 9.0]).value == (0.1, -2.5)
    assert ledger.find("study", "a").value == (0.1, -2.5)
    assert pay(ledger, "a").value == (0.1, -2.5)
    assert ledger.find("study", "b") is None
    assert ledger.find("other", "a") is None


def test_an_orphan_is_answered_later_at_no_cost(url: str) -> None:
    pay(PrivacyLedger(url, Budget.gdp(1.0)), "a")
    ledger = PrivacyLedger(url)
    orphan = pay(ledger, "a")
    assert orphan.value is None
    assert ledger.record(orphan, [0.5]).value == (0.5,)
    assert ledger.spent() == 1.0


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_values_are_stored_exactly(tmp_path_factory: pytest.TempPathFactory, value: list[float]) -> None:
    ledger = PrivacyLedger(tmp_path_factory.mktemp("ledger") / "x.db", Budget.gdp(1.0))
    assert ledger.record(pay(ledger, "a"), value).value == tuple(value)


def test_charges_are_listed_in_order_by_scope_and_prefix(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(9.0))
    for scope, key in [("s", "value/1"), ("t", "value/1"), ("s", "step/1"), ("s", "value/2"), ("s", "value%")]:
        pay(ledger, key, scope=scope)
    assert [(c.scope, c.key) for c in ledger.charges()][:3] == [("s", "value/1"), ("t", "value/1"), ("s", "step/1")]
    assert [c.key for c in ledger.charges("s", prefix="value/")] == ["value/1", "value/2"]
    assert [c.key for c in ledger.charges("s", prefix="value%")] == ["value%"]
    assert [c.seq for c in ledger.charges()] == sorted(c.seq for c in ledger.charges())


def test_charges_are_counted_by_scope_and_prefix(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(9.0))
    for scope, key in [("s", "value/1"), ("t", "value/1"), ("s", "step/1"), ("s", "value/2"), ("s", "value%")]:
        pay(ledger, key, scope=scope)
    assert ledger.count() == 5
    assert (ledger.count("s"), ledger.count("s", prefix="value/"), ledger.count("s", prefix="value%")) == (4, 2, 1)
    assert (ledger.count("u"), ledger.count(prefix="value/")) == (0, 3)


@given(st.lists(st.sampled_from([0.1, 0.1 + 2**-50, 1 / 3, 1e-9, 0.7]), max_size=20))
@settings(max_examples=40, deadline=None)
def test_the_sum_over_the_ledger_is_exact(tmp_path_factory: pytest.TempPathFactory, mus: list[float]) -> None:
    ledger = PrivacyLedger(tmp_path_factory.mktemp("ledger") / "x.db", Budget.gdp(9.0))
    for number, mu in enumerate(mus):
        pay(ledger, str(number), mu)
    assert ledger.spent() == math.sqrt(math.fsum(mu * mu for mu in mus))
    assert ledger.remaining() == remaining_mu(mus, 9.0)


def test_a_look_at_the_budget_reads_no_charge(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    for number in range(3):
        pay(ledger, str(number), 0.1)
    pay(ledger, "seeded", 0.1, private=False)
    monkeypatch.setattr("dptune.accounting.durable._charge", lambda row: pytest.fail("a charge was read"))
    ledger.check(0.5, releases=2)
    assert (ledger.spent(), ledger.count(), ledger.private) == (0.2, 4, False)
    assert ledger.remaining() < 2.0


# ---- append only ---------------------------------------------------------------------------------------

TABLES = ["dptune_ledger", "dptune_facts", "dptune_charges", "dptune_releases"]


def full_ledger(url: str) -> PrivacyLedger:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    ledger.bind_people(7)
    ledger.record(pay(ledger, "a"), [0.5])
    return ledger


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("sql", ["DELETE FROM {t}", "UPDATE {t} SET {c} = {c}"])
def test_no_row_is_changed_or_removed(url: str, table: str, sql: str) -> None:
    ledger = full_ledger(url)
    column = {"dptune_ledger": "mu", "dptune_facts": "value", "dptune_charges": "mu", "dptune_releases": "value"}[table]
    with ledger._engine.connect() as connection:
        count = connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()
        assert count > 0  # a row-wise trigger does not see an empty table
        with pytest.raises(sa.exc.DBAPIError, match="append-only"):
            connection.execute(sa.text(sql.format(t=table, c=column)))
    assert ledger.spent() == 1.0


@pytest.mark.parametrize(
    ("table", "columns", "values"),
    [
        ("dptune_ledger", "*", "id, version, 99.0"),
        ("dptune_charges", "*", "seq, scope, key, 1e-9"),
        ("dptune_facts", "*", "scope, name, '{\"is\": 9}'"),
        ("dptune_releases", "*", "charge, '[9.0]'"),
    ],
)
def test_no_row_is_replaced_in_sqlite(fast_path: Path, table: str, columns: str, values: str) -> None:
    """INSERT OR REPLACE deletes without firing DELETE triggers."""
    ledger = full_ledger(str(fast_path / "ledger.db"))
    connection = sqlite3.connect(fast_path / "ledger.db")
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    rest = ", ".join([values, *names[len(values.split(", ")) :]])
    before = connection.execute(f"SELECT * FROM {table}").fetchall()
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(f"INSERT OR REPLACE INTO {table} SELECT {rest} FROM {table}")
    assert connection.execute(f"SELECT * FROM {table}").fetchall() == before
    connection.close()
    assert ledger.spent() == 1.0


def test_there_is_no_way_to_give_back(url: str) -> None:
    ledger = full_ledger(url)
    assert not [name for name in dir(ledger) if any(w in name for w in ("refund", "delete", "reset", "undo", "remove"))]


# ---- opening -------------------------------------------------------------------------------------------


def test_reopened_as_it_was(url: str) -> None:
    budget = Budget.approximate_dp(1.0, 1e-6)
    PrivacyLedger(url, budget, dataset="hospital", unit="one patient")
    for ledger in (PrivacyLedger(url), PrivacyLedger(url, budget), PrivacyLedger(url, dataset="hospital")):
        assert ledger.budget == budget  # to the last bit
        assert (ledger.dataset, ledger.unit) == ("hospital", "one patient")
        assert "replace one" in ledger.adjacency


def ulp_below(mu: float) -> float:
    return math.nextafter(mu, 0)


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (Budget.approximate_dp(4.0, 1e-7), Budget(ulp_below(Budget.approximate_dp(4.0, 1e-7).mu), 4.0, 1e-7)),
        (Budget.approximate_dp(4.0, 1e-7), Budget.gdp(Budget.approximate_dp(4.0, 1e-7).mu)),
        (Budget.gdp(0.3), Budget.gdp(0.1 + 0.2)),
        (Budget.gdp(Budget.approximate_dp(4.0, 1e-7).mu), Budget.approximate_dp(4.0, 1e-7)),
    ],
    ids=["another root", "mu alone", "rounding", "pair alone"],
)
def test_the_same_promise_reopens_and_the_stored_mu_is_the_bound(url: str, made: Budget, given: Budget) -> None:
    PrivacyLedger(url, made)
    ledger = PrivacyLedger(url, given)
    assert ledger.budget == made
    pay(ledger, "all", made.mu)
    assert ledger.remaining() == 0.0
    with pytest.raises(BudgetExhausted):
        pay(ledger, "more", 1e-5)


def test_another_root_of_the_same_pair_leaves_the_stored_bound(url: str) -> None:
    exact = Budget.approximate_dp(4.0, 1e-7)
    stored = Budget(exact.mu * (1 - 5e-10), 4.0, 1e-7)  # of another root finder
    PrivacyLedger(url, stored)
    assert PrivacyLedger(url, exact).budget == stored
    with pytest.raises(BudgetExhausted):
        PrivacyLedger(url, exact).check(exact.mu)


@pytest.mark.parametrize(
    "given",
    [
        Budget(0.5, 4.0, 1e-7),  # the same pair, a smaller mu
        Budget.approximate_dp(4.0, 2e-7),
        Budget.approximate_dp(4.0 + 1e-9, 1e-7),
        Budget.gdp(Budget.approximate_dp(4.0, 1e-7).mu * (1 + 1e-11)),
    ],
)
def test_another_promise_is_refused(url: str, given: Budget) -> None:
    PrivacyLedger(url, Budget.approximate_dp(4.0, 1e-7))
    with pytest.raises(BudgetMismatch, match="budget"):
        PrivacyLedger(url, given)


def test_a_statement_has_the_promise_and_what_is_spent_of_it(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.approximate_dp(4.0, 1e-7))
    pay(ledger, "a", 0.3)
    statement = ledger.statement()
    assert statement.delta == 1e-7
    spent = epsilon_from_mu(0.3, 1e-7)
    for rendered in (statement.to_text(), ledger.statement(delta=1e-5).to_markdown()):
        promised = "epsilon = 4 at delta = 1e-07, as the budget was stated; spent so far: epsilon = 1.436 at"
        assert promised in rendered  # 1.43599
    stated = {"epsilon": 4.0, "delta": 1e-7, "spent_epsilon": spent}
    assert ledger.statement(delta=1e-5).to_dict()["stated"] == stated
    pay(ledger, "b", 0.1, private=False)
    assert "epsilon = 4 " not in str(ledger.statement())
    assert ledger.statement().to_dict()["stated"] == {"epsilon": "infinity", "delta": 1e-7, "spent_epsilon": "infinity"}


def test_a_budget_in_gdp_needs_a_delta_for_its_statement(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    with pytest.raises(InputError, match="delta=1e-5"):
        ledger.statement()
    with pytest.raises(InputError, match="delta"):
        ledger.statement(delta="1e-5")
    assert ledger.statement(delta=1e-5).to_dict()["stated"] is None
    assert "Promised" not in str(ledger.statement(delta=1e-5))


def test_a_stated_delta_that_is_too_large_is_warned_of(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.approximate_dp(1.0, 0.01))
    ledger.bind_people(500)
    assert "delta = 0.01 is not below 1/n" in ledger.statement(delta=1e-5).warnings[0]


@pytest.mark.parametrize(
    "change",
    [{"budget": Budget.gdp(2.0)}, {"dataset": "another"}, {"unit": "one household"}],
    ids=["budget", "dataset", "unit"],
)
def test_reopened_with_another_setting_is_refused(url: str, change: dict[str, Any]) -> None:
    PrivacyLedger(url, Budget.gdp(1.0), dataset="hospital", unit="one patient")
    with pytest.raises(BudgetMismatch, match=next(iter(change))):
        PrivacyLedger(url, **change)
    assert PrivacyLedger(url).budget.mu == 1.0


def test_another_number_of_people_is_refused(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert ledger.n is None
    LossPrivatizer(ledger, n=10, clip=(0, 1))
    LossPrivatizer(PrivacyLedger(url), groups=list(range(10)) * 2, clip=(0, 2))
    with pytest.raises(BudgetMismatch, match="n="):
        LossPrivatizer(ledger, n=11, clip=(0, 1))
    assert PrivacyLedger(url).n == 10


def test_a_new_run_may_count_on_what_is_neither_spent_nor_planned(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(5.0))
    assert ledger.rest() == Rest(5.0, 5.0, ())
    ledger.fix_plan("run", lambda rest: {"mu": 3.0})
    assert ledger.rest() == Rest(5.0, 5.0, ())  # it has not begun to spend
    pay(ledger, "1", 2.0, scope="run")  # of what it has planned
    assert ledger.rest() == Rest(pytest.approx(math.sqrt(21)), pytest.approx(4.0), ("run",))
    pay(ledger, "1", 1.0, scope="no plan")
    pay(ledger, "2", math.sqrt(5), scope="run")  # done
    assert ledger.rest() == Rest(pytest.approx(math.sqrt(15)), pytest.approx(math.sqrt(15)), ())
    pay(ledger, "3", 1.0, scope="run")  # more than it had planned
    assert ledger.rest().unplanned == pytest.approx(math.sqrt(14))
    ledger.fix_plan("two plans of all", lambda rest: {"mu": 5.0})
    pay(ledger, "1", 1.0, scope="two plans of all")
    assert ledger.rest() == Rest(pytest.approx(math.sqrt(13)), 0.0, ("two plans of all",))


def test_a_plan_is_made_once_from_what_is_left_and_a_refusal_writes_nothing(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(5.0))

    def refuse(rest: Rest) -> object:
        raise InputError(f"{rest.unplanned}")

    with pytest.raises(InputError, match=r"5\.0"):
        ledger.fix_plan("run", refuse)
    assert ledger.fact("run", PLAN) is None
    assert ledger.fix_plan("run", lambda rest: {"mu": rest.unplanned}) == {"mu": 5.0}
    assert PrivacyLedger(url).fix_plan("run", refuse) == {"mu": 5.0} == ledger.fact("run", PLAN)


def test_facts_are_fixed_by_the_first_writer(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert ledger.fact("s", "plan") is None
    assert ledger.fix("s", "plan", {"T": 3, "x": [1.5, None, "a"]}) == {"T": 3, "x": [1.5, None, "a"]}
    assert PrivacyLedger(url).fix("s", "plan", "other") == {"T": 3, "x": [1.5, None, "a"]}
    assert ledger.fix("t", "plan", 0) == 0
    with pytest.raises(ValueError, match=r"JSON|float"):
        ledger.fix("s", "bad", math.nan)


def test_a_missing_ledger_is_not_made_without_a_budget(new_url: Urls, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger"):
        PrivacyLedger(new_url())
    with pytest.raises(LedgerError, match="no ledger"):
        PrivacyLedger(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(LedgerError, match="folder"):
        PrivacyLedger(tmp_path / "no folder" / "x.db", Budget.gdp(1.0))


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", ":memory:", "sqlite:///file:x?mode=memory&cache=shared&uri=true"]
)
def test_an_in_memory_ledger_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="in-memory"):
        PrivacyLedger(url, Budget.gdp(1.0))


@pytest.mark.parametrize("url", ["mysql://u@h/d", "://", "oracle+x://h/d"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"SQLite|URL"):
        PrivacyLedger(url, Budget.gdp(1.0))


@pytest.mark.parametrize("budget", [1.0, (1.0, 1e-5), "1"])
def test_a_number_is_not_a_budget(tmp_path: Path, budget: Any) -> None:
    with pytest.raises(InputError, match="Budget"):
        PrivacyLedger(tmp_path / "x.db", budget)


def test_a_damaged_file_and_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, but long enough to look like one" * 50)
    with pytest.raises(LedgerError, match="cannot be used"):
        PrivacyLedger(tmp_path / "text.db", Budget.gdp(1.0))
    PrivacyLedger(tmp_path / "new.db", Budget.gdp(1.0))
    connection = sqlite3.connect(tmp_path / "new.db")
    connection.execute("DROP TRIGGER dptune_ledger_no_UPDATE")
    connection.execute("UPDATE dptune_ledger SET version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="99"):
        PrivacyLedger(tmp_path / "new.db")


@pytest.mark.parametrize("name", ["a b.db", "a%20b.db", "a?b=1.db", "a#b.db", "ä.db"])
def test_a_path_is_taken_literally(tmp_path: Path, name: str) -> None:
    PrivacyLedger(tmp_path / name, Budget.gdp(1.0))
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert pickle.loads(pickle.dumps(PrivacyLedger(tmp_path / name))).budget.mu == 1.0
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("x.db", Budget.gdp(1.0))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    pay(ledger, "a")
    assert pickle.loads(pickle.dumps(ledger)).spent() == 1.0
    assert list((tmp_path / "elsewhere").iterdir()) == []


# ---- copies share the budget ---------------------------------------------------------------------------


def sklearn_clone(ledger: PrivacyLedger) -> PrivacyLedger:
    base = pytest.importorskip("sklearn.base")

    class Search(base.BaseEstimator):
        def __init__(self, ledger: Any = None) -> None:
            self.ledger = ledger

    return base.clone(Search(ledger)).ledger


COPIES = [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy, sklearn_clone]


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "copy", "deepcopy", "clone"])
def test_copies_never_fork_the_budget(url: str, copied: Callable[[PrivacyLedger], PrivacyLedger]) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    other = copied(ledger)
    assert other == ledger
    assert hash(other) == hash(ledger)
    pay(ledger, "a", 0.8)
    pay(other, "b", 0.6)
    for view in (ledger, other):
        assert view.spent() == pytest.approx(1.0)
        with pytest.raises(BudgetExhausted):
            pay(view, "c", 0.01)


def test_a_copy_does_not_make_a_ledger_where_there_is_none(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    packed = pickle.dumps(ledger)
    (fast_path / "x.db").unlink()
    with pytest.raises(LedgerError, match="no ledger"):
        pickle.loads(packed)
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))  # the same budget, unspent: a fork
    with pytest.raises(LedgerError, match="replaced"):
        pickle.loads(packed)
    with pytest.raises(LedgerError, match="replaced"):  # and the object at hand does not spend the new one's budget
        pay(ledger, "a", 0.1)
    assert ledger != "x"


def test_a_ledger_that_was_moved_is_asked_back_and_no_file_is_left_in_its_place(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    pay(ledger, "a", 0.1)
    (fast_path / "x.db").rename(fast_path / "y.db")
    for use in (ledger.spent, lambda: pay(ledger, "b", 0.1), lambda: ledger.check(0.1)):
        with pytest.raises(LedgerError, match=r"x\.db was moved or deleted .* put it back"):
            use()
    assert not (fast_path / "x.db").exists()
    (fast_path / "y.db").rename(fast_path / "x.db")
    assert ledger.spent() == 0.1


def test_a_ledger_made_by_mistake_may_be_deleted_as_long_as_nothing_was_charged(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    ledger.bind_people(150)
    mistakes: list[Callable[[], object]] = [
        lambda: ledger.bind_people(200),
        lambda: PrivacyLedger(url, Budget.gdp(2.0)),
        lambda: PrivacyLedger(url, dataset="other"),
    ]
    for mistake in mistakes:
        with pytest.raises(BudgetMismatch, match=r"Nothing was charged to it yet.*delete it"):
            mistake()
    pay(ledger, "a", 0.1)
    for mistake in mistakes:
        with pytest.raises(BudgetMismatch) as refused:
            mistake()
        assert "delete" not in str(refused.value)


def test_a_new_ledger_says_where_it_is(fast_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    assert f"created a new ledger, nothing spent yet: sqlite:///{fast_path}/x.db" in caplog.text
    caplog.clear()
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    assert caplog.text == ""


def test_a_limit_holds_in_the_charging_transaction(url: str) -> None:
    ledger, limit = PrivacyLedger(url, Budget.gdp(1.0)), Limit("value/", 2)
    for key in ("value/0", "value/1", "value/1"):  # a retry is not a further charge
        pay(ledger, key, 0.1, limit=limit)
    pay(ledger, "step/1", 0.1, limit=Limit("step/", 1))
    pay(ledger, "value/2", 0.1, scope="other", limit=limit)
    with pytest.raises(PlanComplete):
        pay(ledger, "value/2", 0.1, limit=limit)
    assert len(ledger.charges("study")) == 3


@pytest.mark.parametrize("level", ["repeatable read", "serializable", "read committed"])
def test_the_server_s_default_isolation_cannot_overspend(url: str, level: str) -> None:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    if ledger._engine.dialect.name == "postgresql":
        with ledger._engine.connect() as connection:
            role = connection.exec_driver_sql("SELECT current_user").scalar_one()
            connection.exec_driver_sql(f"ALTER ROLE \"{role}\" SET default_transaction_isolation = '{level}'")
            connection.commit()
    barrier = threading.Barrier(4)

    def attempt(i: int) -> bool:
        barrier.wait()
        try:
            pay(ledger, str(i), 0.9)
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(4))) == 1
    assert ledger.spent() == 0.9


# ---- reading -------------------------------------------------------------------------------------------


def test_any_sqlite_client_can_read_it(fast_path: Path) -> None:
    full_ledger(str(fast_path / "ledger.db"))
    connection = sqlite3.connect(fast_path / "ledger.db")
    kinds = {"integer", "real", "text", "null"}
    for table in TABLES:
        for row in connection.execute(f"SELECT * FROM {table}"):
            assert {connection.execute("SELECT typeof(?)", (v,)).fetchone()[0] for v in row} <= kinds  # no blobs
    assert connection.execute("SELECT key, mu, mu_squared_so_far FROM dptune_spending").fetchall() == [("a", 1.0, 1.0)]
    (value,) = connection.execute("SELECT value FROM dptune_releases").fetchone()
    assert json.loads(value) == [0.5]
    assert connection.execute("SELECT mu, unit FROM dptune_ledger").fetchone() == (2.0, "one person")
    connection.close()


def statement_ledger(url: str, *, private: bool = True) -> PrivacyLedger:
    ledger = PrivacyLedger(url, Budget.gdp(3.0), dataset="pipes | and 'quotes'", unit="one patient")
    ledger.bind_people(500)
    pay(ledger, "g1")
    pay(ledger, "g2", private=private)
    ledger.charge("s", "p", PureRelease(0.5, "count"), digest="d")
    ledger.charge("s", "l", LaplaceRelease(0.5, 1.0, "count"), digest="d")
    return ledger


def test_the_statement_says_everything_in_three_forms(url: str) -> None:
    ledger = statement_ledger(url)
    statement = ledger.statement(delta=1e-5)
    data = json.loads(statement.to_json())
    assert data == statement.to_dict()
    assert data["private"] is True
    assert data["warnings"] == []
    assert (data["unit"], data["n"], data["releases"]) == ("one patient", 500, 4)
    assert data["budget"] == {"mu": 3.0, "epsilon": Budget.gdp(3.0).epsilon(1e-5)}
    events = [1.0, 1.0, PureRelease(0.5, "count").mu, LaplaceRelease(0.5, 1.0, "count").mu]
    assert data["spent"]["mu"] == pytest.approx(math.hypot(*events))
    assert data["spent"]["epsilon"] == pytest.approx(Budget.gdp(math.hypot(*events)).epsilon(1e-5))
    assert {m["mechanism"].split()[0]: m["releases"] for m in data["mechanisms"]} == {
        "Gaussian": 2,
        "epsilon-DP": 1,
        "Laplace": 1,
    }
    for text in (statement.to_text(), statement.to_markdown(), str(statement)):
        for part in ("replace one", "trusted curator", "one patient", "mu = 3", "training data", "search space"):
            assert part in text
        for part in ("timing", "opendp", "in 4 releases", "n = 500", "delta = 1e-05", "Laplace mechanism"):
            assert part in text
        assert "!!" not in text
        assert "NOT PRIVATE" not in text
    rows = [line for line in statement.to_markdown().splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {3}


def test_a_statement_of_seeded_noise_promises_nothing(url: str) -> None:
    statement = statement_ledger(url, private=False).statement(delta=1e-5)
    assert statement.epsilon == math.inf
    data = json.loads(statement.to_json())
    assert data["private"] is False
    assert data["budget"] == data["spent"] == {"mu": "infinity", "epsilon": "infinity"}
    for text in (statement.to_text(), statement.to_markdown(), data["warnings"][0]):
        assert "NOT PRIVATE" in text
        assert "epsilon = 4" not in text
    assert "NONE" in statement.to_text()


def test_a_statement_warns_of_a_delta_that_means_nothing(url: str) -> None:
    ledger = statement_ledger(url)
    assert ledger.statement(delta=1 / 501).warnings == ()
    (warning,) = ledger.statement(delta=1 / 500).warnings
    assert "1/n" in warning
    assert warning in ledger.statement(delta=1 / 500).to_text()
    for bad in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            ledger.statement(delta=bad)


def test_the_statement_of_an_unused_ledger(url: str) -> None:
    statement = PrivacyLedger(url, Budget.gdp(1.0)).statement(delta=1e-5)
    assert statement.spent_epsilon == 0.0
    assert statement.releases == 0
    assert "none so far" in statement.to_text()


def test_the_epsilon_that_was_asked_for_is_the_one_that_is_stated(url: str) -> None:
    ledger = PrivacyLedger(url, Budget.approximate_dp(1.5, 1e-6))
    assert ledger.statement(delta=1e-6).epsilon == pytest.approx(1.5, rel=1e-9)


# ---- races ---------------------------------------------------------------------------------------------


def race(url: str, budget: float, mu: float, meet: Callable[[], object], keys: list[str]) -> list[str]:
    """Pay for the keys one after the other; return those that were paid."""
    ledger = PrivacyLedger(url, Budget.gdp(budget))
    meet()
    paid = []
    for key in keys:
        try:
            pay(ledger, key, mu)
        except BudgetExhausted:
            continue
        paid.append(key)
    return paid


def racer(name: str, barrier: Any, tasks: Any, results: Any) -> None:
    for url in iter(tasks.get, None):
        try:
            results.put((name, race(url, 1.0, 0.9, barrier.wait, [name])))
        except BaseException as error:  # noqa: BLE001 - the parent must hear of it, not wait for it
            results.put((name, repr(error)))


def test_two_processes_race_for_the_last_of_a_budget_100_rounds(new_url: Urls) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    queues = [context.Queue(), context.Queue()]
    workers = [
        context.Process(target=racer, args=(name, barrier, queue, results), daemon=True)
        for name, queue in zip("ab", queues, strict=True)
    ]
    for worker in workers:
        worker.start()
    wins = {"a": 0, "b": 0}
    try:
        for number in range(100):
            url = new_url()
            if number % 2:  # every other ledger is created in the race as well
                PrivacyLedger(url, Budget.gdp(1.0))
            for queue in queues:
                queue.put(url)
            outcome = dict(results.get(timeout=60) for _ in workers)
            winners = [name for name, paid in outcome.items() if paid == [name]]
            assert len(winners) == 1, outcome
            assert [c.key for c in PrivacyLedger(url).charges()] == winners
            wins[winners[0]] += 1
    finally:
        for queue in queues:
            queue.put(None)
        for worker in workers:
            worker.join(20)
    assert min(wins.values()) > 0, f"not a race: {wins}"


def test_threads_race_for_a_budget(url: str) -> None:
    ledger, barrier = PrivacyLedger(url, Budget.gdp(1.0)), threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        paid = list(pool.map(lambda i: race(url, 1.0, 0.25, barrier.wait, [f"{i}/{k}" for k in range(4)]), range(8)))
    assert sum(map(len, paid)) == 16  # 16 * 0.25^2 = 1
    assert ledger.spent() == 1.0


def test_threads_with_one_key_pay_once_and_publish_one_value(url: str) -> None:
    ledger, barrier = PrivacyLedger(url, Budget.gdp(1.0)), threading.Barrier(6)

    def release(i: int) -> Any:
        barrier.wait()
        return ledger.record(pay(ledger, "same", 0.5), [float(i)]).value

    with ThreadPoolExecutor(6) as pool:
        values = set(pool.map(release, range(6)))
    assert len(values) == 1
    assert len(ledger.charges()) == 1


def test_threads_fix_one_fact(url: str) -> None:
    ledger, barrier = PrivacyLedger(url, Budget.gdp(1.0)), threading.Barrier(6)

    def fix(i: int) -> object:
        barrier.wait()
        return ledger.fix("s", "plan", i)

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(fix, range(6)))) == 1


def test_no_operation_reads_or_writes_another_ledger_in_the_old_one_s_place(fast_path: Path) -> None:
    path = fast_path / "ledger.db"
    old = PrivacyLedger(path, Budget.gdp(1.0))
    charge = pay(old, "a", 0.9)
    path.rename(fast_path / "old.db")
    new = PrivacyLedger(path, Budget.gdp(7.0))
    pay(new, "a", 0.5)
    operations: list[Callable[[], object]] = [
        old.spent,
        old.remaining,
        old.charges,
        lambda: old.find("study", "a"),
        lambda: old.check(0.1),
        lambda: old.statement(delta=1e-5),
        lambda: old.fix("study", "x", 1),
        lambda: old.fact("study", "x"),
        lambda: old.record(charge, [1.0]),
    ]
    for operation in operations:
        with pytest.raises(LedgerError, match="replaced"):
            operation()
    assert new.fact("study", "x") is None
    assert [c.value for c in new.charges()] == [None]
