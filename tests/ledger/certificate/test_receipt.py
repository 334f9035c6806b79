"""Signed receipts: what was changed, in the ledger or in the receipt, is refused."""

from __future__ import annotations

import copy
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from certificate_tools import Keys, make_keys
from typer.testing import CliRunner

from dptune import Budget, InputError, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.cli import app
from dptune.ledger.certificate.receipt import sign, verify


@pytest.fixture
def receipt(used: PrivacyLedger, keys: Keys) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(sign(used, keys[0], delta=1e-5)))
    return found


def test_an_unchanged_ledger_is_verified(used: PrivacyLedger, receipt: dict[str, Any], keys: Keys) -> None:
    verify(receipt, PrivacyLedger(used.url.database or ""), signer=keys[1])
    assert receipt["statement"]["spent"]["mu"] == used.spent()
    assert set(receipt["ledger"]["questions"]) == {"one", "two"}
    assert receipt["ledger"]["mark"] == used.mark()


CHANGES = {
    "a released value": "UPDATE dptune_releases SET value = '[0.1]' WHERE charge = 1",
    "a value that is gone": "DELETE FROM dptune_releases WHERE charge = 3",
    "a fact": "UPDATE dptune_facts SET value = '{\"is\": 400}' WHERE name = 'n'",
    "another fact": "INSERT INTO dptune_facts VALUES ('one', 'note', '{\"is\": 1}')",
    "the data set": "UPDATE dptune_ledger SET dataset = 'others'",
    "the budget": "UPDATE dptune_ledger SET mu = 0.5",
    "a time": "UPDATE dptune_charges SET charged_at = '2020-01-01' WHERE seq = 2",
}


def change(ledger: PrivacyLedger, sql: str) -> str:
    """Change a ledger as whoever may write its file can; return its path."""
    path = ledger.url.database or ""
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f'DROP TRIGGER "{name}"')
    connection.execute(sql)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_ledger_is_refused(used: PrivacyLedger, receipt: dict[str, Any], what: str) -> None:
    path = change(used, CHANGES[what])
    with pytest.raises(LedgerError, match="was changed since it was signed"):
        verify(receipt, PrivacyLedger(path))


def test_a_ledger_that_has_gone_on_is_refused_as_such(used: PrivacyLedger, receipt: dict[str, Any]) -> None:
    privatizer = LossPrivatizer(used, n=4, clip=(0.0, 1.0))
    privatizer.observe("x", [0.5] * 4)
    privatizer.release(privatizer.mean_query("x", 0.1), scope="one", key="value/2")
    with pytest.raises(LedgerError, match="gone on since"):
        verify(receipt, used)


def test_another_ledger_is_refused(receipt: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="another ledger"):
        verify(receipt, PrivacyLedger(tmp_path / "other.db", Budget.gdp(10.0), dataset="test people"))


@pytest.mark.parametrize("path", [("statement", "delta"), ("signed_at",), ("versions", "dptune"), ("ledger", "sha256")])
def test_a_changed_receipt_is_refused(used: PrivacyLedger, receipt: dict[str, Any], path: tuple[str, ...]) -> None:
    forged = copy.deepcopy(receipt)
    place = forged
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = "something else"
    with pytest.raises(InputError, match="not what was signed"):
        verify(forged, used)


def test_who_must_have_signed_can_be_said(used: PrivacyLedger, receipt: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="another key"):
        verify(receipt, used, signer=make_keys(tmp_path)[1])
    with pytest.raises(InputError, match="receipt is what"):
        verify({}, used)
    with pytest.raises(InputError, match="readable key or signature"):
        verify({**receipt, "signature": "xyz"}, used)


def test_a_file_that_is_no_key_is_refused_by_name(used: PrivacyLedger, keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"public\.pem cannot be read as a key"):
        sign(used, keys[1], delta=1e-5)
    with pytest.raises(InputError, match=r"missing\.pem"):
        sign(used, tmp_path / "missing.pem", delta=1e-5)


def test_on_the_command_line(used: PrivacyLedger, keys: Keys, tmp_path: Path) -> None:
    ledger, file = used.url.database or "", tmp_path / "receipt.json"
    file.write_text(CliRunner().invoke(app, ["sign", ledger, str(keys[0])]).output)
    verified = ["verify", str(file), ledger, "--signer", str(keys[1])]
    assert "as it was when it was signed" in CliRunner().invoke(app, verified).output
    change(used, CHANGES["a released value"])
    assert isinstance(CliRunner().invoke(app, verified).exception, LedgerError)
