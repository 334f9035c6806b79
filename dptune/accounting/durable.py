"""The tables of a ledger and what is done with them: charge first, then read, then draw, then record.

Life of a release::

    charge(scope, key, ...)     one transaction: look up the key, check the rule, insert, commit
    ... read the data, draw the noise ...
    record(charge, value)       one insert; the first writer wins and everybody gets its value

A crash after ``charge`` leaves the charge standing. A retry with the same key and the same question
pays nothing: it gets the recorded value, or, if none was recorded, draws one that is recorded before
anybody sees it. So each charge is answered by at most one published value, whatever crashes.

What may be charged is the rule of a subclass: a budget in GDP (:mod:`dptune.accounting.ledger`) or a
plan of subsampled releases that is fixed for good (:mod:`dptune.accounting.plan_ledger`).
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from dptune.accounting import schema
from dptune.accounting.statement import library_versions
from dptune.errors import BudgetMismatch, KeyConflict, LedgerError, PlanComplete

_CREATION_LOCK = 0x6470_7475_6E65  # "dptune", for pg_advisory_xact_lock
SELECT_CHARGES = sa.select(schema.charges, schema.releases.c.value).select_from(
    schema.charges.outerjoin(schema.releases, schema.releases.c.charge == schema.charges.c.seq)
)
_REMEDIES = {  # by a part of SQLite's own words
    "unable to open": "It must be a file, in a folder where this process may write",
    "readonly": "This process must be allowed to write the file and its folder",
    "not a database": "Another file lies there: check the path",
    "is full": "Make room on the disk and go on: what failed was not charged",
    "locked": "Another process has held it for a minute: see what that one does",
}
_logger = logging.getLogger("dptune.accounting.ledger")


@dataclass(frozen=True)
class Limit:
    """How many charges a scope may make under keys with a prefix, checked in the charging transaction.

    Attributes:
        prefix: of the keys that count.
        count: the most charges.
    """

    prefix: str
    count: int


@dataclass(frozen=True)
class Charge:
    """One paid release. ``value`` is what was recorded for it, or None if nothing was yet.

    Attributes:
        seq: position in the ledger, from 1.
        scope: the study that paid.
        key: the release's idempotency key within the scope.
        mu: what it cost, in GDP; NaN in a ledger of a fixed plan, whose releases have no price in GDP.
        private: False if its noise was seeded.
        value: the released vector, or None.
        description: public description of the release, as stored.
    """

    seq: int
    scope: str
    key: str
    mu: float
    private: bool
    value: tuple[float, ...] | None
    description: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        """Equal by its fields, a price that is NaN too, which Python's own comparison refuses since 3.13."""
        return isinstance(other, Charge) and repr(self) == repr(other)

    @property
    def note(self) -> Mapping[str, Any]:
        """Public data stored with the charge."""
        note: Mapping[str, Any] = self.description["note"]
        return note


