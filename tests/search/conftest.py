"""A ledger for one run, in memory, and every method in turn."""

import pytest

from dptune import Budget, PrivacyLedger
from runs import KINDS, readable


@pytest.fixture
def ledger(fast_path):
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(4.0))


@pytest.fixture(params=KINDS, ids=readable)
def kind(request):
    """Give every method in turn."""
    return request.param
