"""A ledger of a device's user."""

from __future__ import annotations

from pathlib import Path

import pytest

from dptune.local import UserLedger


@pytest.fixture
def ledger(fast_path: Path) -> UserLedger:
    return UserLedger(fast_path / "replies.db", cap=2.0)
