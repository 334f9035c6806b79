"""Opening verifies the charges after the last mark; what is wrong before it is found by a statement."""

import json
from pathlib import Path

import pytest

from dptune import Budget, PrivacyLedger
from dptune.errors import LedgerError
from dptune.ledger import entries
from dptune.ledger.entries import LedgerState
from ledger_tools import edit, pay

ROWS = 5


@pytest.fixture
def file(fast_path, monkeypatch) -> Path:
    """A ledger of ROWS charges with a mark at the last one, then one more charge."""
    monkeypatch.setattr(entries, "EVERY", 3)
    ledger = PrivacyLedger(fast_path / "l.db", Budget.gdp(1.0))
    for k in range(ROWS):
        pay(ledger, f"k/{k}", 0.1)
    PrivacyLedger(fast_path / "l.db")
    pay(ledger, "one more", 0.1)
    return fast_path / "l.db"


@pytest.fixture
def read(monkeypatch) -> list[int]:
    """The numbers of the charges whose totals are recomputed."""
    seen, after = [], LedgerState.after

    def counted(state, row):
        seen.append(row["seq"])
        return after(state, row)

    monkeypatch.setattr(LedgerState, "after", counted)
    return seen


def mark_of(file: Path) -> Path:
    return Path(f"{file}.verified")


def test_opening_reads_the_charges_after_the_mark(file, read):
    opened = PrivacyLedger(file)
    assert read == [ROWS + 1]
    assert opened.spent() == pytest.approx(0.1 * 6**0.5)
    read.clear()
    opened.statement(delta=1e-5)
    assert read == [*range(1, ROWS + 2)]


def changed(file: Path, **values: object) -> str:
    held = json.loads(mark_of(file).read_text())
    held["is"].update(values)
    return json.dumps({"is": held["is"], "check": entries._checksum(held["is"])})


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: "",
        lambda file: mark_of(file).read_text()[:-9],
        lambda file: mark_of(file).read_text().replace('"seeded": 0', '"seeded": 1'),
        lambda file: changed(file, ledger="another"),
        lambda file: changed(file, seq=99),
        lambda file: changed(file, hash="0" * 64),
        lambda file: changed(file, seeded=1),
        lambda file: changed(file, spent={"squares": "0", "choices": "0", "pure": "0"}),
        lambda file: changed(file, spent={}),
    ],
)
def test_a_wrong_mark_is_not_used(file, read, damage):
    mark_of(file).write_text(damage(file))
    assert PrivacyLedger(file).spent() == pytest.approx(0.1 * 6**0.5)
    assert read == [*range(1, ROWS + 2)]


@pytest.mark.parametrize("seq", [1, ROWS])
@pytest.mark.parametrize("change", ["digest = 'other'", "mu = 0.01", "description = json_set(description, '$.mu', 9)"])
def test_an_earlier_charge_that_changed_moves_no_budget(file, seq, change):
    ledger = PrivacyLedger(file)
    edit(ledger, f"UPDATE dptune_charges SET {change} WHERE seq = {seq}")
    opened = PrivacyLedger(file)
    assert opened.spent() == pytest.approx(0.1 * 6**0.5)
    with pytest.raises(LedgerError, match="does not follow"):
        opened.statement(delta=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM dptune_charges WHERE seq = 2",
        f"DELETE FROM dptune_charges WHERE seq = {ROWS}",
        f"UPDATE dptune_charges SET hash = 'other' WHERE seq = {ROWS}",
        f"UPDATE dptune_charges SET mu_squared_so_far = '0' WHERE seq = {ROWS}",
        f"UPDATE dptune_charges SET digest = 'other' WHERE seq = {ROWS + 1}",
        f"UPDATE dptune_charges SET seeded_so_far = 1 WHERE seq = {ROWS + 1}",
    ],
)
def test_what_the_mark_shows_is_found_on_opening(file, change):
    edit(PrivacyLedger(file), change)
    with pytest.raises(LedgerError, match="does not follow"):
        PrivacyLedger(file)
