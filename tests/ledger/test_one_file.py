"""A ledger is one file: a second name is refused, and a copy inside the process releases no lock."""

import os
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from audit_tools import run_forked, start_forked
from dptune import Budget, LedgerError, PrivacyLedger, _store
from dptune._store import SqliteFile
from dptune.local import UserLedger
from ledger_tools import pay
from refusals import refused

# ---- a second name ------------------------------------------------------------------------------------------


def test_a_hard_link_is_refused_under_both_names_until_one_is_deleted(fast_path: Path) -> None:
    here, there, budget = fast_path / "a.db", fast_path / "b.db", Budget.gdp(1.0)
    ledger = PrivacyLedger(here, budget)
    os.link(here, there)
    opened = [partial(PrivacyLedger, path, *given) for path in (here, there) for given in ((), (budget,))]
    refused(LedgerError, r"2 names \(hard links\).*Nothing was charged.*delete all but one", *opened)
    refused(LedgerError, "hard links", lambda: pay(ledger, "a", 0.1))  # it was open already
    there.unlink()
    assert pay(ledger, "a", 0.1).seq == PrivacyLedger(here).count() == 1


def test_a_file_that_is_mounted_by_itself_is_refused(fast_path: Path) -> None:
    ledger, users = PrivacyLedger(fast_path / "a.db", Budget.gdp(1.0)), UserLedger(fast_path / "users.db", cap=2.0)
    (fast_path / "link.db").symlink_to(fast_path / "a space.db")
    found = run_forked(MOUNTED, str(fast_path), str(ledger.url.database), str(users.path))
    if found.stdout == "nobody may mount\n":
        pytest.skip("this machine lets nobody mount")
    words = "mounted as a single file"
    assert [words in line for line in found.stdout.splitlines()] == [True, True, True, False], found.stdout
    assert "Nothing was charged. Mount the folder" in found.stdout
    assert ledger.count() == 0


MOUNTED = r"""
import ctypes, os, subprocess, sys
from pathlib import Path
from dptune import LedgerError, PrivacyLedger
from dptune.local import UserLedger

folder, ledger, users = map(Path, sys.argv[1:])
user, libc = os.geteuid(), ctypes.CDLL(None)
new_mounts, new_user = 0x20000, 0x10000000  # a name space of its own, so that nothing has to be undone
private = 0x44000  # with all below
if libc.unshare(new_mounts | (new_user if user else 0)) != 0 or libc.mount(None, b"/", None, private, None) != 0:
    print("nobody may mount", flush=True)
    os._exit(0)
if user:
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
(folder / "folder").mkdir()
for here, name in ((ledger, "a space.db"), (users, "back\slash.db"), (folder, "folder")):
    there = folder / name
    if here != folder:
        there.touch()
    subprocess.run(["mount", "--bind", here, there], check=True)
for opened, name in (
    (PrivacyLedger, "a space.db"), (PrivacyLedger, "link.db"), (UserLedger, "back\slash.db"),
    (PrivacyLedger, "folder/a.db"),
):
    try:
        print(opened(folder / name))
    except LedgerError as error:
        print(error)
"""


# ---- a copy made inside the process ---------------------------------------------------------------------------

PAY = """
import os, sys
import numpy as np
from dptune import LossPrivatizer, PrivacyLedger

os.read(int(sys.argv[2]), 1)
privatizer = LossPrivatizer(PrivacyLedger(sys.argv[1]), n=100, clip=(0.0, 1.0))
privatizer.observe("x", np.full(100, 0.3))
print(privatizer.release(privatizer.mean_query("x", 0.9), scope="other", key="1").charge.seq)
"""


def test_a_copy_made_while_a_fact_is_written_loses_nobodys_charge(fast_path: Path) -> None:
    path, (wait, go) = fast_path / "ledger.db", os.pipe()
    PrivacyLedger(path, Budget.gdp(1.0)).bind_people(100)
    other = start_forked(PAY, str(path), str(wait))
    ledger = PrivacyLedger(path)

    def slow(rest: object) -> dict[str, float]:
        copying = threading.Thread(target=shutil.copy, args=(path, fast_path / "backup.db"))
        copying.start()
        copying.join()  # its descriptor is closed, and with it go the locks that SQLite has taken
        os.write(go, b"!")
        time.sleep(0.7)  # unless it has to wait, the other charges, releases and ends
        return {"mu": 0.1}

    ledger.fix_plan("mine", slow)
    done = other.wait()
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stdout
    again = PrivacyLedger(path)
    assert (again.spent(), again.fact("mine", "plan")) == (0.9, {"mu": 0.1})


# ---- the lock -------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_store, "SECONDS", 0.05)


def other_writes(path: Path) -> Callable[[], LedgerError | None]:
    """Return what a write by another object comes to."""

    def write() -> LedgerError | None:
        try:
            with SqliteFile(path).transaction(write=True):
                return None
        except LedgerError as error:
            return error

    return write


def test_one_writes_or_several_read(fast_path: Path, impatient: None) -> None:
    path = fast_path / "x.db"
    write = other_writes(path)
    with SqliteFile(path).transaction(write=True):
        assert "another process has held it for a minute; nothing was charged" in str(write())
        refused(LedgerError, "locked", SqliteFile(path).transaction(write=False).__enter__)
    with SqliteFile(path).transaction(write=False), SqliteFile(path).transaction(write=False):
        assert "held it for a minute" in str(write())
    assert write() is None


def test_a_process_that_dies_leaves_no_lock(fast_path: Path, impatient: None) -> None:
    path = fast_path / "x.db"
    code = f"import os\nfrom dptune._store import SqliteFile\nwith SqliteFile({str(path)!r}).transaction(write=True):\n"
    assert start_forked(f"{code}    os.kill(os.getpid(), 9)").wait().returncode == -9
    assert (fast_path / "x.db.lock").exists()
    assert other_writes(path)() is None


def test_a_child_that_was_forked_meanwhile_holds_no_lock(fast_path: Path, impatient: None) -> None:
    path, (wait, go) = fast_path / "x.db", os.pipe()
    with SqliteFile(path).transaction(write=True):
        child = start_forked("import os, sys\nos.read(int(sys.argv[1]), 1)", str(wait))
    assert other_writes(path)() is None
    os.write(go, b"!")
    assert child.wait().returncode == 0


def test_a_lock_that_cannot_be_opened_is_named(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    (fast_path / "x.db.lock").unlink()
    (fast_path / "x.db.lock").symlink_to(fast_path / "none" / "x")
    words = r"its lock .*x\.db\.lock cannot be opened.*nothing was charged"
    refused(LedgerError, words, lambda: pay(ledger, "a", 0.1))
    (fast_path / "x.db.lock").unlink()
    assert pay(ledger, "a", 0.1).seq == 1