class DurableLedger:
    """The part of a ledger that does not depend on its rule. Made by its subclasses only.

    Copies, pickles and clones of a ledger are views of the same database: the budget never forks.
    (A copy of the database *file* is a fork that no software can see; so is a deleted ledger.)

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL.
        first_row: what a new ledger is created with; None to open an existing one only.
        budget: the same in words, for the log.
    """

    def __init__(self, url: str | Path, first_row: Mapping[str, object] | None, budget: str) -> None:
        self._url = schema.normalise_url(url)
        self._engine = schema.connect(self._url)
        if first_row is not None:
            self._create(first_row, budget)
        self._row = self._open()
        self._identity: str = self._row["identity"]
        self.dataset: str = self._row["dataset"]
        self.unit: str = self._row["unit"]
        self.adjacency: str = self._row["adjacency"]
        self.trust_model: str = self._row["trust_model"]

    # ---- opening -----------------------------------------------------------------------------

    def _create(self, first_row: Mapping[str, object], budget: str) -> None:
        if self._exists():
            return
        with self._connected(write=True) as connection:
            if connection.dialect.name == "postgresql":  # two processes may create it together
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
            schema.create(connection)
            if connection.execute(sa.select(schema.ledger.c.id)).first() is None:
                connection.execute(sa.insert(schema.ledger).values({**_header(), **first_row}))
                _logger.warning(f"created a new ledger, nothing spent yet: {self._name()}, {budget}")

    def _exists(self) -> bool:
        if self._url.get_backend_name() == "sqlite":
            path = Path(str(self._url.database))
            if not path.parent.is_dir():
                raise LedgerError(f"the folder of the ledger {self._name()} does not exist; create it first.")
            if not path.exists():
                return False
        with self._connected(write=False) as connection:
            tables = sa.inspect(connection)
            if tables.has_table("dptune_local"):
                raise LedgerError(f"{self._name()} is a ledger of users: open it with dptune.UserLedger(path).")
            if not tables.has_table(schema.ledger.name):
                return False
            return connection.execute(sa.select(schema.ledger.c.id)).first() is not None

    def _open(self) -> sa.RowMapping:
        if not self._exists():
            name = self._name()
            raise LedgerError(f"there is no ledger at {name}: check the path, or give budget= or plan= to create one.")
        with self._connected(write=False) as connection:
            version = connection.execute(sa.select(schema.ledger.c.version)).scalar_one()
            if version != schema.VERSION:
                raise LedgerError(f"the ledger has format {version}; this dptune reads {schema.VERSION}.")
            return connection.execute(sa.select(schema.ledger)).mappings().one()

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        """A transaction on the ledger that was opened; nothing, or another one, lying in its place is refused."""
        if self._url.get_backend_name() == "sqlite" and not Path(str(self._url.database)).exists():
            raise LedgerError(
                f"the ledger {self._name()} was moved or deleted since it was opened. What was spent is in it: put it "
                "back."
            )
        with self._connected(write=write) as connection:
            row = sa.select(schema.ledger.c.identity)
            if write and connection.dialect.name == "postgresql":  # SQLite took its lock at BEGIN IMMEDIATE
                row = row.with_for_update()
            if connection.execute(row).scalar() != self._identity:
                raise _replaced(self._name())
            yield connection

    @contextmanager
    def _connected(self, *, write: bool) -> Iterator[sa.Connection]:
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(dptune_write=write)
                with connection.begin():
                    yield connection
        except sa.exc.IntegrityError:
            raise
        except sa.exc.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
            remedy = next((f". {remedy}" for known, remedy in _REMEDIES.items() if known in reason), "")
            raise LedgerError(f"the ledger {self._name()} cannot be used: {reason}{remedy}") from None

    def _name(self) -> str:
        return self._url.render_as_string(hide_password=True)

    # ---- charging ----------------------------------------------------------------------------

    def _pay(
        self,
        scope: str,
        key: str,
        *,
        row: Mapping[str, object],
        limit: Limit | None,
        admit: Callable[[sa.Connection], None],
    ) -> Charge:
        """Insert a charge in one transaction, if ``admit`` does not raise; or find that it was paid already."""
        digest, private = row["digest"], row["private"]
        with self._transaction(write=True) as connection:
            existing = self._find(connection, scope, key)
            if existing is not None:
                return _same_question(existing, digest, private)
            self._check_limit(connection, scope, limit)
            admit(connection)
            connection.execute(sa.insert(schema.charges).values(scope=scope, key=key, charged_at=_now(), **row))
            inserted = self._find(connection, scope, key)
        if inserted is None:
            raise LedgerError(f"the ledger {self._name()} lost a charge; do not go on with it.")
        return charge_of(inserted)

    def record(self, charge: Charge, value: Sequence[float]) -> Charge:
        """Store the released value of ``charge``; if one is stored already, return that one instead.

        Only what this returns may be published: with two writers, both publish the first one's value.
        """
        row = {"charge": charge.seq, "value": [float(v) for v in value], "released_at": _now()}
        with suppress(sa.exc.IntegrityError), self._transaction(write=True) as connection:
            connection.execute(sa.insert(schema.releases).values(row))
        recorded = self.find(charge.scope, charge.key)
        if recorded is None or recorded.value is None:
            raise LedgerError(f"the ledger {self._name()} lost a record; do not go on with it.")
        return recorded

    def find(self, scope: str, key: str) -> Charge | None:
        """Return the charge under ``key``, or None."""
        with self._transaction(write=False) as connection:
            row = self._find(connection, scope, key)
        return None if row is None else charge_of(row)

    def charges(self, scope: str | None = None, *, prefix: str = "") -> list[Charge]:
        """Return the charges in order, of one scope and with keys that start with ``prefix``."""
        with self._transaction(write=False) as connection:
            query = SELECT_CHARGES.where(_of(scope, prefix)).order_by(schema.charges.c.seq)
            return [charge_of(row) for row in connection.execute(query).mappings()]

    def count(self, scope: str | None = None, *, prefix: str = "") -> int:
        """Return how many charges :meth:`charges` would list, without reading them."""
        with self._transaction(write=False) as connection:
            return _count(connection, scope, prefix)

    def _check_limit(self, connection: sa.Connection, scope: str, limit: Limit | None) -> None:
        if limit is None:
            return
        if _count(connection, scope, limit.prefix) >= limit.count:
            raise PlanComplete(f"the run {scope!r} has made the {limit.count} releases of this kind that it planned.")

    def _find(self, connection: sa.Connection, scope: str, key: str) -> sa.RowMapping | None:
        where = (schema.charges.c.scope == scope) & (schema.charges.c.key == key)
        return connection.execute(SELECT_CHARGES.where(where)).mappings().first()

    # ---- facts fixed once --------------------------------------------------------------------

    def fix(self, scope: str, name: str, value: object) -> object:
        """Store a public fact once; return the stored one, which may be an earlier writer's.

        Args:
            value: JSON data: None, bool, int, finite float, str, list, dict with str keys.
        """
        wanted = json.loads(json.dumps(value, allow_nan=False))
        with suppress(sa.exc.IntegrityError), self._transaction(write=True) as connection:
            if self._fact(connection, scope, name) is None:
                row = {"scope": scope, "name": name, "value": {"is": wanted}}
                connection.execute(sa.insert(schema.facts).values(row))
        return self.fact(scope, name)

    def fact(self, scope: str, name: str) -> object:
        """Return a fact stored by :meth:`fix`, or None."""
        with self._transaction(write=False) as connection:
            stored = self._fact(connection, scope, name)
        return None if stored is None else stored["is"]

    def _fact(self, connection: sa.Connection, scope: str, name: str) -> dict[str, object] | None:
        where = (schema.facts.c.scope == scope) & (schema.facts.c.name == name)
        return connection.execute(sa.select(schema.facts.c.value).where(where)).scalar()

    def bind_people(self, n: int) -> None:
        """Record the number of protected units, or refuse another one than recorded.

        Raises:
            BudgetMismatch: the ledger protects another number of units.
        """
        self._refuse_mismatch("n", int(n), self.fix("", "n", int(n)))

    def _refuse_mismatch(self, name: str, given: object, stored: object) -> None:
        """Refuse to be opened as something else than it was created as; None is not compared.

        Raises:
            BudgetMismatch: they differ.
        """
        if given is None or given == stored:
            return
        unused = "" if self.count() else " Nothing was charged to it yet: if it was made by mistake, delete it."
        raise BudgetMismatch(
            f"this ledger was created with {name}={stored!r}, not {given!r}; it is fixed for good. "
            f"Open it as it was made, or make a ledger of its own for other people's data.{unused}"
        )

    @property
    def n(self) -> int | None:
        """The number of protected units, public; None until a privatizer has stated it."""
        n = self.fact("", "n")
        return n if isinstance(n, int) else None

    @property
    def private(self) -> bool:
        """False if any charge was made with seeded noise."""
        with self._transaction(write=False) as connection:
            return all_private(connection)

    def _mechanisms(self) -> tuple[tuple[str, int], ...]:
        """Pairs (mechanism, number of charges), in the order of their first use."""
        c = schema.charges.c
        query = sa.select(c.mechanism, sa.func.count()).group_by(c.mechanism).order_by(sa.func.min(c.seq))
        with self._transaction(write=False) as connection:
            return tuple((str(m), int(k)) for m, k in connection.execute(query).all())

    # ---- copies are views, never forks -------------------------------------------------------

    @classmethod
    def _reopen(cls, url: str, identity: str) -> Self:
        """Reopen the very ledger that was copied; never create one."""
        ledger = cls(url)  # type: ignore[call-arg]  # every subclass opens an existing ledger by its URL
        if ledger._identity != identity:
            raise _replaced(ledger._name())
        return ledger

    def __reduce__(self) -> tuple[object, ...]:
        return type(self)._reopen, (self._url.render_as_string(hide_password=False), self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DurableLedger) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)


