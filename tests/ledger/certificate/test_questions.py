"""The checklist: every layer of the pyramid is asked about, delta is measured, users' own ledgers have one, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.cli import app
from dptune.ledger import checklist
from dptune.ledger.certificate.questions import PYRAMID, YOURS
from dptune.local import UserLedger


def open_ledger(folder: Path, n: int) -> PrivacyLedger:
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(1.0))
    LossPrivatizer(ledger, n=n, clip=(0.0, 1.0))
    return ledger


def test_every_layer_is_asked_about_from_the_top_down(tmp_path: Path) -> None:
    items = checklist(open_ledger(tmp_path, 400).statement(delta=1e-5))
    assert list(dict.fromkeys(item.factor for item in items)) == list(PYRAMID)
    assert {item.factor for item in YOURS} <= set(PYRAMID)
    assert [item for item in items if not item.answer] == list(YOURS)
    assert len(items) == len(YOURS) + 10


@pytest.mark.parametrize(
    ("n", "delta", "fits"),
    [(400, 1e-5, False), (400, 6e-6, True), (100, 1e-4, False), (100, 1e-5, True), (30_000, 1e-8, False)],
)
def test_a_delta_above_the_usual_limits_is_named(tmp_path: Path, n: int, delta: float, fits: bool) -> None:
    items = checklist(open_ledger(tmp_path, n).statement(delta=delta))
    (answer,) = [item.answer for item in items if item.question.startswith("Is delta")]
    assert ("not above" in answer) == fits
    assert ("ABOVE" in answer) == (not fits)


def test_a_ledger_of_users_own_devices_has_a_certificate_and_no_record_or_receipt(tmp_path: Path) -> None:
    users = str(tmp_path / "users.db")
    UserLedger(users, cap=2.0)
    text = CliRunner().invoke(app, ["certificate", users]).output
    assert "Local privacy statement" in text
    assert "right at most 88.1 times in 100" in text  # e^2 / (1 + e^2)
    assert "[x] trust models: Who must be trusted with the rows?\n      local: the user's own device" in text
    assert "delta = 0" in text
    (tmp_path / "about.toml").write_text("")
    for words in (["certificate", users, "--registry", str(tmp_path / "about.toml")], ["sign", users, "key.pem"]):
        refused = CliRunner().invoke(app, words)
        assert "each of which keeps a ledger of its own" in str(refused.exception)
