"""A dry run: a choice's plan, and what it can show. It stores nothing and reads no private row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dptune.choice.payer import Payer, ledger_of, rows_of
from dptune.errors import BudgetMismatch
from dptune.ledger import schema
from dptune.ledger.approximate import Limits
from dptune.ledger.connection import Database, stored_row
from dptune.ledger.filter import Allowance, Divisions, GdpFilter, filter_of, is_pair
from dptune.ledger.gdp import Budget, Spent
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer
from dptune.privacy.query import Interval


class FutureLedger:
    """A plan's view of a ledger that does not exist yet: nothing is spent."""

    private, n = True, None

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._filter = filter_of(budget, pair=is_pair(budget), stored=None)

    def fact(self, scope: str, name: str) -> None: ...

    def find(self, scope: str, key: str) -> None: ...

    def count(self, scope: str | None = None) -> int:
        return 0

    def facts(self, name: str) -> dict[str, object]:
        return {}

    def runs(self) -> list[tuple[str, str]]:
        return []

    def allowance(self) -> Allowance:
        return self._filter.allowance(Spent(), {}, {})

    def filter_for(self, scope: str, *, plan: object = None) -> GdpFilter:
        return self._filter.after(scope, lambda: plan)

    def exposure(self) -> Limits | Divisions:
        return self._filter.exposure

    def remaining(self) -> float:
        return self._filter.left(Spent())

    def check(self, mu: float) -> None:
        self._filter.price("", mu, Spent())


class FuturePeople:
    """A plan's view of private people: their number, and the range of a loss if it is known."""

    private = True

    def __init__(self, ledger: Any, n: int, clip: tuple[float, float] | None) -> None:
        self.ledger, self.n, self._clip = ledger, n, clip
        self.largest_weight = self.squared_weights = 1 / n
        if ledger.n not in (None, n):
            raise BudgetMismatch(f"the ledger protects {ledger.n} people, and n is {n}. Nothing was charged.")

    @property
    def knows_clip(self) -> bool:
        return self._clip is not None

    @property
    def interval(self) -> Interval:
        return Interval.of(self._clip or (0.0, 0.0))

    def use_clip(self, clip: tuple[float, float]) -> None:
        self._clip = self._clip or clip


def future_people(
    payer: Payer | FuturePeople,
    data: Any,
    *,
    groups: Any = None,
    n: int | None = None,
    budget: Budget | None = None,
    clip: Any = None,
) -> Any:
    """Return the given privatizer, or a ledger's people as a plan needs them.

    Args:
        payer: a privatizer, a ledger, or its path or URL; ``budget`` is for a ledger that does not exist yet.
        data, groups, n: see :func:`dptune.choice.payer.privatizer_of`; nothing is read.
        clip: (low, high), if it is known.
    """
    if isinstance(payer, LossPrivatizer | FuturePeople):
        return payer
    people = len(np.unique(groups)) if groups is not None else rows_of(data) if n is None else n
    ledger: Any = payer
    if isinstance(payer, str | Path):
        exists = stored_row(Database(schema.normalise_url(payer))) is not None
        ledger = FutureLedger(budget) if budget is not None and not exists else PrivacyLedger(payer, budget)
    else:
        ledger = ledger_of(payer, budget)
    return FuturePeople(ledger, people, (clip[0], clip[1]) if isinstance(clip, tuple | list) else None)
