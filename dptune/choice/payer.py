"""The privatizer that answers for a choice or a report: the user's own, or one of the user's ledger."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dptune._checks import readable
from dptune.errors import InputError
from dptune.ledger.gdp import Budget
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer

Payer: TypeAlias = LossPrivatizer | PrivacyLedger | str | Path


def privatizer_of(
    ledger: object,
    data: Any,
    *,
    groups: Any = None,
    n: int | None = None,
    budget: Budget | None = None,
    **given: Any,
) -> LossPrivatizer:
    """Return the privatizer given as ``ledger``, or a new one for the ledger, its path or its URL.

    Args:
        ledger: a ``LossPrivatizer``, which knows its people, or a ledger that this call fills with people.
        data: (X, y) or ``Rows`` of the private people, a function that loads them, or losses (m, rows).
        groups: (rows,) the person of each private row; default one person for each row.
        n: number of private rows, if ``data`` is a function or None.
        budget: budget of a ledger that does not exist yet.
        given: other settings of the privatizer; None for its default.

    Raises:
        InputError: the people are given twice, or their number is unknown. Nothing was charged.
    """
    if isinstance(ledger, LossPrivatizer):
        twice = {"groups": groups, "n": n, "budget": budget, **given}
        if names := [f"{name}=" for name, value in twice.items() if value is not None]:
            raise InputError(
                f"{' and '.join(names)} cannot be given with a LossPrivatizer, which has its own. Nothing was charged."
            )
        return ledger
    people = {"groups": groups} if groups is not None else {"n": rows_of(data) if n is None else n}
    chosen = {name: value for name, value in given.items() if value is not None}
    return LossPrivatizer(ledger_of(ledger, budget), **people, **chosen)


def ledger_of(ledger: object, budget: Budget | None = None) -> PrivacyLedger:
    """Return the given ledger, or the one at a path or URL; ``budget`` is for a new one."""
    if isinstance(ledger, PrivacyLedger):
        if budget is not None:
            raise InputError("budget= is for the path of a new ledger; this ledger has its own. Nothing was charged.")
        return ledger
    if isinstance(ledger, str | Path):
        return PrivacyLedger(ledger, budget)
    raise InputError(
        f"ledger must be a PrivacyLedger, its path or URL, or a LossPrivatizer; got {type(ledger).__name__}. "
        "Nothing was charged."
    )


def rows_of(data: Any) -> int:
    """Return the number of private rows, which is public."""
    if isinstance(data, np.ndarray) and data.ndim == 2:  # losses (m, rows)
        return int(data.shape[1])
    answers = data[-1] if isinstance(data, tuple | list) and len(data) == 2 else getattr(data, "y", None)
    if isinstance(answers, Sized):
        return readable("the private rows", len, answers)
    raise InputError(
        "the number of private rows is unknown. Give n= where data= is a function that loads them, or data=(X, y) or "
        "dptune.Rows(X, y, like=...). Nothing was charged."
    )
