"""Charges and public facts as rows, and how each charge carries the totals of all before it."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dptune._checks import attempt, text
from dptune._store import AskedQuestion, Mark, damaged
from dptune.ledger import schema
from dptune.ledger.events import chooses, digest_of_table
from dptune.ledger.gdp import Spent

Row = Mapping[Any, Any]  # a charge's row, by the names of its columns
WHOLE = ""  # scope of the facts about the whole ledger
_c = schema.charges.c
_f = schema.facts.c
_FACT = sa.select(_f.value).where((_f.scope == sa.bindparam("scope")) & (_f.name == sa.bindparam("name")))
_CHARGES = sa.select(
    _c.seq, _c.scope, _c.key, _c.mu, _c.private, _c.digest, _c.description, schema.releases.c.value
).select_from(schema.charges.outerjoin(schema.releases, schema.releases.c.charge == _c.seq))
_FIND = _CHARGES.where((_c.scope == sa.bindparam("scope")) & (_c.key == sa.bindparam("key")))
_NEWS = _CHARGES.where((_c.scope == sa.bindparam("scope")) & (_c.seq > sa.bindparam("seq"))).order_by(_c.seq)
_AFTER = sa.select(schema.charges).where(_c.seq > sa.bindparam("seq")).order_by(_c.seq)
_MARKED = sa.select(_c.seq, _c.hash, _c.mu_squared_so_far, _c.seeded_so_far).where(_c.seq == sa.bindparam("seq"))
_COUNT = sa.select(sa.func.count()).select_from(schema.charges).where(_c.seq <= sa.bindparam("seq"))
EVERY = 1_000  # charges after a mark, before another one is written; 30 ms to verify
HASH = sa.select(_c.hash).where(_c.seq == sa.bindparam("seq"))
_MADE = sa.select(sa.func.max(_c.nth)).where((_c.scope == sa.bindparam("scope")) & (_c.kind == sa.bindparam("kind")))
_HASHED = ("scope", "key", "nth", "mu", "mechanism", "private", "digest", "description")
LOOK = sa.select(  # the identity, the hash of a seen charge, and the last answered charge
    schema.ledger.c.identity,
    HASH.scalar_subquery(),
    sa.select(sa.func.max(schema.releases.c.charge)).scalar_subquery(),
)


@dataclass(frozen=True)
class Quota:
    """The allowed number of a scope's charges of one kind, checked in the charging transaction."""

    prefix: str  # common to the keys that count, with a "/" only at its end
    count: int


@dataclass(frozen=True)
class Charge:
    """One charged release. ``value`` is its recorded value, or None before that.

    Attributes:
        seq: position in the ledger, from 1.
        scope: the charged study.
        key: the release's idempotency key within the scope.
        mu: what it cost, in GDP; None for a release without a price in GDP, such as one of a fixed plan. None, too, of
            a choice within the limit of choices, and of a release within that of pure ones. Their ``description`` has
            eta or epsilon.
        private: False if its noise was seeded.
        value: the released vector, or None.
        description: public description of the release, as stored.
    """

    seq: int
    scope: str
    key: str
    mu: float | None
    private: bool
    value: tuple[float, ...] | None
    description: Mapping[str, Any]

    @property
    def eta(self) -> float:
        """Return a choice's part of the limit of choices if it has no price in GDP, else 0."""
        return _without_price("eta", self.mu, self.description)

    @property
    def epsilon(self) -> float:
        """Return a release's part of the limit of pure releases if it has no price in GDP, else 0."""
        return _without_price("epsilon", self.mu, self.description)

    @property
    def note(self) -> Mapping[str, Any]:
        """Public data stored with the charge."""
        note: Mapping[str, Any] = self.description["note"]
        return note


