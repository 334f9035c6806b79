"""Many selections in a moment: the whole of repeat_and_select, on a ledger that keeps nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dptune.training import Repeats, SelectionPlan
from dptune.training import select as implementation
from dptune.training.select import Selected, repeat_and_select


class Unwritten:
    """A ledger that keeps nothing."""

    identity = ""

    def begin_selection(self, *_: object, **__: object) -> Any:
        return type("Charge", (), {"value": (), "private": True})()

    def count(self) -> int:
        return 0

    def fix(self, scope: str, name: str, value: object) -> object:
        return value


def selections(
    monkeypatch: pytest.MonkeyPatch, once: Callable[[], Any], count: int, *, law: Repeats, n: int, score_mu: float
) -> list[Selected]:
    """Make ``count`` of them; their losses lie in [0, 1]."""
    monkeypatch.setattr(implementation, "_scoring", lambda _: (SelectionPlan(law, score_mu=score_mu), n))
    monkeypatch.setattr(implementation, "_digest", lambda *_: "")
    ledger: Any = Unwritten()
    return [repeat_and_select(once, [ledger], clip=(0.0, 1.0)) for _ in range(count)]