def all_private(connection: sa.Connection) -> bool:
    """Tell whether no charge was made with seeded noise."""
    seeded = sa.select(schema.charges.c.seq).where(~schema.charges.c.private).limit(1)
    return connection.execute(seeded).first() is None


def _replaced(name: str) -> LedgerError:
    return LedgerError(
        f"the ledger {name} was replaced by another one since it was opened. What was spent is in the old one: put "
        "it back."
    )


def _header() -> dict[str, object]:
    return {
        "id": 1,
        "identity": secrets.token_hex(16),
        "version": schema.VERSION,
        "created_at": _now(),
        "versions": library_versions(),
    }


def _of(scope: str | None, prefix: str) -> sa.ColumnElement[bool]:
    """The charges of one scope, or of all, with keys that start with ``prefix``."""
    c = schema.charges.c
    parts = [] if scope is None else [c.scope == scope]
    parts += [c.key.startswith(prefix, autoescape=True)] if prefix else []
    return sa.and_(sa.true(), *parts)


def _count(connection: sa.Connection, scope: str | None, prefix: str) -> int:
    query = sa.select(sa.func.count()).select_from(schema.charges).where(_of(scope, prefix))
    return int(connection.execute(query).scalar_one())


def _same_question(row: sa.RowMapping, digest: object, private: object) -> Charge:
    if row["digest"] != digest or bool(row["private"]) != private:
        raise KeyConflict(
            f"the ledger already holds a release {row['key']!r} of study {row['scope']!r} that answers another "
            "question. A study's name is its scope in the ledger: give a new study a new name."
        )
    return charge_of(row)


def charge_of(row: sa.RowMapping) -> Charge:
    """Return the charge of a row of :data:`SELECT_CHARGES`."""
    value = None if row["value"] is None else tuple(float(v) for v in row["value"])
    mu = math.nan if row["mu"] is None else row["mu"]
    return Charge(row["seq"], row["scope"], row["key"], mu, bool(row["private"]), value, row["description"])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
