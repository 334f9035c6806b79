"""The curator charges before it exports, refuses bad input, survives SIGKILL, and shares only released tables."""

import copy
import json
import math
import os
import pickle
import re
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit_tools import start_forked
from dptune import Budget, BudgetExhausted, InputError, LedgerError, LossPrivatizer, PrivacyError, PrivacyLedger
from dptune.cli.releases import release_rows
from dptune.errors import BudgetMismatch, KeyConflict
from dptune.ledger.certificate import certificate, page
from dptune.outsourced import curator as implementation
from dptune.outsourced.curator import cells_of
from dptune.outsourced.formats import Exchange
from dptune.outsourced.outputs import PublicOutputs
from dptune.privacy.noise import SeededNoise
from example_tools import EXAMPLES
from outsourced_tools import TABLE, MemoryLedger, curator, measure, published

# ---- price and promise ---------------------------------------------------------------------------------


def test_an_export_is_one_release_and_its_statement_names_public_facts(ledger: PrivacyLedger, tmp_path: Path) -> None:
    made = curator(ledger, TABLE, tmp_path)
    with pytest.raises(BudgetExhausted):
        made.export(tmp_path / "shared", mu=10.1)
    assert list((tmp_path / "shared").iterdir()) == []
    made.export(tmp_path / "shared", mu=0.5)
    statement = ledger.statement(delta=1e-5)
    assert (statement.spent_mu, statement.releases, statement.n) == (pytest.approx(0.5), 1, 7)
    assert "replace all records of one unit, with n public" in statement.to_text()
    assert "NOT PROTECTED, declared public by the user: 'outputs are in a yearbook'" in statement.to_text()


def test_a_weaker_promise_is_stated_by_both_ledger_and_curator(tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path / "l.db", Budget.gdp(1.0), max_change=0.5)
    curator(ledger, TABLE, tmp_path, max_change=0.5).export(tmp_path / "shared", mu=0.5)
    text = ledger.statement(delta=1e-5).to_text()
    assert "changes by a vector of L2 norm at most 0.5" in text
    assert "replace all records" not in text
    promise = Exchange(tmp_path / "shared").table().facts.promise
    assert re.fullmatch("mu = 0.5 GDP: .* norm at most 0.5.*", promise)  # that of the table, not of the ledger
    assert "norm at most 0.5" in PrivacyLedger(tmp_path / "l.db", Budget.gdp(1.0)).adjacency
    replacing = PrivacyLedger(tmp_path / "replacing.db", Budget.gdp(1.0))
    curator(replacing, TABLE, tmp_path).export(tmp_path / "shared of replacing", mu=0.5)
    for mismatch in (
        lambda: PrivacyLedger(tmp_path / "l.db", Budget.gdp(1.0), max_change=1.0),
        lambda: curator(ledger, TABLE, tmp_path, max_change=1.0),
        lambda: curator(replacing, TABLE, tmp_path, max_change=1.0),
        lambda: curator(replacing, TABLE[:-1], tmp_path),  # another number of rows is another promise
    ):
        with pytest.raises(BudgetMismatch):
            mismatch()


def test_seeded_noise_says_not_private_everywhere(ledger: PrivacyLedger, tmp_path: Path) -> None:
    made = curator(ledger, TABLE, tmp_path, noise=SeededNoise(0))
    made.export(tmp_path / "shared", mu=0.5)
    promise = Exchange(tmp_path / "shared").table().facts.promise
    assert all("NOT PRIVATE" in text for text in (repr(made), promise, str(ledger.statement(delta=1e-5))))


# ---- once, and only once -------------------------------------------------------------------------------


