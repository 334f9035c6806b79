"""The contract of the ledger runs on SQLite and on PostgreSQL: every test with a ``url``."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_tools import Urls


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, fast_path: Path) -> Urls:
    """Return a factory of places for a new ledger."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql")
    names = iter(range(10_000))
    return lambda: str(fast_path / f"ledger{next(names)}.db")


@pytest.fixture
def url(new_url: Urls) -> str:
    return new_url()
