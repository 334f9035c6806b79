"""Public facts of a scope in the ledger's database: whoever is first says what they are, for good."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from dptune.accounting import schema

_f = schema.facts.c
_STORED = sa.select(_f.value).where((_f.scope == sa.bindparam("scope")) & (_f.name == sa.bindparam("name")))


def first(connection: sa.Connection, scope: str, name: str, make: Callable[[], object]) -> object:
    """Return the fact that is stored, or store the one that ``make`` returns. In a writing transaction."""
    known = stored(connection, scope, name)
    if known is not None:
        return known["is"]
    value = make()
    connection.execute(sa.insert(schema.facts).values(scope=scope, name=name, value={"is": value}))
    return value


def stored(connection: sa.Connection, scope: str, name: str) -> dict[str, object] | None:
    """Return the fact in its envelope, ``{"is": value}``, or None."""
    return connection.execute(_STORED, {"scope": scope, "name": name}).scalar()
