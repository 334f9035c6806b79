"""The tables: append-only, whoever writes, and plain for whoever reads."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_tools import pay

from dptune import Budget, PrivacyLedger
from dptune.ledger import schema

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
    with schema.connect(ledger.url).connect() as connection:
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
