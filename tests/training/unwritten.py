"""Many selections in a moment: the whole of repeat_and_select, on a ledger that keeps nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dptune.training import Repeats, SelectionPlan, TrainingLedger
from dptune.training.repeats import Selected, repeat_and_select


class Unwritten(TrainingLedger):
    """A ledger of one selection that keeps nothing."""

    identity, n = "", 0

    def __init__(self, plan: SelectionPlan, n: int) -> None:
        self.plan, self.n = plan, n

    def begin_selection(self, *_: object, **__: object) -> Any:
        return type("Charge", (), {"value": (), "private": True})()

    def count(self) -> int:
        return 0

    def fix(self, scope: str, name: str, value: object) -> object:
        return value


def selections(
    once: Callable[[], Any], count: int, *, law: Repeats, n: int, score_mu: float, clip: Any = (0.0, 1.0)
) -> list[Selected]:
    """Make ``count`` of them."""
    ledger = Unwritten(SelectionPlan(law, score_mu=score_mu), n)
    return [repeat_and_select(once, [ledger], clip=clip) for _ in range(count)]