@dataclass(frozen=True)
class LedgerState:
    """The totals of all charges up to one."""

    mark: Mark = field(default_factory=Mark)  # this charge's number, and the hash of it and all before
    spent: Spent = field(default_factory=Spent)
    seeded: int = 0  # number of charges with seeded noise

    @property
    def private(self) -> bool:
        return self.seeded == 0

    def after(self, row: Row) -> LedgerState:
        link = self.mark.link({name: row[name] for name in _HASHED})
        mu = row["mu"]
        eta, epsilon = (_without_price(name, mu, row["description"]) for name in ("eta", "epsilon"))
        return LedgerState(link, self.spent.plus(mu, eta, epsilon), self.seeded + (not row["private"]))

    def columns(self) -> dict[str, object]:
        """Return the columns of the charge's row."""
        return {
            "seq": self.mark.seq,
            "hash": self.mark.hash,
            "mu_squared_so_far": str(self.spent.squares),
            "seeded_so_far": self.seeded,
        }


def _without_price(name: str, mu: float | None, description: Mapping[str, Any]) -> float:
    """Return the eta or the epsilon of a release without a price in GDP; 0 for others."""
    return float(description.get(name, 0.0)) if mu is None else 0.0


def cost_of(charges: Iterable[Charge]) -> Spent:
    """Return the joint cost of charges."""
    return reduce(lambda spent, charge: spent.plus(charge.mu, charge.eta, charge.epsilon), charges, Spent())


def follow(connection: sa.Connection, head: LedgerState, name: str) -> LedgerState:
    """Return the ledger's head, after recomputing the totals of the rows after ``head``."""
    for row in connection.execute(_AFTER, {"seq": head.mark.seq}).mappings():
        head = head.after(row)
        if any(row[column] != value for column, value in head.columns().items()):
            raise damaged(name, f"charge {row['seq']} does not follow from those before it")
    return head


def question_digests(connection: sa.Connection) -> dict[str, str]:
    """Return for each scope SHA-256 of its questions' digests, in their order."""
    digests: dict[str, Any] = {}
    for scope, digest in connection.execute(sa.select(_c.scope, _c.digest).order_by(_c.seq)):
        digests.setdefault(scope, hashlib.sha256()).update(digest.encode())
    return {scope: whole.hexdigest() for scope, whole in digests.items()}


def made(connection: sa.Connection, scope: str, kind: str) -> int:
    """Return the number of a scope's charges of a kind, which is the part of a key before its first "/"."""
    return int(connection.execute(_MADE, {"scope": scope, "kind": kind}).scalar() or 0)


def of(scope: str | None, prefix: str) -> sa.ColumnElement[bool]:
    """Return the query of one scope's or all charges with keys that start with ``prefix``."""
    parts = [] if scope is None else [_c.scope == text("scope", scope)]
    parts += [_c.key.startswith(text("prefix", prefix), autoescape=True)] if prefix != "" else []
    return sa.and_(sa.true(), *parts)


def find(connection: sa.Connection, scope: str, key: str) -> Row | None:
    """Return the row of a charge, or None."""
    return connection.execute(_FIND, {"scope": scope, "key": key}).mappings().first()


