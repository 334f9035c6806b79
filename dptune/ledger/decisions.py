"""Later decisions about a budget, its raises and its division, stored as facts and confirmed by charges.

The first charge after a decision repeats it in its description, and so in the chain of hashes. A file whose facts
contradict that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from dptune._checks import json_data
from dptune.ledger import entries, schema
from dptune.ledger.entries import WHOLE

RAISE, LIMITS = "budget/", "limits/"  # prefixes of numbered facts about the whole ledger
FIXES = "limits"  # key in the description of the charge that fixed the limits
RAISED = "raises"  # key in the description of the first charge after a raise

_f = schema.facts.c
_OF_ALL = sa.select(_f.value).where(_f.scope == WHOLE).order_by(_f.name)
_DECIDED = {kind: _OF_ALL.where(_f.name.startswith(kind)) for kind in (RAISE, LIMITS)}  # run by every look
_d = sa.cast(schema.charges.c.description, sa.Text)
_SAID = (  # descriptions that may contain limits or raises
    sa.select(schema.charges.c.description)
    .where(sa.or_(_d.contains(f'"{FIXES}"'), _d.contains(f'"{RAISED}"')))
    .order_by(schema.charges.c.seq)
)


def decided(connection: sa.Connection, kind: str) -> list[dict[str, Any]]:
    """Return the raises, or the limits, in order; the last one holds."""
    return [value["is"] for value in connection.execute(_DECIDED[kind]).scalars()]


def decide(connection: sa.Connection, kind: str, value: Mapping[str, object]) -> None:
    """Store a raise, or limits."""
    name = f"{kind}{len(decided(connection, kind)) + 1:06}"
    entries.fixed(connection, WHOLE, name, lambda: json_data("a decision", dict(value)))


def contradiction(connection: sa.Connection, pending: Sequence[Mapping[str, Any]]) -> str:
    """Return how the facts contradict the charges; "" if they do not.

    Args:
        pending: raises since the last charge, which no charge confirms yet.
    """
    said = connection.execute(_SAID).scalars().all()
    stored = decided(connection, LIMITS)
    if [act for each in said for act in each.get(RAISED, [])] + list(pending) != decided(connection, RAISE):
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
