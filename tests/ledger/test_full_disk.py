"""A disk that takes nothing more is noticed before a model is trained. (No file may grow here, which is as full.)"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dptune import CENTRED, Budget, Float, LedgerError, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.ledger import ledger as module


@contextmanager
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def begun(folder: Path) -> SearchRun:
    privatizer = LossPrivatizer(PrivacyLedger(folder / "ledger.db", Budget.gdp(1.0)), n=9, clip=(0.0, 1.0))
    run = SearchRun(CENTRED, privatizer, scope="run", space=Space({"a": Float(0.0, 1.0)}), trials=8, population=4)
    run.finish("first", run.ask(), np.full(9, 0.5))
    return run


def test_a_full_disk_is_noticed_before_training_and_nothing_is_charged(fast_path: Path) -> None:
    run = begun(fast_path)
    before = (fast_path / "ledger.db").read_bytes()
    for check in (lambda: run.check("next"), lambda: run.ledger.check(0.1)):
        with full_disk(), pytest.raises(LedgerError, match="cannot be used"):
            check()
        check()  # there is room again
    assert run.ledger.count() == 0
    assert (fast_path / "ledger.db").read_bytes() == before


def test_what_looks_without_writing_does_not_notice_it(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: then the test above fails."""
    monkeypatch.setattr(module, "_probe", lambda connection: None)
    run = begun(fast_path)
    with full_disk():
        run.check("next")
