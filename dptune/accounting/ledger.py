"""A budget in Gaussian differential privacy, kept durably."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from dptune._checks import at_least, positive
from dptune.accounting import schema
from dptune.accounting.durable import SELECT_CHARGES, Charge, DurableLedger, Limit, all_private, charge_of
from dptune.accounting.events import Event
from dptune.accounting.gdp import Budget, compose_mu, fits, remaining_mu
from dptune.accounting.statement import Statement
from dptune.errors import BudgetExhausted, InputError, LedgerError

__all__ = ["PLAN", "Charge", "Limit", "PrivacyLedger", "Rest"]

PLAN = "plan"  # the fact of a scope that says what its run will spend

_NOTHING = sa.insert(schema.charges).from_select(  # no row, but a ledger that cannot be written refuses it
    schema.charges.columns.keys(), sa.select(schema.charges).where(sa.false())
)

REPLACE_ONE = "replace all records of one unit, with n public"
CENTRAL = "trusted curator: one process reads the losses; everybody else sees noisy releases only"


@dataclass(frozen=True)
class Rest:
    """What a new run may count on.

    Attributes:
        left: mu that is not spent.
        unplanned: mu that is neither spent nor planned by a run that has begun to spend.
        holders: names of the runs that have begun to spend, and not spent what they planned.
    """

    left: float
    unplanned: float
    holders: tuple[str, ...]


@dataclass(frozen=True)
class News:
    """What a run does not know yet, read in one transaction.

    Attributes:
        charges: of its scope, in their order.
        spent: mu of every charge of the ledger.
        private: False if any of them was made with seeded noise.
    """

    charges: tuple[Charge, ...]
    spent: Sequence[float]
    private: bool


class PrivacyLedger(DurableLedger):
    """A budget that is fixed at creation and survives processes, copies and crashes.

    Copies, pickles and clones of a ledger are views of the same database: the budget never forks.
    (A copy of the database *file* is a fork that no software can see; so is a deleted ledger.)

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL (``postgresql://...`` for several machines).
        budget: required to create a ledger; when one exists it must be the same: the same stated (epsilon, delta), or
            the same mu but for rounding. What is spent is held against the stored mu.
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
        super().__init__(
            url,
            None if budget is None else _first_row(budget, dataset or "validation data", unit or "one person"),
            "" if budget is None else f"mu={budget.mu:g}",
        )
        row = self._row
        if row["plan"] is not None:
            raise LedgerError(
                f"the ledger {self._name()} holds a fixed plan of subsampled releases, not a budget in GDP; open it "
                "with PlanLedger (on the command line: dptune statement). One cannot be charged to the other."
            )
        self.budget = Budget(row["mu"], row["stated_epsilon"], row["stated_delta"])
        if budget is not None and not budget.same_promise(self.budget):
            self._refuse_mismatch("budget", budget, self.budget)
        self._refuse_mismatch("dataset", dataset, self.dataset)
        self._refuse_mismatch("unit", unit, self.unit)

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
        mu = positive("mu, a charge's price,", event.mu)
        row = {
            "mu": mu,
            "mechanism": event.mechanism,
            "private": private,
            "digest": digest,
            "description": {**event.describe(), "note": dict(note or {})},
        }
        return self._pay(scope, key, row=row, limit=limit, admit=lambda connection: self._check(connection, mu))

    def check(self, mu: float, *, releases: int = 1) -> None:
        """Refuse now what ``charge`` would refuse later: before a model is trained.

        Raises:
            BudgetExhausted: ``releases`` releases of ``mu`` each do not fit.
            LedgerError: the ledger may not be written. (A full disk, or a folder that may not be written while the file
                may, is noticed by a charge only.)
        """
        with self._transaction(write=True) as connection:
            connection.execute(_NOTHING)
            self._check(connection, positive("mu", mu) * math.sqrt(at_least("releases", releases, 1)))

    def _check(self, connection: sa.Connection, mu: float) -> None:
        spent = _prices(connection)
        if not fits(spent, mu, self.budget.mu):
            raise BudgetExhausted(mu, remaining_mu(spent, self.budget.mu), self.budget.mu)

    # ---- what runs have planned --------------------------------------------------------------

    def fix_plan(self, scope: str, make: Callable[[Rest], object]) -> object:
        """Store a run's plan once, made from what the other runs leave it; return the stored one.

        One transaction, so that a run sees every charge and every plan before its own. A run that was given up before
        its first charge holds nothing: no other has to make room for it.

        Args:
            scope: the run's name.
            make: returns JSON data with the key "mu"; what it raises is raised, and nothing is written.
        """
        with self._transaction(write=True) as connection:
            stored = self._fact(connection, scope, PLAN)
            if stored is not None:
                return stored["is"]
            plan = json.loads(json.dumps(make(self._rest(connection)), allow_nan=False))
            connection.execute(sa.insert(schema.facts).values(scope=scope, name=PLAN, value={"is": plan}))
        return plan

    def rest(self) -> Rest:
        """Return what a new run may count on at the moment."""
        with self._transaction(write=False) as connection:
            return self._rest(connection)

    def _rest(self, connection: sa.Connection) -> Rest:
        spent: dict[str, list[float]] = {}
        for scope, mu in connection.execute(sa.select(schema.charges.c.scope, schema.charges.c.mu)):
            spent.setdefault(scope, []).append(mu)
        f = schema.facts.c
        plans = connection.execute(sa.select(f.scope, f.value).where(f.name == PLAN))
        planned = {scope: value["is"]["mu"] for scope, value in plans if scope in spent and _has_mu(value["is"])}
        kept = {scope: remaining_mu(spent[scope], mu) for scope, mu in planned.items()}
        used = [mu for mus in spent.values() for mu in mus]
        left, unplanned = (remaining_mu(mus, self.budget.mu) for mus in (used, [*used, *kept.values()]))
        return Rest(left, unplanned, tuple(sorted(scope for scope in kept if kept[scope] > 0)))

    # ---- reading -----------------------------------------------------------------------------

    def news(self, scope: str, *, after: int, again: Collection[int] = (), write: bool = False) -> News:
        """Return the scope's charges after number ``after``, and those of the numbers ``again``.

        Args:
            write: make sure that the ledger can be written, too.

        Raises:
            LedgerError: it cannot be used, or with ``write`` not be written.
        """
        c = schema.charges.c
        wanted = (c.scope == scope) & ((c.seq > after) | c.seq.in_(again))
        with self._transaction(write=write) as connection:
            if write:
                connection.execute(_NOTHING)
            rows = connection.execute(SELECT_CHARGES.where(wanted).order_by(c.seq)).mappings()
            return News(tuple(map(charge_of, rows)), _prices(connection), all_private(connection))

    def spent(self) -> float:
        """Return mu of all charges so far: an odometer reading, not a guarantee fixed in advance."""
        with self._transaction(write=False) as connection:
            return compose_mu(_prices(connection))

    def remaining(self) -> float:
        """Return mu of the largest single release that still fits."""
        with self._transaction(write=False) as connection:
            return remaining_mu(_prices(connection), self.budget.mu)

    def statement(self, *, delta: float | None = None) -> Statement:
        """Return the privacy statement, to print or to publish.

        Args:
            delta: at which epsilons are given; default that of the budget, if it was stated as (epsilon, delta).

        Raises:
            InputError: delta is not in (0, 1), or missing and the budget was stated in GDP.
        """
        delta = self.budget.stated_delta if delta is None else delta
        if delta is None:
            raise InputError("the budget was stated in GDP: say at which delta to give epsilon, e.g. delta=1e-5.")
        return Statement(
            dataset=self.dataset,
            unit=self.unit,
            adjacency=self.adjacency,
            trust_model=self.trust_model,
            n=self.n,
            budget=self.budget,
            spent_mu=self.spent(),
            delta=delta,
            mechanisms=self._mechanisms(),
            private=self.private,
            versions=dict(self._row["versions"]),
        )

    def __repr__(self) -> str:
        return f"PrivacyLedger({self._name()!r}, mu={self.budget.mu!r})"


def _has_mu(plan: object) -> bool:
    return isinstance(plan, dict) and isinstance(plan.get("mu"), int | float)


def _prices(connection: sa.Connection) -> list[float]:
    """Return mu of every charge. Equal ones, which most are, come as a number and a count; their sum stays exact."""
    mu = schema.charges.c.mu
    pairs = connection.execute(sa.select(mu, sa.func.count()).group_by(mu)).all()
    return [price for price, count in pairs for _ in range(count)]


def _first_row(budget: Budget, dataset: str, unit: str) -> dict[str, object]:
    return {
        "mu": budget.mu,
        "stated_epsilon": budget.stated_epsilon,
        "stated_delta": budget.stated_delta,
        "dataset": dataset,
        "unit": unit,
        "adjacency": REPLACE_ONE,
        "trust_model": CENTRAL,
    }