def test_a_key_always_shows_one_table_and_a_new_key_pays_for_new_noise(ledger: PrivacyLedger, tmp_path: Path) -> None:
    made = curator(ledger, TABLE, tmp_path)
    made.export(tmp_path / "a", mu=0.5)
    curator(ledger, TABLE, tmp_path).export(tmp_path / "b", mu=0.5)  # as after a restart
    assert published(tmp_path / "a") == published(tmp_path / "b")
    for changed in ({"scale": 2.0}, {"row_norm": 4.0}, {"middle": 1.0}, {"projection": np.eye(2)[::-1]}):
        with pytest.raises(KeyConflict):
            curator(ledger, TABLE, tmp_path, **changed).export(tmp_path / "shared", mu=0.5)
    assert ledger.spent() == pytest.approx(0.5)
    made.export(tmp_path / "c", mu=0.5, key="second")
    assert published(tmp_path / "c") != published(tmp_path / "a")
    assert ledger.spent() == pytest.approx(0.5 * math.sqrt(2))
    with pytest.raises(InputError, match="another table"):
        made.export(tmp_path / "a", mu=0.5, key="second")


@pytest.mark.parametrize(
    ("folder", "shared", "words"),  # the curator's own folder is folder/own
    [
        (".", "used", "'[^']*used' holds another table"),
        (".", "own", "must be the curator's own"),
        ("shared", "shared", "must be the curator's own"),
        ("taken", "shared", "cannot be made at '[^']*own': File exists"),
        ("taken/own", "shared", "cannot be made at '[^']*own': Not a directory"),
    ],
)
def test_folders_are_refused_before_the_charge(
    folder: str, shared: str, words: str, ledger: PrivacyLedger, tmp_path: Path
) -> None:
    curator(ledger, TABLE, tmp_path / "first").export(tmp_path / "used", mu=0.5, key="first")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "own").touch()
    with pytest.raises(InputError, match=rf"{words}.*Nothing was charged\.$"):
        curator(ledger, TABLE, tmp_path / folder).export(tmp_path / shared, mu=0.5)
    assert ledger.find("outsourced", "table") is None


def test_papers_show_the_digest_of_a_table_and_no_numbers(ledger: PrivacyLedger, tmp_path: Path) -> None:
    """The ledger stores its bytes where other releases have numbers."""
    charge = curator(ledger, TABLE, tmp_path).export(tmp_path / "shared", mu=0.5)
    (table,) = {path.stem for path in tmp_path.rglob("*.npy") if len(path.stem) == 64}
    (row,) = release_rows(ledger)
    assert (row["value"], row["intervals"]) == (f"sha256:{table}", None)
    paper = certificate(ledger, ledger.statement(delta=1e-5), values=True)
    assert [each["values"] for each in paper["released"]] == [{charge.key: f"sha256:{table}"}]
    assert f"sha256:{table}" in page(paper)


def test_a_lost_table_is_never_drawn_again(ledger: PrivacyLedger, tmp_path: Path) -> None:
    made = curator(ledger, TABLE, tmp_path)
    made.export(tmp_path / "shared", mu=0.5)
    (kept,) = (tmp_path / "own").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    data = kept.read_bytes()
    for damage in (kept.unlink, lambda: kept.write_bytes(data[:-1])):
        damage()
        with pytest.raises(LedgerError, match="put it back"):
            made.export(tmp_path / "elsewhere", mu=0.5)
    kept.write_bytes(data)
    made.export(tmp_path / "elsewhere", mu=0.5)
    assert published(tmp_path / "elsewhere") == published(tmp_path / "shared")


class Overtaken(SeededNoise):
    """While it is drawn, another process exports the same table, with other noise."""

    def __init__(self, ledger: PrivacyLedger, folder: Path) -> None:
        super().__init__(1)
        self.first = curator(ledger, TABLE, folder, noise=SeededNoise(2))

    def add_gaussian(self, statistic: np.ndarray, sigma: float) -> np.ndarray:
        self.first.export(self.first._folder.parent / "shared", mu=0.5)
        return super().add_gaussian(statistic, sigma)


