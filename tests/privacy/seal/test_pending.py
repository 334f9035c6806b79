"""Losses that wait, encrypted: who lacks the key learns public numbers, and who has another setting is refused."""

from __future__ import annotations

import copy
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptune import Budget, InputError, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.privacy import PendingLosses
from dptune.privacy.noise import SeededNoise

KEY = PendingLosses.new_key()
N = 400
HERE = {"scope": "run", "parameters": {"a": 0.5}}


def opened(folder: Path, *, key: str = KEY, ledger: str = "ledger.db", **change: Any) -> LossPrivatizer:
    privatizer = LossPrivatizer(
        PrivacyLedger(folder / ledger, Budget.gdp(1.0)),
        **{"n": N, "clip": (0.0, 1.0), "pending": PendingLosses(folder / "pending.db", key), **change},
    )
    return privatizer


def kill(privatizer: LossPrivatizer) -> None:
    assert privatizer.pending is not None
    privatizer.pending.close()


def losses(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(N)


def test_losses_outlive_their_process_bit_for_bit_and_in_order(fast_path: Path) -> None:
    first = opened(fast_path)
    for name in "ba":
        first.observe(name, losses())
        first.keep(name, **HERE)
    first.observe_failure("failed")
    first.keep("failed", **HERE)
    first.keep("never observed", **HERE)
    held = first._held.row("a")
    kill(first)
    again = opened(fast_path)
    assert again.kept("another run") == []
    assert [(w.point, w.parameters, w.failed) for w in again.kept("run")] == [
        ("b", {"a": 0.5}, False),
        ("a", {"a": 0.5}, False),
        ("failed", {"a": 0.5}, True),
    ]
    assert again._held.row("a").tobytes() == held.tobytes()
    assert again._held.failed == {"failed"}
    assert again.kept("run") == []  # it holds them by now


@pytest.mark.parametrize("end", ["drop_pending", "forget"])
def test_what_is_settled_or_forgotten_is_neither_in_the_file_nor_taken_back(fast_path: Path, end: str) -> None:
    privatizer = opened(fast_path)
    privatizer.observe("a", losses())
    privatizer.keep("a", **HERE)
    file = fast_path / "pending.db"
    sealed = privatizer.pending._file.execute("SELECT sealed FROM pending").fetchone()[0]
    assert sealed[:64] in file.read_bytes()
    if end == "drop_pending":
        privatizer.drop_pending(["a", "unknown"])
        assert privatizer.points() == ("a",)
    else:
        privatizer.forget("a")
    left = file.read_bytes()
    assert not any(sealed[i : i + 64] in left for i in range(0, len(sealed) - 64, 64))
    kill(privatizer)
    assert opened(fast_path).kept("run") == []


def test_the_file_says_nothing_of_the_losses_without_the_key_and_its_size_is_public(fast_path: Path) -> None:
    sizes = set()
    for i, values in enumerate([losses(), np.zeros(N), np.full(N, np.nan), None]):
        folder = fast_path / str(i)
        folder.mkdir()
        privatizer = opened(folder)
        if values is None:
            privatizer.observe_failure("a")
        else:
            privatizer.observe("a", values)
        privatizer.keep("a", **HERE)
        row = privatizer._held.row("a").tobytes()
        content = (folder / "pending.db").read_bytes()
        assert not any(row[i : i + 16] in content for i in range(0, len(row), 16) if any(row[i : i + 16]))
        assert b"parameters" not in content
        sizes.add((len(content), (folder / "pending.db").stat().st_mode & 0o777))
    assert len(sizes) == 1
    assert sizes.pop()[1] == 0o600


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": PendingLosses.new_key()}, "does not open them"),
        ({"clip": (0.0, 2.0)}, "were others"),
        ({"dtype": np.float64}, "were others"),
        ({"noise": SeededNoise(1)}, "were others"),
        ({"n": None, "groups": np.arange(N)[::-1].copy()}, "were others"),
        ({"ledger": "other.db"}, "another one"),
    ],
)
def test_losses_of_another_key_ledger_or_privatizer_are_refused(fast_path: Path, change: dict, why: str) -> None:
    first = opened(fast_path)
    first.observe("a", losses())
    first.keep("a", **HERE)
    kill(first)
    with pytest.raises(InputError, match=f"{why}.*delete the file"):
        opened(fast_path, **change).kept("run")


def test_a_file_that_was_changed_is_refused(fast_path: Path) -> None:
    first = opened(fast_path)
    first.observe("a", losses())
    first.keep("a", **HERE)
    kill(first)
    with closing(sqlite3.connect(fast_path / "pending.db")) as file, file:
        file.execute("UPDATE pending SET sealed = replace(sealed, 'A', 'B')")
    with pytest.raises(InputError, match="or they were changed"):
        opened(fast_path).kept("run")


def test_a_file_belongs_to_one_process_at_a_time(fast_path: Path) -> None:
    first = opened(fast_path)
    with pytest.raises(InputError, match="give each worker a path of its own"):
        PendingLosses(fast_path / "pending.db", KEY, wait=0.0)
    kill(first)
    opened(fast_path)


def test_the_key_is_neither_shown_nor_pickled_and_copies_have_no_file(fast_path: Path) -> None:
    privatizer = opened(fast_path)
    assert KEY not in repr(privatizer.pending)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(privatizer.pending)
    for other in (copy.deepcopy(privatizer), pickle.loads(pickle.dumps(privatizer))):
        assert other.pending is None
        other.observe("a", losses())
        other.keep("a", **HERE)
    assert KEY.encode() not in pickle.dumps(privatizer)
    kill(privatizer)
    assert opened(fast_path).kept("run") == []


@pytest.mark.parametrize("key", ["", "short", 7, None, "x" * 44])
def test_what_is_no_key_is_refused(fast_path: Path, key: Any) -> None:
    with pytest.raises(InputError, match="new_key"):
        PendingLosses(fast_path / "pending.db", key)


def test_a_file_that_cannot_be_used_says_so(fast_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        PendingLosses(fast_path / "no folder" / "pending.db", KEY)
    privatizer = opened(fast_path)
    privatizer.observe("a", losses())
    kill(privatizer)
    with pytest.raises(LedgerError, match=r"pending losses .* cannot be written"):
        privatizer.keep("a", **HERE)
