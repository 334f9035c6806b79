"""The fixtures are a ledger that has charges and the facts for a registry."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from dptune import LossPrivatizer, PrivacyLedger


@pytest.fixture
def used(ledger: PrivacyLedger) -> PrivacyLedger:
    """A ledger with two releases in one study and one in another."""
    privatizer = LossPrivatizer(ledger, n=4, clip=(0.0, 1.0))
    for scope, key in (("one", "value/0"), ("one", "value/1"), ("two", "value/0")):
        privatizer.observe(key, np.full(4, 0.5))
        privatizer.release(privatizer.mean_query(key, 0.1), scope=scope, key=key)
    return ledger


@pytest.fixture
def about(tmp_path: Path) -> Path:
    return Path(shutil.copy(Path(__file__).parents[2] / "examples/about.toml", tmp_path))
