"""A ledger for one run, in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dptune import Budget, PrivacyLedger


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(4.0))
