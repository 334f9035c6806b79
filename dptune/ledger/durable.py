"""The operations of a ledger: charge first, then read, then draw, then record.

Life of a release::

    charge(scope, key, ...)     one transaction: look up the key, check the rule, insert, commit
    ... read the data, draw the noise ...
    record(charge, value)       one transaction; the first writer wins and everybody gets its value

A crash after ``charge`` leaves the charge in place. A retry with the same key and question is not charged: it gets the
recorded value. If there is no recorded value, the retry draws one and records it before returning it. So each charge
has at most one published value, whatever crashes.

Subclasses decide what may be charged: a budget in GDP (:mod:`dptune.ledger.ledger`) or a fixed plan of subsampled
releases (:mod:`dptune.ledger.plan_ledger`).

Every transaction reads the charges that are new to the object, and refuses a ledger that contradicts those it has seen
(:mod:`dptune.ledger.entries`). Its cost does not grow with the ledger.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import sqlalchemy as sa

from dptune._checks import boolean, json_data, shown, text
from dptune._store import AskedQuestion, Mark, behind, check_pages, damaged
from dptune.errors import BudgetMismatch, KeyConflict, LedgerError, PlanComplete
from dptune.ledger import entries, schema
from dptune.ledger.connection import KINDS, Database, after_a_charge, known_row, repeated, stored_row
from dptune.ledger.entries import WHOLE, Charge, LedgerState, Quota, Row
from dptune.ledger.events import Described
from dptune.ledger.gdp import probability

T = TypeVar("T")
_CREATION_LOCK = 0x6470_7475_6E65  # "dptune", for pg_advisory_xact_lock
_INSERT_CHARGE, _INSERT_RELEASE = sa.insert(schema.charges), sa.insert(schema.releases)
_logger = logging.getLogger("dptune.ledger.ledger")


class DurableLedger:
    """The part of a ledger that does not depend on its rule; only subclasses are constructed.

    Args:
        url: URL or path of the database, or an open :class:`Database`.
        promise: the budget or plan as columns of a new ledger; None to open an existing one only.
        words: the promise in words, for the log.
        said: the caller's "dataset", "unit" and "adjacency": stored by a new ledger, compared with an existing one.

    Attributes:
        url: URL of the ledger; printing it hides the password.
        identity: random name of the ledger, drawn at its creation.
    """

    kind: ClassVar[str]  # one of KINDS
    protects: ClassVar[Mapping[str, str]]  # default of what is protected

    def __init__(self, url: str | Path | Database, promise: Row | None, words: str, **said: str | None) -> None:
        said = {k: text(k, v) for k, v in said.items() if v is not None and not (isinstance(v, str) and not v)}
        self._database = url if isinstance(url, Database) else Database(schema.normalise_url(url))
        self.url, self._name = self._database.url, self._database.name
        if promise is not None and stored_row(self._database) is None:
            self._database.repeat(lambda: self._create({**self.protects, **said, **promise}, words))
        self._row = known_row(self._database)
        if self._row["kind"] != self.kind:
            raise LedgerError(
                f"the ledger {self._name} holds {KINDS[self._row['kind']]}. What is charged to one kind of ledger "
                "cannot be charged to another."
            )
        self._seen = self._database.repeat(self._read_all)
        self.identity: str = self._row["identity"]
        self.dataset: str = self._row["dataset"]
        self.unit: str = self._row["unit"]
        self.adjacency: str = self._row["adjacency"]
        self.trust_model: str = self._row["trust_model"]
        for name, value in said.items():
            self._refuse_mismatch(name, value, self._row[name])

    # ---- opening -----------------------------------------------------------------------------

    def _create(self, row: Row, words: str) -> None:
        header = {
            "id": 1,
            "identity": secrets.token_hex(16),
            "version": schema.VERSION,
            "created_at": entries.now(),
            "versions": schema.library_versions(),
            "kind": self.kind,
            "pair": False,
        }
        with self._database.transaction(write=True) as connection:
            if connection.dialect.name == "postgresql":  # two processes may create it together
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
            schema.create(connection)
            if connection.execute(sa.select(schema.ledger.c.id)).first() is None:
                connection.execute(sa.insert(schema.ledger).values({**header, **row}))
                _logger.warning(f"created a new ledger, nothing spent yet: {self._name}, {words}")

    def _read_all(self, *, whole: bool = False) -> LedgerState:
        """Read the charges after those that were verified, or all of them, and recompute their totals."""
        with self._database.transaction(write=False) as connection:
            if connection.dialect.name == "sqlite":  # a server checks its pages itself
                check_pages(connection.exec_driver_sql, self._name)
            return entries.verified(connection, self._row["identity"], self._name, whole=whole)

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[tuple[sa.Connection, LedgerState]]:
        """Open a transaction on the ledger, and return the totals of its charges."""
        if self._database.missing:
            raise LedgerError(
                f"the ledger {self._name} was moved or deleted since it was opened. What was spent is in it: put it "
                "back."
            )
        with self._database.transaction(write=write) as connection:
            head = self._look(connection, write)
            yield connection, head
        self._see(head)

    def _look(self, connection: sa.Connection, write: bool) -> LedgerState:
        identity = schema.ledger.c.identity
        seen = self._seen
        if write and connection.dialect.name == "postgresql":  # SQLite took its lock at BEGIN IMMEDIATE
            connection.execute(sa.select(identity).with_for_update())
        row = connection.execute(entries.LOOK, {"seq": seen.mark.seq}).first()
        there, hashed, answered = row or (None, None, None)
        self._refuse_other(there)
        if seen.mark.seq and hashed != seen.mark.hash:
            raise behind(self._name, seen.mark, other=hashed is not None)
        head = entries.follow(connection, seen, self._name)
        if (answered or 0) > head.mark.seq:
            raise damaged(self._name, f"it holds the answer to charge {answered}, but not the charge")
        return head

    def _refuse_other(self, identity: object) -> None:
        if identity != self.identity:
            raise LedgerError(
                f"the ledger {self._name} was replaced by another one since it was opened. What was spent is in the "
                "old one: put it back."
            )

    def _see(self, head: LedgerState) -> None:
        if head.mark.seq > self._seen.mark.seq:
            self._seen = head

    # ---- high-water mark ---------------------------------------------------------------------

    def mark(self) -> dict[str, object]:
        """Return the last row that was seen, at a charge, look or opening, as JSON data to store elsewhere."""
        return self._seen.mark.to_json(self.identity)

    @repeated
    def check_mark(self, mark: object) -> None:
        """Raise if the ledger is not the one of a :meth:`mark`, or is behind it.

        Raises:
            LedgerError: it is another one, or an older copy was put back.
            InputError: it is not a mark.
        """
        kept = Mark.from_json(mark, self.identity, self._name)
        with self._transaction(write=False) as (connection, head):
            there = connection.scalar(entries.HASH, {"seq": kept.seq}) if kept.seq <= head.mark.seq else None
            if kept.seq and there != kept.hash:
                raise behind(self._name, kept, other=there is not None)

    @repeated
    def question_digests(self) -> dict[str, str]:
        """Return for each scope SHA-256 of its questions' digests, in their order."""
        with self._transaction(write=False) as (connection, _):
            return entries.question_digests(connection)

    # ---- charging ----------------------------------------------------------------------------

    @repeated
    def _pay(
        self,
        scope: str,
        key: str,
        event: Described,
        admit: Callable[[LedgerState], float | None],
        *,
        digest: str,
        private: bool,
        note: Mapping[str, object] | None,
        quota: Quota | None = None,
        people: int | None = None,
        described: Callable[[], Mapping[str, object]] = dict,
    ) -> Charge:
        """Insert a charge in one transaction at the price that ``admit`` returns, or find an existing one.

        ``described`` returns the description's part about the admission.
        """
        kept = json_data("note", dict(note) if isinstance(note, Mapping) else note or {})
        row: dict[str, Any] = {
            "scope": text("scope", scope),
            "key": text("key", key),
            "kind": key.partition("/")[0],
            "mechanism": event.mechanism,
            "private": boolean("private", private),
            "digest": text("digest", digest),
            "description": {**json_data("an event's description", event.describe()), "note": kept},
        }
        with self._transaction(write=True) as (connection, head):
            existing = entries.find(connection, scope, key)
            if existing is not None:
                return _same_question(existing, row)
            if quota is not None and entries.made(connection, scope, quota.prefix.partition("/")[0]) >= quota.count:
                raise PlanComplete(
                    f"the run {scope!r} has made all of the releases of this kind that it planned: {quota.count}."
                )
            if people is not None:
                self._refuse_mismatch("n", people, entries.fixed(connection, WHOLE, "n", lambda: people))
            row["mu"] = admit(head)
            row["description"] |= described()
            row["nth"] = entries.made(connection, scope, row["kind"]) + 1
            paid = head.after(row)
            connection.execute(_INSERT_CHARGE, {**row, **paid.columns(), "charged_at": entries.now()})
        self._see(paid)
        return entries.charge_of({**row, "seq": paid.mark.seq, "value": None})

    @after_a_charge
    @repeated
    def record(self, charge: Charge, value: Sequence[float], *, at: str | None = None) -> Charge:
        """Store the released value of ``charge``; if one is stored already, return that one instead.

        Publish only the returned value: with two writers, both publish the first one's value.

        Args:
            at: the date to store with it, if the time of day is private; default now.
        """
        numbers = json_data("value", [float(v) for v in value])
        with self._transaction(write=True) as (connection, _):
            row = entries.find(connection, charge.scope, charge.key)
            if row is None or row["seq"] != charge.seq:
                raise LedgerError(f"the ledger {self._name} lost a charge: restore the newest intact copy.")
            if row["value"] is None:
                row = {**row, "value": numbers}
                stored = {"charge": charge.seq, "value": numbers, "released_at": at or entries.now("seconds")}
                connection.execute(_INSERT_RELEASE, stored)
            return entries.charge_of(row)

    @repeated
    def find(self, scope: str, key: str) -> Charge | None:
        """Return the charge under ``key``, or None."""
        scope, key = text("scope", scope), text("key", key)
        with self._transaction(write=False) as (connection, _):
            row = entries.find(connection, scope, key)
        return None if row is None else entries.charge_of(row)

    @repeated
    def charges(self, scope: str | None = None, *, prefix: str = "") -> list[Charge]:
        """Return the charges in order, of one scope and with keys that start with ``prefix``."""
        where = entries.of(scope, prefix)
        with self._transaction(write=False) as (connection, _):
            return entries.read(connection, where)

    @repeated
    def count(self, scope: str | None = None, *, prefix: str = "") -> int:
        """Return the number of charges that :meth:`charges` would list, without reading them."""
        where = entries.of(scope, prefix)
        with self._transaction(write=False) as (connection, _):
            query = sa.select(sa.func.count()).select_from(schema.charges).where(where)
            return int(connection.execute(query).scalar_one())

    @repeated
    def span(self, scope: str | None = None) -> tuple[str, str] | None:
        """Return the ISO dates of the first and last charge, of one scope or of all; or None."""
        at = schema.charges.c.charged_at
        query = sa.select(sa.func.min(at), sa.func.max(at)).where(entries.of(scope, ""))
        with self._transaction(write=False) as (connection, _):
            first, last = connection.execute(query).one()
        return None if first is None else (first, last)

    @repeated
    def asked(self, rows: int) -> list[AskedQuestion]:
        """Return the questions of the first charges, for a certificate."""
        with self._transaction(write=False) as (connection, _):
            return entries.asked(connection, rows)

    # ---- facts fixed once --------------------------------------------------------------------

    @repeated
    def fix(self, scope: str, name: str, value: object) -> object:
        """Store a public fact, JSON data, once; return the stored one, which may be an earlier writer's."""
        scope, name, wanted = text("scope", scope), text("name", name), json_data("a fact's value", value)
        with self._transaction(write=True) as (connection, _):
            return entries.fixed(connection, scope, name, lambda: wanted)

    @repeated
    def fact(self, scope: str, name: str) -> object:
        """Return a fact stored by :meth:`fix`, or None."""
        scope, name = text("scope", scope), text("name", name)
        with self._transaction(write=False) as (connection, _):
            return (entries.fact(connection, scope, name) or {}).get("is")

    @repeated
    def facts(self, name: str) -> dict[str, object]:
        """Return the facts of this name of all scopes."""
        with self._transaction(write=False) as (connection, _):
            return entries.facts(connection, name)

    @property
    @repeated
    def n(self) -> int | None:
        """Return the number of protected units, public; None before the first charge, or until it is stated."""
        with self._transaction(write=False) as (connection, _):
            return (entries.fact(connection, WHOLE, "n") or {}).get("is")

    @repeated
    def bind_people(self, n: int) -> None:
        """Record the number of protected units; refuse another one than the recorded one, and write nothing."""
        with self._transaction(write=True) as (connection, _):
            self._refuse_mismatch("n", int(n), entries.fixed(connection, WHOLE, "n", lambda: int(n)))

    def check_people(self, n: int) -> None:
        """Refuse a number of protected units that differs from the recorded one. This call records nothing."""
        self._refuse_mismatch("n", int(n), self.n or int(n))

    def _refuse_mismatch(self, name: str, value: T, stored: T, how: Callable[[T], str] = shown, more: str = "") -> None:
        """Refuse arguments that differ from those at creation; None is not compared."""
        if value is None or value == stored:
            return
        unused = "." if self.count() else " to it yet: if it was made by mistake, delete it."
        raise BudgetMismatch(
            f"this ledger has {name}={how(stored)}, not {how(value)}; it is fixed when made or first charged. "
            f"Open it as it was, or make a ledger of its own for other people's data. Nothing was charged{unused}{more}"
        )

    def planned_after(self, other: DurableLedger) -> bool:
        """Return whether this ledger was made, raised or divided after the other's first charge and may use it.

        Only clocks order the rows of two ledgers. At equal times the order is unknown, and counts as after.
        """
        charged = other.span()
        return charged is not None and max(str(self._row["created_at"]), self._decided_at()) >= charged[0]

    def _decided_at(self) -> str:
        """Return the stored time when the promise last grew or the budget was divided; "" if never."""
        return ""

    @property
    @repeated
    def private(self) -> bool:
        """Return False if any charge was made with seeded noise."""
        with self._transaction(write=False) as (_, head):
            return head.private

    @repeated
    def mechanisms(self) -> tuple[tuple[str, int], ...]:
        """Return pairs (mechanism, number of charges), in the order of their first use."""
        c = schema.charges.c
        query = sa.select(c.mechanism, sa.func.count()).group_by(c.mechanism).order_by(sa.func.min(c.seq))
        with self._transaction(write=False) as (connection, _):
            return tuple((str(m), int(k)) for m, k in connection.execute(query).all())

    def _facts(self, delta: float) -> dict[str, Any]:
        """Return the facts of every statement, in the caller's transaction, after verifying all charges."""
        self._read_all(whole=True)
        held = {name: getattr(self, name) for name in ("dataset", "unit", "adjacency", "trust_model", "n", "private")}
        versions = dict(self._row["versions"])
        return {**held, "mechanisms": self.mechanisms(), "versions": versions, "delta": probability("delta", delta)}

    # ---- copies are views, never forks -------------------------------------------------------

    @classmethod
    def _reopen(cls, url: str, mark: Mapping[str, object]) -> Self:
        """Reopen the ledger that was pickled; never create one."""
        database = Database(schema.normalise_url(url), met=True)
        ledger = cls(database)  # type: ignore[call-arg]  # every subclass opens an existing ledger by its place
        ledger._refuse_other(mark["ledger"])
        ledger.check_mark(mark)
        return ledger

    def __reduce__(self) -> tuple[object, ...]:
        return type(self)._reopen, (self.url.render_as_string(hide_password=False), self.mark())

    def __copy__(self) -> Self:
        return self  # one connection a process

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DurableLedger) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)


def _same_question(row: Row, asked: Row) -> Charge:
    if row["digest"] != asked["digest"] or bool(row["private"]) != asked["private"]:
        raise KeyConflict(
            f"the ledger already holds a release {row['key']!r} of study {row['scope']!r} that answers another "
            "question. A study's name is its scope in the ledger: give a new study a new name."
        )
    return entries.charge_of(row)
