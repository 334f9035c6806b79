"""The durable budget: charge first, then read, then draw, then record.

Life of a release::

    charge(scope, key, event)   one transaction: look up the key, check the filter, insert, commit
    ... read the data, draw the noise ...
    record(charge, value)       one insert; the first writer wins and everybody gets its value

A crash after ``charge`` leaves the charge standing. A retry with the same key and the same question
pays nothing: it gets the recorded value, or, if none was recorded, draws one that is recorded before
anybody sees it. So each charge is answered by at most one published value, whatever crashes.
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dptune.accounting import schema
from dptune.accounting.events import Event
from dptune.accounting.gdp import Budget, compose_mu, fits, remaining_mu
from dptune.errors import BudgetExhausted, BudgetMismatch, InputError, KeyConflict, LedgerError, PlanComplete
from dptune.report import Statement, library_versions

REPLACE_ONE = "replace one unit's record, with n public"
CENTRAL = "trusted curator: one process reads the losses; everybody else sees noisy releases only"

_CREATION_LOCK = 0x6470_7475_6E65  # "dptune", for pg_advisory_xact_lock
_SELECT_CHARGES = sa.select(schema.charges, schema.releases.c.value).select_from(
    schema.charges.outerjoin(schema.releases, schema.releases.c.charge == schema.charges.c.seq)
)


_logger = logging.getLogger(__name__)


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
        mu: what it cost, in GDP.
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

    @property
    def note(self) -> Mapping[str, Any]:
        """Public data stored with the charge."""
        note: Mapping[str, Any] = self.description["note"]
        return note


class PrivacyLedger:
    """A budget that is fixed at creation and survives processes, copies and crashes.

    Copies, pickles and clones of a ledger are views of the same database: the budget never forks.
    (A copy of the database *file* is a fork that no software can see; so is a deleted ledger.)

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL (``postgresql://...`` for several machines).
        budget: required to create a ledger; when one exists it must be the same.
        dataset: name of the protected data set.
        unit: what one record is, for the privacy statement.

    Raises:
        BudgetMismatch: the ledger exists with another budget, data set or unit.
        LedgerError: no budget was given and there is no ledger, or the database cannot be used.
        InputError: the URL is not durable.
    """

    def __init__(
        self,
        url: str | Path,
        budget: Budget | None = None,
        *,
        dataset: str | None = None,
        unit: str | None = None,
    ) -> None:
        if budget is not None and not isinstance(budget, Budget):
            raise InputError("budget must be a Budget, e.g. Budget.gdp(mu=1.0).")
        self._url = schema.normalise_url(url)
        self._engine = schema.connect(self._url)
        if budget is not None:
            self._create(budget, dataset or "validation data", unit or "one person")
        row = self._open()
        self._identity: str = row["identity"]
        self.budget = Budget(row["mu"], row["stated_epsilon"], row["stated_delta"])
        self.dataset, self.unit, self.adjacency = row["dataset"], row["unit"], row["adjacency"]
        self.trust_model: str = row["trust_model"]
        _refuse_mismatch("budget", budget, self.budget)
        _refuse_mismatch("dataset", dataset, self.dataset)
        _refuse_mismatch("unit", unit, self.unit)

    # ---- opening -----------------------------------------------------------------------------

    def _create(self, budget: Budget, dataset: str, unit: str) -> None:
        if self._exists():
            return
        with self._transaction(write=True) as connection:
            if connection.dialect.name == "postgresql":  # two processes may create it together
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
            schema.create(connection)
            if connection.execute(sa.select(schema.ledger.c.id)).first() is None:
                connection.execute(sa.insert(schema.ledger).values(_first_row(budget, dataset, unit)))
                _logger.warning(f"created a new ledger, nothing spent yet: {self._name()}, mu={budget.mu:g}")

    def _exists(self) -> bool:
        if self._url.get_backend_name() == "sqlite":
            path = Path(str(self._url.database))
            if not path.parent.is_dir():
                raise LedgerError(f"the folder of the ledger {self._name()} does not exist; create it first.")
            if not path.exists():
                return False
        with self._transaction(write=False) as connection:
            if not sa.inspect(connection).has_table(schema.ledger.name):
                return False
            return connection.execute(sa.select(schema.ledger.c.id)).first() is not None

    def _open(self) -> sa.RowMapping:
        if not self._exists():
            raise LedgerError(f"there is no ledger at {self._name()}: check the path, or give budget= to create one.")
        with self._transaction(write=False) as connection:
            row = connection.execute(sa.select(schema.ledger)).mappings().one()
        if row["version"] != schema.VERSION:
            raise LedgerError(f"the ledger has format {row['version']}; this dptune reads {schema.VERSION}.")
        return row

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(dptune_write=write)
                with connection.begin():
                    yield connection
        except sa.exc.IntegrityError:
            raise
        except sa.exc.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
            raise LedgerError(f"the ledger {self._name()} cannot be used: {reason}") from None

    def _name(self) -> str:
        return self._url.render_as_string(hide_password=True)

    # ---- charging ----------------------------------------------------------------------------

    def charge(
        self,
        scope: str,
        key: str,
        event: Event,
        *,
        digest: str,
        private: bool = True,
        note: Mapping[str, object] | None = None,
        limit: Limit | None = None,
    ) -> Charge:
        """Pay for one release, durably, before any data is read; or find that it was paid already.

        Args:
            scope: the study, the name space of ``key``.
            key: idempotency key; the same key with the same ``digest`` is never paid twice.
            event: what is paid for; ``event.mu`` is its price.
            digest: fingerprint of the public question.
            private: False stamps the charge, and the whole ledger's statement, NOT PRIVATE.
            note: public JSON data to keep with the charge.
            limit: how many charges of a kind the scope may make.

        Returns:
            The charge; its ``value`` is set if the release was made before.

        Raises:
            BudgetExhausted: it does not fit; nothing was written.
            PlanComplete: the limit is reached; nothing was written.
            LedgerError: another ledger lies in this one's place.
            KeyConflict: the key was used for another question.
        """
        mu = event.mu
        if not (math.isfinite(mu) and mu > 0):
            raise InputError(f"a charge must have a positive finite mu; got {mu!r}.")
        with self._transaction(write=True) as connection:
            self._lock(connection)
            existing = self._find(connection, scope, key)
            if existing is not None:
                return _same_question(existing, digest, private)
            self._check_limit(connection, scope, limit)
            self._check(connection, mu)
            description = {**event.describe(), "note": dict(note or {})}
            row = {
                "scope": scope,
                "key": key,
                "mu": mu,
                "mechanism": event.mechanism,
                "private": private,
                "digest": digest,
                "description": description,
                "charged_at": _now(),
            }
            result = connection.execute(sa.insert(schema.charges).values(row))
            seq = int(result.inserted_primary_key[0])  # type: ignore[index]
        return Charge(seq, scope, key, mu, private, None, description)

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
        return None if row is None else _charge(row)

    def charges(self, scope: str | None = None, *, prefix: str = "") -> list[Charge]:
        """Return the charges in order, of one scope and with keys that start with ``prefix``."""
        with self._transaction(write=False) as connection:
            query = _SELECT_CHARGES.order_by(schema.charges.c.seq)
            if scope is not None:
                query = query.where(schema.charges.c.scope == scope)
            if prefix:
                query = query.where(schema.charges.c.key.startswith(prefix, autoescape=True))
            return [_charge(row) for row in connection.execute(query).mappings()]

    def check(self, mu: float, *, releases: int = 1) -> None:
        """Refuse now what ``charge`` would refuse later: before a model is trained.

        Raises:
            BudgetExhausted: ``releases`` releases of ``mu`` each do not fit.
        """
        with self._transaction(write=False) as connection:
            self._check(connection, mu * math.sqrt(releases))

    def _lock(self, connection: sa.Connection) -> None:
        """Hold the ledger's row, and refuse a ledger that was replaced since this object was made."""
        row = sa.select(schema.ledger.c.identity)
        if connection.dialect.name == "postgresql":  # SQLite took its lock at BEGIN IMMEDIATE
            row = row.with_for_update()
        if connection.execute(row).scalar() != self._identity:
            raise _replaced(self._name())

    def _check_limit(self, connection: sa.Connection, scope: str, limit: Limit | None) -> None:
        if limit is None:
            return
        c = schema.charges.c
        mine = (c.scope == scope) & c.key.startswith(limit.prefix, autoescape=True)
        if connection.execute(sa.select(sa.func.count()).where(mine)).scalar_one() >= limit.count:
            raise PlanComplete(f"the run {scope!r} has made the {limit.count} releases of this kind that it planned.")

    def _find(self, connection: sa.Connection, scope: str, key: str) -> sa.RowMapping | None:
        where = (schema.charges.c.scope == scope) & (schema.charges.c.key == key)
        return connection.execute(_SELECT_CHARGES.where(where)).mappings().first()

    def _check(self, connection: sa.Connection, mu: float) -> None:
        spent = connection.execute(sa.select(schema.charges.c.mu)).scalars().all()
        if not fits(spent, mu, self.budget.mu):
            raise BudgetExhausted(mu, remaining_mu(spent, self.budget.mu), self.budget.mu)

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
        _refuse_mismatch("n", int(n), self.fix("", "n", int(n)))

    @property
    def n(self) -> int | None:
        """The number of protected units, public; None until a privatizer has stated it."""
        n = self.fact("", "n")
        return n if isinstance(n, int) else None

    # ---- reading -----------------------------------------------------------------------------

    def spent(self) -> float:
        """Return mu of all charges so far: an odometer reading, not a guarantee fixed in advance."""
        return compose_mu(charge.mu for charge in self.charges())

    def remaining(self) -> float:
        """Return mu of the largest single release that still fits."""
        return remaining_mu([charge.mu for charge in self.charges()], self.budget.mu)

    @property
    def private(self) -> bool:
        """False if any charge was made with seeded noise."""
        return all(charge.private for charge in self.charges())

    def statement(self, *, delta: float) -> Statement:
        """Return the privacy statement, to print or to publish, with epsilon at ``delta``."""
        with self._transaction(write=False) as connection:
            c = schema.charges.c
            rows = connection.execute(
                sa.select(c.mechanism, sa.func.count()).group_by(c.mechanism).order_by(sa.func.min(c.seq))
            ).all()
            versions = connection.execute(sa.select(schema.ledger.c.versions)).scalar_one()
        return Statement(
            dataset=self.dataset,
            unit=self.unit,
            adjacency=self.adjacency,
            trust_model=self.trust_model,
            n=self.n,
            budget=self.budget,
            spent_mu=self.spent(),
            delta=delta,
            mechanisms=tuple((str(m), int(k)) for m, k in rows),
            private=self.private,
            versions=dict(versions),
        )

    # ---- copies are views, never forks -------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self._url.render_as_string(hide_password=False), self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivacyLedger) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __repr__(self) -> str:
        return f"PrivacyLedger({self._name()!r}, mu={self.budget.mu!r})"


def _reopen(url: str, identity: str) -> PrivacyLedger:
    """Reopen the very ledger that was copied; never create one."""
    ledger = PrivacyLedger(url)
    if ledger._identity != identity:
        raise _replaced(ledger._name())
    return ledger


def _replaced(name: str) -> LedgerError:
    return LedgerError(
        f"the ledger {name} was replaced by another one since it was opened. What was spent is in the old one: put "
        "it back."
    )


def _first_row(budget: Budget, dataset: str, unit: str) -> dict[str, object]:
    return {
        "id": 1,
        "identity": secrets.token_hex(16),
        "version": schema.VERSION,
        "mu": budget.mu,
        "stated_epsilon": budget.stated_epsilon,
        "stated_delta": budget.stated_delta,
        "dataset": dataset,
        "unit": unit,
        "adjacency": REPLACE_ONE,
        "trust_model": CENTRAL,
        "created_at": _now(),
        "versions": library_versions(),
    }


def _refuse_mismatch(name: str, given: object, stored: object) -> None:
    if given is not None and given != stored:
        raise BudgetMismatch(
            f"this ledger was created with {name}={stored!r}, not {given!r}; it is fixed for good. "
            "Open it as it was made, or make a ledger of its own for other people's data."
        )


def _same_question(row: sa.RowMapping, digest: str, private: bool) -> Charge:
    if row["digest"] != digest or bool(row["private"]) != private:
        raise KeyConflict(
            f"the ledger already holds a release {row['key']!r} of study {row['scope']!r} that answers another "
            "question. A study's name is its scope in the ledger: give a new study a new name."
        )
    return _charge(row)


def _charge(row: sa.RowMapping) -> Charge:
    value = None if row["value"] is None else tuple(float(v) for v in row["value"])
    return Charge(row["seq"], row["scope"], row["key"], row["mu"], bool(row["private"]), value, row["description"])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
