"""A ledger is created with a budget and reopened unchanged. Another promise or place is refused."""

import contextlib
import pickle
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from audit_tools import run_forked
from dptune import CENTRED, Budget, BudgetExhausted, Float, LedgerError, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.errors import BudgetMismatch, DptuneError
from dptune.ledger import PlanLedger
from dptune.local import UserLedger
from dptune.training import TrainingLedger
from dptune.training.ledger import open_ledger
from ledger_tools import pay
from refusals import refused

EXACT = Budget.approximate_dp(4.0, 1e-7)
BELOW = Budget(EXACT.mu * (1 - 5e-10), 4.0, 1e-7)  # of another root finder


@pytest.mark.parametrize(
    ("made", "given"),
    [(BELOW, EXACT), (EXACT, BELOW), (EXACT, Budget.gdp(EXACT.mu)), (Budget.gdp(0.3), Budget.gdp(0.1 + 0.2))],
    ids=["a smaller root", "a larger root", "mu alone", "rounding"],
)
def test_the_same_promise_reopens_and_the_stored_mu_is_the_bound(fast_path: Path, made: Budget, given: Budget) -> None:
    PrivacyLedger(fast_path / "x.db", made)
    ledger = PrivacyLedger(fast_path / "x.db", given)
    assert ledger.budget == made
    refused(BudgetExhausted, None, lambda: ledger.check(made.mu * (1 + 1e-11)))
    pay(ledger, "all", made.mu)
    assert ledger.remaining() == 0.0


def test_another_promise_is_refused_in_its_own_units(fast_path: Path) -> None:
    PrivacyLedger(fast_path / "x.db", EXACT)
    for given, words in (
        (Budget(0.5, 4.0, 1e-7), "epsilon=4 at delta=1e-07 (mu=0.5)"),  # the same pair, a smaller mu
        (Budget.approximate_dp(4.0, 2e-7), "epsilon=4 at delta=2e-07"),
        (Budget.approximate_dp(4.0 + 1e-9, 1e-7), "epsilon=4.000000001 at delta=1e-07"),
        (Budget.gdp(0.5), "mu=0.5"),
        (Budget.gdp(EXACT.mu * (1 + 1e-11)), f"mu={EXACT.mu * (1 + 1e-11):.15g}"),
    ):
        refused(
            BudgetMismatch,
            rf"budget=epsilon=4 at delta=1e-07.*, not {re.escape(words)};",
            partial(PrivacyLedger, fast_path / "x.db", given),
        )


def test_a_refused_opening_says_whether_the_ledger_was_charged(fast_path: Path) -> None:
    again = partial(PrivacyLedger, fast_path / "x.db", Budget.gdp(0.5))
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    refused(BudgetMismatch, r"Nothing was charged to it yet: if it was made by mistake, delete it\. To allow", again)
    pay(ledger, "all", 0.1)
    refused(BudgetMismatch, r"Nothing was charged\. To allow more", again)


@pytest.mark.parametrize("name", ["nosuch \u00e9.db", "a?b.db", "a%20b#.db", "it's.db"])
def test_an_error_names_the_path_as_it_was_given(fast_path: Path, name: str) -> None:
    says = f"^no ledger exists at {re.escape(str(fast_path / name))}[:;] "
    for opener in (PrivacyLedger, PlanLedger, TrainingLedger, UserLedger, open_ledger):
        refused(LedgerError, says, partial(opener, fast_path / name))


