"""The tables: append-only, whoever writes, and plain for whoever reads."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_tools import Urls, pay

from dptune import Budget, PrivacyLedger
from dptune.ledger import schema

TABLES = {"dptune_ledger": "mu", "dptune_facts": "value", "dptune_charges": "mu", "dptune_releases": "value"}
REPLACED = {  # the first columns of the row that would take the place of the one that is there
    "dptune_ledger": "id, version, 99.0",
    "dptune_charges": "seq, scope, key, 1e-9",
    "dptune_facts": "scope, name, '{\"is\": 9}'",
    "dptune_releases": "charge, '[9.0]'",
}


def full_ledger(url: str) -> PrivacyLedger:
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    ledger.bind_people(7)
    ledger.record(pay(ledger, "a"), [0.5])
    return ledger


def refuse(ledger: PrivacyLedger, change: str) -> None:
    with schema.connect(ledger.url).connect() as connection, pytest.raises(sa.exc.DBAPIError, match="append-only"):
        connection.execute(sa.text(change))
    assert ledger.spent() == 1.0


def test_no_row_is_changed_or_removed(url: str) -> None:
    ledger = full_ledger(url)
    for table, column in TABLES.items():
        with schema.connect(ledger.url).connect() as connection:  # a row-wise trigger does not see an empty table
            assert connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one() > 0
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET {column} = {column}"):
            refuse(ledger, change)


def test_a_table_of_a_server_is_not_truncated_nor_written_over(postgresql: Urls) -> None:
    ledger = full_ledger(postgresql())
    for table in TABLES:
        refuse(ledger, f"TRUNCATE {table} CASCADE")
    refuse(ledger, "INSERT INTO dptune_ledger SELECT * FROM dptune_ledger ON CONFLICT (id) DO UPDATE SET mu = 99")


@pytest.mark.parametrize("table", TABLES)
def test_no_row_is_replaced_in_sqlite(fast_path: Path, table: str) -> None:
    """INSERT OR REPLACE deletes without firing DELETE triggers."""
    ledger = full_ledger(str(fast_path / "ledger.db"))
    with schema.connect(ledger.url).connect() as connection:
        names = [row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})")]
    values = REPLACED[table].split(", ")
    refuse(ledger, f"INSERT OR REPLACE INTO {table} SELECT {', '.join([*values, *names[len(values) :]])} FROM {table}")


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
