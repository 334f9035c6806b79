"""A file next to an SQLite ledger, ``<ledger>.verified``, marks the charge up to which the chain was verified.

Without it, opening a ledger of 100,000 charges takes seconds. With it, opening reads the charges after the mark, counts
those before it, and compares the marked charge. Everything is read where the file is missing, damaged, of another
ledger, or ahead of the ledger, and before each statement and certificate.

The assumption is that of the chain itself: both guard against accidents. A person who may write the folder can compute
hashes, and so a mark. A change of an earlier charge by accident is found by the next statement. It moves no budget, as
the totals are those of the mark.
"""

from __future__ import annotations

import hashlib
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dptune._checks import attempt
from dptune._store import Mark
from dptune.ledger import entries, schema
from dptune.ledger.entries import LedgerState
from dptune.ledger.gdp import Spent

EVERY = 1_000  # charges after a mark, before another one is written; 30 ms to verify
_c = schema.charges.c
_MARKED = sa.select(_c.seq, _c.hash, _c.mu_squared_so_far, _c.seeded_so_far).where(_c.seq == sa.bindparam("seq"))
_COUNT = sa.select(sa.func.count()).select_from(schema.charges).where(_c.seq <= sa.bindparam("seq"))


def follow(connection: sa.Connection, identity: str, name: str, *, whole: bool) -> LedgerState:
    """Return the ledger's head, after recomputing the totals of the charges after the mark, or of the whole chain."""
    database = connection.engine.url.database if connection.dialect.name == "sqlite" else None
    file = None if database is None else Path(f"{database}.verified")
    state = None if file is None or whole else attempt(_read, file, identity, failed=None)
    if state is None or not _is_there(connection, state):
        state = LedgerState()
    head = entries.follow(connection, state, name)
    if file is not None and head.mark.seq - state.mark.seq >= EVERY:
        attempt(_write, file, identity, head, failed=None)
    return head


def _is_there(connection: sa.Connection, state: LedgerState) -> bool:
    asked = {"seq": state.mark.seq}
    row = connection.execute(_MARKED, asked).mappings().first()
    return row is not None and dict(row) == state.columns() and connection.scalar(_COUNT, asked) == state.mark.seq


def _write(file: Path, identity: str, state: LedgerState) -> None:
    spent = {name: str(value) for name, value in vars(state.spent).items()}
    stored = {**state.mark.to_json(identity), "spent": spent, "seeded": state.seeded}
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps({"is": stored, "check": _check(stored)}))
    part.replace(file)


def _read(file: Path, identity: str) -> LedgerState:
    held = json.loads(file.read_text())
    stored = held["is"]
    if held["check"] != _check(stored):
        raise ValueError
    spent = Spent(**{name: Decimal(value) for name, value in stored["spent"].items()})
    return LedgerState(Mark.from_json(stored, identity, ""), spent, stored["seeded"])


def _check(stored: Any) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
