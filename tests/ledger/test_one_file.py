"""One file, one ledger: a second name is refused, and a copy made inside the process takes no lock away."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
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

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def mounted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system say that the path is a mount point, as it writes names."""
    table = path.parent / "mountinfo"
    point = str(path).replace("\\", r"\134").replace(" ", r"\040")
    table.write_text(
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        f"36 22 8:1 /srv/ledger.db {point} rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    )
    monkeypatch.setattr(_store, "_MOUNTS", str(table))


# ---- a second name ------------------------------------------------------------------------------------------


@every_kind
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


@every_kind
@pytest.mark.parametrize("name", ["a.db", "with a space.db", "back\\slash.db"])
def test_a_file_that_is_mounted_by_itself_is_refused(
    fast_path: Path, kind: Kind, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind.new(fast_path / name)
    (fast_path / "link.db").symlink_to(fast_path / name)
    mounted(fast_path / name, monkeypatch)
    for path in (fast_path / name, fast_path / "link.db"):
        with pytest.raises(LedgerError, match=r"mounted as a single file.*Nothing was charged. Mount the folder"):
            kind.opener(path)
    mounted(fast_path, monkeypatch)  # its folder may be
    assert kind.opener(fast_path / name).count() == 0


def test_a_bind_mount_of_the_system_is_refused(fast_path: Path) -> None:
    """In a name space of its own, so that nothing has to be undone."""
    ledger = PrivacyLedger(fast_path / "a.db", Budget.gdp(1.0))
    (fast_path / "b.db").touch()
    script = f'mount --bind {fast_path}/a.db {fast_path}/b.db && "{sys.executable}" -c "$1"'
    opens = f"import dptune\ntry: dptune.PrivacyLedger('{fast_path}/b.db')\nexcept dptune.LedgerError as no: print(no)"
    apart = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c"]
    try:
        possible = subprocess.run([*apart, "mount --bind / /"], capture_output=True).returncode == 0
    except FileNotFoundError:
        possible = False
    if not possible:
        pytest.skip("this machine lets nobody mount: the test before this one reads what Linux would say")
    found = subprocess.run([*apart, script, "sh", opens], capture_output=True, text=True, timeout=300)
    assert "mounted as a single file" in found.stdout, found.stderr
    assert ledger.count() == 0


def test_a_users_ledger_has_one_name_too(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = UserLedger(fast_path / "users.db", cap=2.0)
    os.link(fast_path / "users.db", fast_path / "more.db")
    with pytest.raises(LedgerError, match="hard links"):
        ledger.reply(LocalRandomizer(1.0, (0.0, 1.0)), 0.5, user="ada", key="1")
    with pytest.raises(LedgerError, match="hard links"):
        UserLedger(fast_path / "more.db")
    (fast_path / "more.db").unlink()
    assert ledger.spent("ada") == 0.0
    mounted(fast_path / "users.db", monkeypatch)
    with pytest.raises(LedgerError, match="mounted as a single file"):
        UserLedger(fast_path / "users.db")


# ---- a copy made inside the process ---------------------------------------------------------------------------

PAY = """
import sys
import numpy as np
from dptune import LossPrivatizer, PrivacyLedger

privatizer = LossPrivatizer(PrivacyLedger(sys.argv[1]), n=100, clip=(0.0, 1.0))
privatizer.observe("x", np.full(100, 0.3))
print(privatizer.release(privatizer.mean_query("x", 0.9), scope="other", key="1").charge.seq)
"""


def test_a_copy_made_while_a_charge_is_written_loses_nobodys_charge(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = fast_path / "ledger.db", entries.now
    ledger = PrivacyLedger(path, Budget.gdp(1.0))
    ledger.bind_people(100)
    others: list[subprocess.Popen[str]] = []

    def slow(*asked: str) -> str:
        copying = threading.Thread(target=shutil.copy, args=(path, fast_path / "backup.db"))
        copying.start()
        copying.join()  # its descriptor is closed, and with it go the locks that SQLite has taken
        monkeypatch.setattr(entries, "now", real)
        other = subprocess.Popen([sys.executable, "-c", PAY, str(path)], stdout=subprocess.PIPE, text=True)
        others.append(other)
        with contextlib.suppress(subprocess.TimeoutExpired):
            other.wait(6.0)  # unless it has to wait, it charges, releases and ends
        return real(*asked)

    monkeypatch.setattr(entries, "now", slow)
    charge = pay(ledger, "mine", 0.1)
    (other,) = others
    said, _ = other.communicate(timeout=300)
    assert (other.returncode, said.strip()) == (0, "2")
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


def test_a_reader_makes_no_lock_file(fast_path: Path) -> None:
    (fast_path / "data.csv").write_text("a,b\n1,2\n" * 200)
    with pytest.raises(LedgerError, match="not a database"):
        PrivacyLedger(fast_path / "data.csv")
    assert [path.name for path in fast_path.iterdir()] == ["data.csv"]


def test_a_lock_that_cannot_be_opened_is_named(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    (fast_path / "x.db.lock").unlink()
    (fast_path / "x.db.lock").symlink_to(fast_path / "none" / "x")
    with pytest.raises(LedgerError, match=r"its lock .*x\.db\.lock cannot be opened.*nothing was charged"):
        pay(ledger, "a", 0.1)
    (fast_path / "x.db.lock").unlink()
    assert pay(ledger, "a", 0.1).seq == 1
