"""Losses that wait, in an encrypted file, byte by byte: what they are without the key, and who may take them back."""

import base64
import copy
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptune import Budget, InputError, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.privacy import PendingLosses
from dptune.privacy.noise import SeededNoise

KEY = PendingLosses.new_key()
N = 9000  # of several pages, or nothing would ever leave the first
HERE = {"scope": "run", "parameters": {"a": 0.5}}


def opened(folder: Path, *, key: str = KEY, ledger: str = "ledger.db", **change: Any) -> LossPrivatizer:
    settings = {"n": N, "clip": (0.0, 1.0), "pending": PendingLosses(folder / "pending.db", key), **change}
    return LossPrivatizer(PrivacyLedger(folder / ledger, Budget.gdp(1.0)), **settings)


def kill(privatizer: LossPrivatizer) -> None:
    assert privatizer.pending is not None
    privatizer.pending.close()


def keep(privatizer: LossPrivatizer, *names: str) -> None:
    for name in names:
        privatizer.observe(name, np.random.default_rng(0).random(N))  # the same losses at each point
        privatizer.keep(name, **HERE)


def written(folder: Path) -> bytes:
    """All bytes that SQLite has left: the file, and any journal beside it."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("pending.db*")))


def tokens(privatizer: LossPrivatizer) -> dict[str, bytes]:
    return dict(privatizer.pending._file.execute("SELECT point, sealed FROM pending"))


def pieces(token: bytes, size: int = 48) -> list[bytes]:
    return [token[i : i + size] for i in range(0, len(token) - size, size)]


# ---- a process that was killed -----------------------------------------------------------------------------


def test_losses_outlive_their_process_bit_for_bit_and_in_order(fast_path: Path) -> None:
    first = opened(fast_path)
    keep(first, "b", "a")
    first.observe_failure("failed")
    for name in ("failed", "never observed"):
        first.keep(name, **HERE)
    held = first._held.row("a")
    kill(first)
    again = opened(fast_path)
    assert again.kept("another run") == []
    kept = again.kept("run")
    assert [(waiting.point, waiting.failed) for waiting in kept] == [("b", False), ("a", False), ("failed", True)]
    assert all(waiting.parameters == {"a": 0.5} for waiting in kept)
    assert again._held.row("a").tobytes() == held.tobytes()
    assert again._held.failed == {"failed"}
    assert again.kept("run") == []  # it holds them by now


def test_losses_of_another_key_ledger_or_privatizer_and_changed_ones_are_refused(fast_path: Path) -> None:
    first = opened(fast_path)
    keep(first, "a")
    kill(first)
    for change, why in (
        ({"key": PendingLosses.new_key()}, "does not open them"),
        ({"clip": (0.0, 2.0)}, "were others"),
        ({"dtype": np.float64}, "were others"),
        ({"noise": SeededNoise(1)}, "were others"),
        ({"n": None, "groups": np.arange(N)[::-1].copy()}, "were others"),
        ({"ledger": "other.db"}, "another one"),
        ({}, "or they were changed"),
    ):
        if not change:
            with closing(sqlite3.connect(fast_path / "pending.db")) as file, file:
                file.execute("UPDATE pending SET sealed = replace(sealed, 'A', 'B')")
        other = opened(fast_path, **change)
        with pytest.raises(InputError, match=f"{why}.*delete the file"):
            other.kept("run")
        kill(other)


def test_a_file_belongs_to_one_process_at_a_time_and_one_that_cannot_be_used_says_so(fast_path: Path) -> None:
    first, path = opened(fast_path), fast_path / "pending.db"
    bad: list[tuple[Callable[[], object], str]] = [
        (lambda: PendingLosses(path, KEY, wait=0.0), "give each worker a path of its own"),
        (lambda: PendingLosses(fast_path / "no folder" / "pending.db", KEY), "cannot be used"),
        *((lambda key=key: PendingLosses(path, key), "new_key") for key in ("", "short", 7, None, "x" * 44)),
    ]
    for make, words in bad:
        with pytest.raises(InputError, match=words):
            make()
    kill(first)
    kill(opened(fast_path))
    with pytest.raises(LedgerError) as failed:
        keep(first, "a")
    assert f"pending losses {path} cannot be written" in str(failed.value)


def test_the_key_is_neither_shown_nor_pickled_and_copies_have_no_file(fast_path: Path) -> None:
    privatizer = opened(fast_path)
    assert KEY not in repr(privatizer.pending)
    with pytest.raises(TypeError):
        pickle.dumps(privatizer.pending)
    for other in (copy.deepcopy(privatizer), pickle.loads(pickle.dumps(privatizer))):
        assert other.pending is None
        keep(other, "a")
    assert KEY.encode() not in pickle.dumps(privatizer)
    assert privatizer.kept("run") == []


# ---- what is in the file -----------------------------------------------------------------------------------


def test_the_file_says_nothing_of_the_losses_or_the_key_and_its_size_is_public(fast_path: Path) -> None:
    raw, sizes = base64.urlsafe_b64decode(KEY), set()
    forms = [raw[:16], raw[16:], raw.hex().encode(), KEY.encode(), b"parameters"]
    forms += [base64.b64encode(raw[:15]), base64.b64encode(raw[16:31])]
    for i, values in enumerate([np.random.default_rng(0).random(N), np.zeros(N), np.full(N, np.nan), None]):
        folder = fast_path / str(i)
        folder.mkdir()
        privatizer = opened(folder)
        if values is None:
            privatizer.observe_failure("a")
        else:
            privatizer.observe("a", values)
        privatizer.keep("a", **HERE)
        row, content = privatizer._held.row("a").tobytes(), written(folder)
        assert not any(row[i : i + 16] in content for i in range(0, len(row), 16) if any(row[i : i + 16]))
        assert not [form for form in forms if form in content]
        sizes.add((len(content), (folder / "pending.db").stat().st_mode & 0o777))
    assert [mode for _, mode in sizes] == [0o600]


def test_equal_rows_look_different_each_with_an_iv_of_its_own(fast_path: Path) -> None:
    first = opened(fast_path)
    keep(first, *"abcdefgh")
    sealed = [*tokens(first).values()]
    for name in "abcd":
        first.keep(name, **HERE)  # again: a row that is written anew has another one, too
    sealed += [tokens(first)[name] for name in "abcd"]
    kill(first)
    another = opened(fast_path)
    keep(another, "i", "j")
    sealed += [tokens(another)[name] for name in "ij"]
    fernet = [base64.urlsafe_b64decode(token) for token in sealed]  # version, time, IV (16), blocks, HMAC
    assert {token[0] for token in fernet} == {0x80}
    assert len({token[9:25] for token in fernet}) == len(sealed) == 14
    blocks = [token[25 + i : 41 + i] for token in fernet for i in range(0, 160, 16)]
    assert len({*blocks}) == len(blocks)


@pytest.mark.parametrize("way", ["dropped", "forgotten", "written anew", "dropped in another life"])
def test_what_was_deleted_cannot_be_read_any_more(fast_path: Path, way: str) -> None:
    privatizer = opened(fast_path)
    keep(privatizer, *"abcde")
    gone, kept = [tokens(privatizer)[name] for name in "bd"], tokens(privatizer)["c"]
    assert all(piece in written(fast_path) for piece in pieces(kept)[:3])
    if way == "dropped in another life":
        kill(privatizer)
        privatizer = opened(fast_path)
    if way == "written anew":
        keep(privatizer, *"bd")
    elif way == "forgotten":
        privatizer.forget("b")
        privatizer.forget("d")
    else:
        privatizer.drop_pending(["b", "d", "unknown"])
    assert ("b" in privatizer.points()) is (way in ("dropped", "written anew"))
    for _ in ("as a kill leaves it", "closed"):
        left = written(fast_path)
        assert not [piece for token in gone for piece in pieces(token) if piece in left]
        kill(privatizer)
    names = sorted(waiting.point for waiting in opened(fast_path).kept("run"))
    assert names == [*("abcde" if way == "written anew" else "ace")]
