"""What is PostgreSQL's own; the contract itself is test_ledger_*.py, which run on both backends."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from dptune import Budget, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.ledger import schema

Urls = Callable[[], str]


def test_a_bare_postgresql_url_means_psycopg(postgresql: Urls) -> None:
    url = postgresql()
    assert url.startswith("postgresql://")
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert PrivacyLedger(url.replace("postgresql://", "postgresql+psycopg://")) == ledger


@pytest.mark.parametrize("table", ["dptune_ledger", "dptune_charges", "dptune_facts", "dptune_releases"])
def test_truncate_is_refused(postgresql: Urls, table: str) -> None:
    ledger = PrivacyLedger(postgresql(), Budget.gdp(1.0))
    with schema.connect(ledger.url).connect() as connection, pytest.raises(sa.exc.DBAPIError, match="append-only"):
        connection.execute(sa.text(f"TRUNCATE {table} CASCADE"))


def test_upsert_does_not_change_a_row(postgresql: Urls) -> None:
    ledger = PrivacyLedger(postgresql(), Budget.gdp(1.0))
    sql = "INSERT INTO dptune_ledger SELECT * FROM dptune_ledger ON CONFLICT (id) DO UPDATE SET mu = 99"
    with schema.connect(ledger.url).connect() as connection, pytest.raises(sa.exc.DBAPIError, match="append-only"):
        connection.execute(sa.text(sql))
    assert PrivacyLedger(ledger.url.render_as_string(hide_password=False)).budget.mu == 1.0


def test_many_processes_may_create_it_together(postgresql: Urls) -> None:
    url, barrier = postgresql(), threading.Barrier(6)

    def create(_: int) -> float:
        barrier.wait()
        return PrivacyLedger(url, Budget.gdp(1.0)).budget.mu

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(create, range(6))) == [1.0] * 6


def test_two_ledgers_in_two_schemas_are_two_budgets(postgresql: Urls) -> None:
    one, two = (PrivacyLedger(postgresql(), Budget.gdp(1.0)) for _ in range(2))
    for ledger in (one, two):
        privatizer = LossPrivatizer(ledger, n=2, clip=(0.0, 1.0))
        privatizer.observe("x", [0.0, 1.0])
        released = privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1")
        assert PrivacyLedger(ledger.url.render_as_string()).find("s", "1").value == (released.scalar,)
    assert one != two


def test_the_password_is_not_shown_but_travels_with_a_pickle(postgresql: Urls) -> None:
    url = postgresql().replace("dptune@", "dptune:hunter2@")
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert "hunter2" not in repr(ledger)
    assert pickle.loads(pickle.dumps(ledger)) == ledger


def test_a_server_that_is_not_there_gives_a_ledger_error_without_the_password() -> None:
    with pytest.raises(LedgerError, match="cannot be used") as refused:
        PrivacyLedger("postgresql://user:hunter2@127.0.0.1:1/db?connect_timeout=2", Budget.gdp(1.0))
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