def test_of_two_processes_that_draw_for_one_charge_both_show_the_first(ledger: PrivacyLedger, tmp_path: Path) -> None:
    curator(ledger, TABLE, tmp_path, noise=Overtaken(ledger, tmp_path)).export(tmp_path / "other", mu=0.5)
    assert published(tmp_path / "shared") == published(tmp_path / "other")
    assert len(list((tmp_path / "own").iterdir())) == 1  # the draw that lost is gone
    assert ledger.spent() == pytest.approx(0.5)


KILLS: dict[str, tuple[Any, str, bool]] = {  # where -> what is called then, and whether it has returned
    "before charge": (PrivacyLedger, "charge", False),
    "before read": (implementation, "bounded_rows", False),
    "before record": (PrivacyLedger, "record", False),
    "after record": (PrivacyLedger, "record", True),
    "before publish": (Exchange, "publish", False),
    "between the files": (Exchange, "_write", True),
    "after publish": (Exchange, "publish", True),
}


def export_in_child(folder: Path, where: str | None = None) -> int:
    """Export in a forked process that ends without clean-up at a point; return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            if where is not None:
                die_at(*KILLS[where])
            curator(PrivacyLedger(folder / "l.db"), TABLE, folder).export(folder / "shared", mu=0.5)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(owner: Any, name: str, returned: bool) -> None:
    true = getattr(owner, name)

    def call(*args: Any, **more: Any) -> None:
        if returned:
            true(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, call)


@pytest.mark.parametrize("where", KILLS)
def test_after_a_kill_a_charge_has_at_most_one_published_table(where: str, fast_path: Path) -> None:
    """The charge stands before a row is read."""
    ledger = PrivacyLedger(fast_path / "l.db", Budget.gdp(1.0))
    assert export_in_child(fast_path, where) == -signal.SIGKILL
    seen, named = published(fast_path / "shared"), ledger.find("outsourced", "table")
    assert (named is None) == (where == "before charge")
    assert seen is None or (named and named.value is not None)  # nothing is shown that the ledger does not name
    assert export_in_child(fast_path) == 0
    shown, charge = published(fast_path / "shared"), ledger.find("outsourced", "table")
    assert charge is not None
    assert charge.value == tuple(bytes.fromhex(shown or ""))
    assert seen in (None, shown)
    assert ledger.count() == 1
    assert ledger.spent() == pytest.approx(0.5)
    assert Exchange(fast_path / "shared").table().values.shape == (7, 2)


# ---- settings ------------------------------------------------------------------------------------------

FITTED = SimpleNamespace(mean_=np.zeros(2), scale_=np.ones(2))  # as a scaler that was fitted to the rows
WRONG = [("scale", each) for each in ("standard", FITTED, [1.0, 2.0, 3.0], [1.0, np.nan], 0.0)]
# at 1e150 squares overflow and at 1e-165 they vanish: the table moved by 816 and 1111 times its price
WRONG += [("row_norm", each) for each in (0, "25", 1e150, 1.1e30, 0.9e-30, 1e-165, np.nan)]
WRONG += [("projection", each) for each in (np.eye(3), np.zeros((2, 1)))]
WRONG += [("projection", np.full((2, 1), each)) for each in (1e150, 1e-165, np.inf)]
WRONG += [("noise", 3), ("max_change", 1e-6)]  # so small that rounding of the rows would not be covered
# noise would have to protect it: when a unit's row changes, the losses of everybody at it change
WRONG += [("outputs", LossPrivatizer(MemoryLedger(), n=7, clip=(0.0, 1.0)))]


def test_settings_are_checked_by_name(tmp_path: Path) -> None:
    for name, wrong in WRONG:
        change = wrong if name == "max_change" else None
        ledger = PrivacyLedger(tmp_path / f"{change}.db", Budget.gdp(1.0), max_change=change)
        with pytest.raises(InputError, match=name):
            curator(ledger, TABLE, tmp_path, **{name: wrong})


def test_a_cell_that_is_not_a_number_decides_about_its_row_only(ledger: PrivacyLedger, tmp_path: Path) -> None:
    odd = TABLE.astype(object)
    odd[2, 1] = "unknown"
    np.testing.assert_array_equal(cells_of(odd)[[0, 1, 3, 4, 5, 6]], TABLE[[0, 1, 3, 4, 5, 6]])
    curator(ledger, odd, tmp_path).export(tmp_path / "shared", mu=0.5)


def test_a_curator_is_not_copied_and_says_nothing_about_its_rows(ledger: PrivacyLedger, tmp_path: Path) -> None:
    made = curator(ledger, TABLE, tmp_path)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError):
            copied(made)
    assert repr(made) == "OutsourcedCurator(n=7, row_norm=5, change=10)"


# ---- what crosses the shared folder: the table, queries and public answers ----------------------------


def test_public_outputs_are_served_and_a_curator_that_starts_again_resumes(
    ledger: PrivacyLedger, tmp_path: Path
) -> None:
    exchange = Exchange(tmp_path / "shared", timeout=600)
    curator(ledger, TABLE, tmp_path).export(exchange, mu=0.5)
    for rows in ([3, 5], [3, 5, 3]):
        made = curator(ledger, TABLE, tmp_path)
        serving = threading.Thread(target=made.serve, args=(exchange,), kwargs={"rounds": len(rows)}, daemon=True)
        serving.start()
        for row in rows[len(exchange.history()) :]:
            assert exchange.evaluate(row) == measure(row)
        serving.join()
        assert exchange.history() == [(row, measure(row)) for row in rows]


def test_concurrent_trials_get_distinct_numbers_and_first_answers_count(tmp_path: Path) -> None:
    exchange = Exchange(tmp_path / "shared")
    threads = [threading.Thread(target=exchange.ask, args=(1,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.name for p in exchange.folder.iterdir()) == [f"query-{t:06d}.json" for t in range(1, 9)]
    exchange.answer(1, 1, 0.5)
    exchange.answer(1, 1, 0.7)
    assert exchange.answered(1) == (1, 0.5)


def test_what_does_not_fit_is_refused_by_name(ledger: PrivacyLedger, tmp_path: Path) -> None:
    shared = Exchange(tmp_path / "shared", timeout=0.05)
    made = curator(ledger, TABLE, tmp_path)
    made.export(shared, mu=0.5)

    def wrote(name: str, content: bytes, read: Callable[[], object]) -> object:
        (shared.folder / name).write_bytes(content)
        return read()

    np.save(tmp_path / "other.npy", np.zeros((7, 2)))
    other = (tmp_path / "other.npy").read_bytes()
    refused: list[tuple[str, Callable[[], object]]] = [
        ("in words", lambda: PublicOutputs(measure, because=" ")),
        ("not the file", lambda: wrote("table.npy", other, shared.table)),
        ("does not describe", lambda: wrote("table.json", json.dumps({"sigma": 1}).encode(), shared.table)),
    ]
    for query in (b'{"row": 7}', b'{"row": "1"}', b"no"):
        asked = partial(wrote, "query-000001.json", query, partial(made.serve, shared, rounds=1))
        refused.append(("query-000001", asked))
    for words, call in refused:
        with pytest.raises(InputError, match=words):
            call()


def test_curator_and_modeler_meet_in_a_folder(tmp_path: Path) -> None:
    scripts = ((EXAMPLES / f"outsourced_{half}.py").read_text() for half in ("curator", "modeler"))
    curator, modeler = (start_forked(script, str(tmp_path)) for script in scripts)
    halves = modeler.wait(), curator.wait()
    assert [half.returncode for half in halves] == [0, 0], halves
    told, statement = (half.stdout for half in halves)
    assert "NOT covered: a larger change" in told
    assert "epsilon = 3 at delta = 1e-05" in statement
    assert "declared public by the user" in statement
    assert "NOT PRIVATE" not in statement
    recommended = float(re.findall(r"posterior mean ([\d.]+)", told)[0])
    best, mean = (float(x) for x in re.findall(r"(?:yield|mean) ([\d.]+)", statement.splitlines()[-1]))
    assert recommended > (best + mean) / 2
