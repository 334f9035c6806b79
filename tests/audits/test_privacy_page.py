"""Every test that docs/privacy.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", (ROOT / "docs/privacy.md").read_text()))
    assert len(named) > 20
    assert not [name for name in sorted(named) if not (ROOT / name).is_file()]
