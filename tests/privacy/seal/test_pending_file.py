"""What is in the file of pending losses, byte by byte: neither the key, nor one IV twice, nor what was deleted."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dptune.privacy import PendingLosses
from dptune.privacy.seal.pending import PendingPoint

KEY = PendingLosses.new_key()
ROW = np.random.default_rng(0).random(9000).astype(np.float32)  # of several pages, or it would never leave the first
WHOSE = ["ledger", 1]


def keep(pending: PendingLosses, *names: str) -> None:
    for name in names:
        pending.keep(PendingPoint(name, "run", {"a": 0.5}, False), ROW, whose=WHOSE)


def written(folder: Path) -> bytes:
    """All bytes that SQLite has left: the file, and any journal beside it."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("pending.db*")))


def tokens(pending: PendingLosses) -> dict[str, bytes]:
    return dict(pending._file.execute("SELECT point, sealed FROM pending"))


def pieces(token: bytes, size: int = 48) -> Iterator[bytes]:
    return (token[i : i + size] for i in range(0, len(token) - size, size))


@pytest.fixture
def pending(fast_path: Path) -> PendingLosses:
    return PendingLosses(fast_path / "pending.db", KEY)


def test_no_part_of_the_key_is_in_the_file(pending: PendingLosses, fast_path: Path) -> None:
    keep(pending, "a", "b")
    raw, found = base64.urlsafe_b64decode(KEY), written(fast_path)
    forms = [
        raw[:16],
        raw[16:],
        raw.hex().encode(),
        KEY.encode(),
        base64.b64encode(raw[:15]),
        base64.b64encode(raw[16:31]),
    ]
    assert not [form for form in forms if form in found]
    assert len(raw) == 32


def test_equal_rows_look_different_each_with_an_iv_of_its_own(pending: PendingLosses, fast_path: Path) -> None:
    keep(pending, *"abcdefgh")
    sealed = [*tokens(pending).values()]
    keep(pending, *"abcd")  # again: a row that is written anew has another one, too
    sealed += [tokens(pending)[name] for name in "abcd"]
    pending.close()
    another = PendingLosses(fast_path / "pending.db", KEY)
    keep(another, "i", "j")
    sealed += [tokens(another)[name] for name in "ij"]
    opened = [base64.urlsafe_b64decode(token) for token in sealed]  # Fernet: version, time, IV (16), blocks, HMAC
    assert {token[0] for token in opened} == {0x80}
    assert len({token[9:25] for token in opened}) == len(sealed) == 14
    blocks = [token[25 + i : 41 + i] for token in opened for i in range(0, 160, 16)]
    assert len({*blocks}) == len(blocks)


@pytest.mark.parametrize("way", ["dropped", "written anew", "dropped in another life"])
def test_what_was_deleted_cannot_be_read_any_more(pending: PendingLosses, fast_path: Path, way: str) -> None:
    keep(pending, *"abcde")
    gone = [tokens(pending)[name] for name in "bd"]
    kept = tokens(pending)["c"]
    assert all(piece in written(fast_path) for piece in list(pieces(kept))[:3])
    if way == "dropped in another life":
        pending.close()
        pending = PendingLosses(fast_path / "pending.db", KEY)
    if way == "written anew":
        keep(pending, *"bd")
    else:
        pending.drop(["b", "d"])
    for _ in ("as a kill leaves it", "closed"):
        left = written(fast_path)
        assert not [piece for token in gone for piece in pieces(token) if piece in left]
        pending.close()
    again = PendingLosses(fast_path / "pending.db", KEY)
    names = [waiting.point for waiting, row in again.rows("run", whose=WHOSE) if np.array_equal(row, ROW)]
    assert sorted(names) == [*("abcde" if way == "written anew" else "ace")]