def test_a_new_ledger_says_where_it_is(fast_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    assert f"created a new ledger, nothing spent yet: {fast_path}/x.db" in caplog.text
    caplog.clear()
    PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    assert caplog.text == ""


def test_a_loop_of_links_is_refused(fast_path: Path) -> None:
    (fast_path / "x.db").symlink_to(fast_path / "y.db")
    (fast_path / "y.db").symlink_to(fast_path / "x.db")
    refused(DptuneError, "x.db", partial(PrivacyLedger, fast_path / "x.db", EXACT))


def test_a_missing_folder_a_missing_ledger_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    budget = Budget.gdp(1.0)
    refused(LedgerError, "folder", lambda: PrivacyLedger(tmp_path / "no folder" / "x.db", budget))
    refused(LedgerError, "no ledger", lambda: PrivacyLedger(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "data.csv").write_text("a,b\n1,2\n" * 200)
    reader, maker = (partial(PrivacyLedger, tmp_path / "data.csv", *given) for given in ((), (budget,)))
    refused(LedgerError, r"cannot be used: .*not a database", reader, maker)
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"], "a reader makes no lock file"


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
def test_a_tilde_is_the_home_folder(fast_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("HOME", str(fast_path))
    pay(PrivacyLedger(f"{scheme}~/x.db", Budget.gdp(1.0)), "a", 0.5)
    assert PrivacyLedger(fast_path / "x.db").spent() == 0.5
    assert isinstance(open_ledger(f"{scheme}~/x.db"), PrivacyLedger)
    UserLedger(Path("~/u.db"), cap=1.0)
    assert UserLedger.is_at("~/u.db")
    assert (fast_path / "u.db").exists()


def test_a_file_whose_name_begins_with_a_tilde_is_one(own_folder: Path) -> None:
    assert not UserLedger.is_at("~u.db")
    UserLedger("~u.db", cap=1.0)
    PrivacyLedger("~x.db", Budget.gdp(1.0))
    assert (own_folder / "~u.db").exists()
    assert (own_folder / "~x.db").exists()
    assert UserLedger.is_at("~u.db")


@pytest.mark.parametrize("name", ["a b.db", "a%20b.db", "a?b=1.db", "a#b.db", "ä.db"])
def test_a_path_is_taken_literally_and_a_relative_one_stays_where_it_was(tmp_path: Path, name: str) -> None:
    (tmp_path / "here").mkdir()
    with contextlib.chdir(tmp_path / "here"):
        ledger = PrivacyLedger(name, Budget.gdp(1.0))
    with contextlib.chdir(tmp_path):
        pay(ledger, "a")
        assert pickle.loads(pickle.dumps(ledger)).spent() == PrivacyLedger(tmp_path / "here" / name).spent() == 1.0
    assert sorted(p.name for p in (tmp_path / "here").iterdir()) == [name, f"{name}.lock"]
    assert [p.name for p in tmp_path.iterdir()] == ["here"]


READ_ONLY = """
import os, sys
from dptune import LedgerError, PrivacyLedger

if os.geteuid() == 0:  # for whom there are no permissions
    os.setuid(65534)
ledger = PrivacyLedger(sys.argv[1])
assert ledger.spent() == 0.1, "reading is allowed"
try:
    ledger.check(0.1)
except LedgerError as error:
    print(error)
"""


def test_the_check_before_a_trial_refuses_a_read_only_ledger(fast_path: Path) -> None:
    pay(PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0)), "a", 0.1)
    (fast_path / "x.db").chmod(0o444)
    fast_path.chmod(0o555)
    try:
        found = run_forked(READ_ONLY, str(fast_path / "x.db"))
    finally:
        fast_path.chmod(0o755)
    assert "readonly database. This process must be allowed to write the file and its folder" in found.stdout


UNREADABLE = """
import os, sys
from pathlib import Path
from dptune import Budget, LedgerError, PrivacyLedger
from dptune.local import UserLedger
from dptune.training.ledger import open_ledger

folder, closed = Path(sys.argv[1]), Path(sys.argv[2])
closed.chmod(0)
if os.geteuid() == 0:
    os.setuid(65534)
for opener, name, given in (
    (PrivacyLedger, "x.db", ()),
    (PrivacyLedger, "x.db", (Budget.gdp(1.0),)),
    (open_ledger, "x.db", ()),
    (UserLedger, "u.db", ()),
    (UserLedger, "u.db", (2.0,)),
):
    if closed.suffix and closed.name != name:
        continue
    try:
        opener(folder / name, *given)
    except LedgerError as error:
        print(error)
"""
MAY_NOT_READ = "unable to open database file. This process may not read the file: let its owner allow that"
MAY_NOT_SEARCH = "this process may not search its folder. Let the owner of the folder allow that."


@pytest.mark.parametrize(
    ("closed", "reason", "openers"),
    [("x.db", MAY_NOT_READ, 3), ("u.db", MAY_NOT_READ, 2), ("", MAY_NOT_SEARCH, 5), ("..", MAY_NOT_SEARCH, 5)],
    ids=["ledger", "users", "folder", "above"],
)
def test_a_ledger_that_may_not_be_read_is_not_called_missing(
    fast_path: Path, closed: str, reason: str, openers: int
) -> None:
    folder = fast_path / "above" / "folder"
    folder.mkdir(parents=True)
    fast_path.chmod(0o755)
    PrivacyLedger(folder / "x.db", Budget.gdp(1.0))
    UserLedger(folder / "u.db", cap=2.0)
    place = folder.parent if closed == ".." else folder / closed
    try:
        found = run_forked(UNREADABLE, str(folder), str(place))
    finally:
        place.chmod(0o755)
    lines = found.stdout.splitlines()
    assert len(lines) == openers, found.stderr
    assert all(line.endswith(f" cannot be used: {reason}") for line in lines)


@contextmanager
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_noticed_before_training_and_nothing_is_charged(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0))
    privatizer = LossPrivatizer(ledger, n=9, clip=(0.0, 1.0))
    run = SearchRun(CENTRED, privatizer, scope="run", space=Space({"a": Float(0.0, 1.0)}), trials=8, population=4)
    run.finish("first", run.ask(), np.full(9, 0.5))
    before = (fast_path / "ledger.db").read_bytes()
    for check in (lambda: run.check("next"), lambda: ledger.check(0.1)):
        with full_disk():
            assert ledger.remaining() == 1.0, "a look alone does not notice it"
            refused(LedgerError, "cannot be used", check)
        check()  # there is room again
    assert ledger.count() == 0
    assert (fast_path / "ledger.db").read_bytes() == before
