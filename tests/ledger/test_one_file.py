"""One file, one ledger: a second name is refused, and a copy made inside the process takes no lock away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from audit_tools import start_forked
from ledger_tools import KINDS, Kind, pay

from dptune import Budget, LedgerError, PrivacyLedger, _store
from dptune._store import SqliteFile
from dptune.ledger import entries
from dptune.local import LocalRandomizer, UserLedger

# ---- a second name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KINDS["budget"], KINDS["rounds"]], ids=["budget", "rounds"])
def test_a_hard_link_is_refused_under_both_names_until_one_is_deleted(fast_path: Path, kind: Kind) -> None:
    here, there = fast_path / "a.db", fast_path / "b.db"
    ledger = kind.new(here)
    os.link(here, there)
    for path in (here, there):
        for opened in (kind.opener, kind.new):
            with pytest.raises(LedgerError, match=r"2 names \(hard links\).*Nothing was charged.*delete all but one"):
                opened(path)
    with pytest.raises(LedgerError, match="hard links"):  # it was open already
        kind.charge(ledger, 0)
    there.unlink()
    assert kind.charge(ledger, 0).seq == 1
    assert kind.opener(here).count() == 1


def test_a_file_that_is_mounted_by_itself_is_refused(fast_path: Path) -> None:
    """In a name space of its own, so that nothing has to be undone."""
    ledger, users = PrivacyLedger(fast_path / "a.db", Budget.gdp(1.0)), UserLedger(fast_path / "users.db", cap=2.0)
    mounts = [(ledger.url.database, fast_path / "a space.db"), (users.path, fast_path / "back\\slash.db")]
    for _, there in mounts:
        there.touch()
    (fast_path / "link.db").symlink_to(fast_path / "a space.db")
    (fast_path / "folder").mkdir()
    apart = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    mounting = [f"mount --bind '{here}' '{there}'" for here, there in [*mounts, (fast_path, fast_path / "folder")]]
    if subprocess.run([*apart, "mount", "--bind", "/", "/"], capture_output=True).returncode != 0:
        pytest.skip("this machine lets nobody mount")
    command = [*apart, "sh", "-c", f'{" && ".join(mounting)} && "$0" -c "$1" "$2"', sys.executable, OPEN, fast_path]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    words = "mounted as a single file"
    assert [words in line for line in found.stdout.splitlines()] == [True, True, True, False], found.stderr
    assert "Nothing was charged. Mount the folder" in found.stdout
    assert ledger.count() == 0


OPEN = """
import sys
from dptune import LedgerError, PrivacyLedger
from dptune.local import UserLedger

for opened, name in (
    (PrivacyLedger, "a space.db"), (PrivacyLedger, "link.db"), (UserLedger, "back\\\\slash.db"),
    (PrivacyLedger, "folder/a.db"),
):
    try:
        print(opened(f"{sys.argv[1]}/{name}"))
    except LedgerError as error:
        print(error)
"""


def test_a_users_ledger_has_one_name_too(fast_path: Path) -> None:
    ledger = UserLedger(fast_path / "users.db", cap=2.0)
    os.link(fast_path / "users.db", fast_path / "more.db")
    with pytest.raises(LedgerError, match="hard links"):
        ledger.reply(LocalRandomizer(1.0, (0.0, 1.0)), 0.5, user="ada", key="1")
    with pytest.raises(LedgerError, match="hard links"):
        UserLedger(fast_path / "more.db")
    (fast_path / "more.db").unlink()
    assert ledger.spent("ada") == 0.0


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


def test_a_copy_made_while_a_charge_is_written_loses_nobodys_charge(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, (wait, go) = fast_path / "ledger.db", entries.now, os.pipe()
    PrivacyLedger(path, Budget.gdp(1.0)).bind_people(100)
    other = start_forked(PAY, str(path), str(wait))
    ledger = PrivacyLedger(path)

    def slow(*asked: str) -> str:
        copying = threading.Thread(target=shutil.copy, args=(path, fast_path / "backup.db"))
        copying.start()
        copying.join()  # its descriptor is closed, and with it go the locks that SQLite has taken
        monkeypatch.setattr(entries, "now", real)
        os.write(go, b"!")
        time.sleep(1.0)  # unless it has to wait, the other charges, releases and ends
        return real(*asked)

    monkeypatch.setattr(entries, "now", slow)
    charge = pay(ledger, "mine", 0.1)
    done = other.wait()
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stdout
    again = PrivacyLedger(path)
    assert [(c.seq, c.key) for c in again.charges()] == [(charge.seq, "mine"), (2, "1")]
    assert again.spent() == pytest.approx(np.hypot(0.1, 0.9))


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
        with pytest.raises(LedgerError, match="locked"), SqliteFile(path).transaction(write=False):
            pass
    with SqliteFile(path).transaction(write=False), SqliteFile(path).transaction(write=False):
        assert "held it for a minute" in str(write())
    assert write() is None


def test_a_process_that_dies_leaves_no_lock(fast_path: Path, impatient: None) -> None:
    path = fast_path / "x.db"
    code = f"import os\nfrom dptune._store import SqliteFile\nwith SqliteFile({str(path)!r}).transaction(write=True):\n"
    assert start_forked(f"{code}    os.kill(os.getpid(), 9)").wait().returncode == -9
    assert (fast_path / "x.db.lock").exists()
    assert other_writes(path)() is None


def test_a_lock_that_cannot_be_opened_is_named(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    (fast_path / "x.db.lock").unlink()
    (fast_path / "x.db.lock").symlink_to(fast_path / "none" / "x")
    with pytest.raises(LedgerError, match=r"its lock .*x\.db\.lock cannot be opened.*nothing was charged"):
        pay(ledger, "a", 0.1)
    (fast_path / "x.db.lock").unlink()
    assert pay(ledger, "a", 0.1).seq == 1
