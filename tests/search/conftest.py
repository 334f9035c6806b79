"""A ledger for one run, in memory, and every method in turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import KINDS, Kind, readable

from dptune import Budget, PrivacyLedger


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(4.0))


@pytest.fixture(params=KINDS, ids=readable)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give every method in turn."""
    return request.param