def read(connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[Charge]:
    """Return charges in their order."""
    return [charge_of(row) for row in connection.execute(_CHARGES.where(where).order_by(_c.seq)).mappings()]


def asked(connection: sa.Connection, rows: int) -> list[AskedQuestion]:
    """Return the questions of the first charges."""
    query = _CHARGES.add_columns(_c.mechanism, _c.charged_at).where(_c.seq <= rows).order_by(_c.seq)
    return [
        AskedQuestion(row["scope"], row["key"], _question(row), row["charged_at"][:10], _answer(row))
        for row in connection.execute(query).mappings()
    ]


def _answer(row: Row) -> Sequence[float] | str | None:
    return digest_of_table(row["description"], row["value"]) or row["value"]


def _question(row: Row) -> str:
    words = str(row["description"].get("statistic", row["mechanism"]))
    return f"a choice by the {words}" if chooses(row["description"]) else words


def news(connection: sa.Connection, scope: str, after: int) -> list[Charge]:
    """Return a scope's charges after a number, in their order."""
    return [charge_of(row) for row in connection.execute(_NEWS, {"scope": scope, "seq": after}).mappings()]


def charge_of(row: Row) -> Charge:  # the only place that constructs one
    """Return the charge of a row."""
    value = None if row["value"] is None else tuple(float(v) for v in row["value"])
    return Charge(row["seq"], row["scope"], row["key"], row["mu"], bool(row["private"]), value, row["description"])


def fact(connection: sa.Connection, scope: str, name: str) -> dict[str, Any] | None:
    """Return a public fact of a scope in its envelope, ``{"is": value}``, or None."""
    return connection.execute(_FACT, {"scope": scope, "name": name}).scalar()


def facts(connection: sa.Connection, name: str) -> dict[str, object]:
    """Return the facts of this name, by scope."""
    found = sa.select(schema.facts.c.scope, schema.facts.c.value).where(schema.facts.c.name == name)
    return {scope: value["is"] for scope, value in connection.execute(found)}


def fixed(connection: sa.Connection, scope: str, name: str, make: Callable[[], object]) -> object:
    """Return the stored fact, or store the one that ``make`` returns: the first writer fixes it."""
    if (stored := fact(connection, scope, name)) is not None:
        return stored["is"]
    value = make()
    connection.execute(sa.insert(schema.facts).values(scope=scope, name=name, value={"is": value}))
    return value


def now(precision: str = "microseconds") -> str:
    """Return the time in the ledger's format, which is compared across ledgers."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=precision)


# ---- the mark of an SQLite ledger -----------------------------------------------------------------------------------
#
# A file next to the ledger, ``<ledger>.verified``, marks the charge up to which the chain was verified. Without it,
# opening a ledger of 100,000 charges takes seconds. With it, opening reads the charges after the mark, counts those
# before it, and compares the marked charge. Everything is read where the file is missing, damaged, of another ledger,
# or ahead of the ledger, and before each statement and certificate.
#
# The assumption is that of the chain itself: both guard against accidents. A person who may write the folder can
# compute hashes, and so a mark. A change of an earlier charge by accident is found by the next statement. It moves no
# budget, as the totals are those of the mark.


def verified(connection: sa.Connection, identity: str, name: str, *, whole: bool) -> LedgerState:
    """Return the ledger's head, after recomputing the totals of the charges after the mark, or of the whole chain."""
    database = connection.engine.url.database if connection.dialect.name == "sqlite" else None
    file = None if database is None else Path(f"{database}.verified")
    state = None if file is None or whole else attempt(_read_mark, file, identity, failed=None)
    if state is None or not _has_mark(connection, state):
        state = LedgerState()
    head = follow(connection, state, name)
    if file is not None and head.mark.seq - state.mark.seq >= EVERY:
        attempt(_write_mark, file, identity, head, failed=None)
    return head


def _has_mark(connection: sa.Connection, state: LedgerState) -> bool:
    asked = {"seq": state.mark.seq}
    row = connection.execute(_MARKED, asked).mappings().first()
    return row is not None and dict(row) == state.columns() and connection.scalar(_COUNT, asked) == state.mark.seq


def _write_mark(file: Path, identity: str, state: LedgerState) -> None:
    spent = {name: str(value) for name, value in vars(state.spent).items()}
    stored = {**state.mark.to_json(identity), "spent": spent, "seeded": state.seeded}
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps({"is": stored, "check": _checksum(stored)}))
    part.replace(file)


def _read_mark(file: Path, identity: str) -> LedgerState:
    held = json.loads(file.read_text())
    stored = held["is"]
    if held["check"] != _checksum(stored):
        raise ValueError
    spent = Spent(**{name: Decimal(value) for name, value in stored["spent"].items()})
    return LedgerState(Mark.from_json(stored, identity, ""), spent, stored["seeded"])


def _checksum(stored: Any) -> str:
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
