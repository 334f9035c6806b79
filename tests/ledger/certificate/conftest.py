"""Ledgers with a few releases, and a key."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from certificate_tools import Keys, make_keys

from dptune import LossPrivatizer, PrivacyLedger


@pytest.fixture
def used(ledger: PrivacyLedger) -> PrivacyLedger:
    """A ledger with two releases in one study and one in another."""
    privatizer = LossPrivatizer(ledger, n=4, clip=(0.0, 1.0))
    for scope, key in (("one", "value/0"), ("one", "value/1"), ("two", "value/0")):
        privatizer.observe(key, np.full(4, 0.5))
        privatizer.release(privatizer.mean_query(key, 0.1), scope=scope, key=key)
    return ledger


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def about(tmp_path: Path) -> Path:
    path = tmp_path / "about.toml"
    path.write_text(ABOUT)
    return path


ABOUT = """
name = "Readmission model, 2026"
curator = "A hospital"
curator_type = "Nonprofit"
description = "A classifier of readmissions."
intended_use = "Plan beds."
region = "Finland"
sector = "Healthcare"
publication_date = 2026-11-22
authors = ["Ann Lee"]
preparation = 'Bounds from the "public" year 2020; no row was looked at.'
justification = "mu = 1 by our board's rule."
"""
