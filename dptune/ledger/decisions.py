"""What was decided about a budget after it was made: raises, and its division. Stored as facts, vouched for by charges.

The first charge after a decision has it in its description, and so in the chain of hashes. A file whose facts say
something else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from dptune._checks import json_data
from dptune.ledger import entries, schema
from dptune.ledger.entries import WHOLE

_RAISE = "budget/"  # with a number: a fact about the whole ledger
_LIMITS = "limits/"  # the same
FIXES = "limits"  # in the description of the charge that has fixed them
RAISED = "raises"  # in that of the first charge after a raise

_f = schema.facts.c
_OF_ALL = sa.select(_f.value).where(_f.scope == WHOLE).order_by(_f.name)
_RAISES, _ALL_LIMITS = (_OF_ALL.where(_f.name.startswith(name)) for name in (_RAISE, _LIMITS))  # at every look
_d = sa.cast(schema.charges.c.description, sa.Text)
_SAID = (  # descriptions that may say limits or raises
    sa.select(schema.charges.c.description)
    .where(sa.or_(_d.contains(f'"{FIXES}"'), _d.contains(f'"{RAISED}"')))
    .order_by(schema.charges.c.seq)
)


def raises(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return how the budget was raised, in order."""
    return [value["is"] for value in connection.execute(_RAISES).scalars()]


def limits(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return the limits as they were fixed, in order; the last ones hold."""
    return [value["is"] for value in connection.execute(_ALL_LIMITS).scalars()]


def store_raise(connection: sa.Connection, act: Mapping[str, object]) -> None:
    """Store a raise."""
    _store(connection, _RAISE, len(raises(connection)), "a raise", act)


def store_limits(connection: sa.Connection, stored: Mapping[str, object]) -> None:
    """Store limits."""
    _store(connection, _LIMITS, len(limits(connection)), "limits", stored)


def _store(connection: sa.Connection, kind: str, so_far: int, name: str, value: Mapping[str, object]) -> None:
    entries.fixed(connection, WHOLE, f"{kind}{so_far + 1:06}", lambda: json_data(name, dict(value)))


def contradiction(connection: sa.Connection, pending: Sequence[Mapping[str, Any]]) -> str:
    """Return how the facts contradict the charges; "" if they do not.

    Args:
        pending: raises since the last charge, which no charge vouches for yet.
    """
    said = connection.execute(_SAID).scalars().all()
    stored = limits(connection)
    if [act for each in said for act in each.get(RAISED, [])] + list(pending) != raises(connection):
        return "its raises are not those that its charges say"
    fixed = [each[FIXES] for each in said if FIXES in each]
    if not fixed and not stored:
        return ""
    last_is_said = fixed[-1:] == stored[-1:] or bool(pending)
    if any(each not in stored for each in fixed) or not last_is_said or _divided(fixed) != _divided(stored):
        return "its limits are not those that its charges have fixed"
    return ""


def _divided(facts: Sequence[Mapping[str, Any]]) -> set[tuple[float, float]]:
    return {(each["eta"], each["pure"]) for each in facts}
