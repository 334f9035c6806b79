"""The durable ledger of a budget in Gaussian differential privacy or in (epsilon, delta): charges and statements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from dptune._checks import between, boolean, positive, text
from dptune.errors import InputError
from dptune.ledger import entries, schema
from dptune.ledger.budget_ledger import FIXES, PLAN, RAISED, BudgetLedger
from dptune.ledger.connection import repeated
from dptune.ledger.entries import Charge, LedgerState, Quota
from dptune.ledger.events import Event, PureRelease, SelectionRelease
from dptune.ledger.filter import PairFilter
from dptune.ledger.gdp import Spent, bounded_range_from_mu, pure_from_mu

if TYPE_CHECKING:
    from dptune.ledger.statement import BudgetStatement

__all__ = ["PLAN", "Charge", "PrivacyLedger"]

_TRAINS = "trains on private people"  # a fact of a scope
_PUBLIC = "public/"  # prefix of a scope's facts, in words: what its trials show without a charge

_SAME = (1 - 1e-6, 1 + 1e-6)  # allowed ratio of a choice's two prices
_PROBE = {  # a charge that is rolled back at once
    **dict.fromkeys(("scope", "key", "kind", "mechanism", "digest", "hash", "mu_squared_so_far", "charged_at"), ""),
    **{"seq": 0, "nth": 0, "private": True, "seeded_so_far": 0, "description": " " * 2**14},
}


@dataclass(frozen=True)
class News:
    """New charges of a run's scope and the ledger's totals, read in one transaction."""

    charges: tuple[Charge, ...]  # new charges in the run's scope, in order
    spent: Spent  # total of every charge of the ledger
    private: bool  # False if any charge was made with seeded noise


class PrivacyLedger(BudgetLedger):
    """A budget that is fixed at creation, raised in public or not at all, and survives processes, copies and crashes.

    Copies, pickles and clones of a ledger are views of the same database: the budget never forks.
    An older copy of the database that is put back is refused by every object that has seen more, and wherever a
    :meth:`mark` was kept. (A copy that is used together with the original is a fork that no software can see.)

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL (``postgresql://...`` for several machines).
        budget: required to create a ledger; when one exists it must be its present one: the same stated (epsilon,
            delta), or the same mu but for rounding. What is spent is held against the stored mu.
        dataset: name of the protected data set.
        unit: what one record is, for the privacy statement.
        max_change: for tables of features (:mod:`dptune.outsourced`) only. It makes a weaker promise: not that a unit's
            records may be replaced, but that one unit's row may change by a vector of this norm.

    Raises:
        BudgetMismatch: the ledger exists with another budget, data set, unit or adjacency.
        LedgerError: no budget was given and there is no ledger, or the database cannot be used.
        InputError: the URL is not durable.
    """

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
        quota: Quota | None = None,
        people: int | None = None,
    ) -> Charge:
        """Charge one release, durably, before any data is read, or find its existing charge.

        Args:
            scope: the study, the name space of ``key``.
            key: idempotency key; the same key with the same ``digest`` is never charged twice.
            event: the charged event; ``event.mu`` is its price.
            digest: fingerprint of the public question.
            private: False stamps the charge, and the whole ledger's statement, NOT PRIVATE.
            note: public JSON data to keep with the charge.
            quota: how many charges of a kind the scope may make.
            people: number of protected units, which the first charge fixes.

        Returns:
            The charge; its ``value`` is set if the release was made before.

        Raises:
            BudgetExhausted: it does not fit; nothing was written.
            PlanComplete: the quota is used; nothing was written.
            LedgerError: another ledger lies in this one's place.
            KeyConflict: the key was used for another question.
            BudgetMismatch: the ledger protects another number of units; nothing was written.
        """
        mu = positive("mu, a charge's price,", event.mu)
        eta = 0.0
        epsilon = 0.0
        fixes = dict[str, object]()
        if isinstance(event, SelectionRelease):  # bounded range is a second price
            eta = between("eta, a choice's bounded range,", event.eta, *(bounded_range_from_mu(mu) * x for x in _SAME))
        if isinstance(event, PureRelease):
            epsilon = between("epsilon of a release", event.epsilon, *(pure_from_mu(mu) * x for x in _SAME))

        def admit(state: LedgerState) -> float | None:
            fixes.clear()
            self._refresh()  # another process may have raised the budget
            raised = self._raised_at(state)
            before = self.filter
            after = self._filter_after(scope)
            price = after.price(scope, mu, state.spent, eta=eta, epsilon=epsilon)
            if isinstance(after, PairFilter):
                if after != before:
                    self._store_limits(after)
                if after != before or raised:
                    fixes[FIXES] = after.stored()
                self.filter = after
            if raised:
                fixes[RAISED] = raised
            return price

        return self._pay(
            scope,
            key,
            event,
            admit,
            digest=digest,
            private=private,
            note=note,
            quota=quota,
            people=people,
            described=lambda: fixes,
        )

    @repeated
    def check(self, mu: float) -> None:
        """Refuse now what ``charge`` would refuse later: before a model is trained.

        Raises:
            BudgetExhausted: a release of ``mu`` does not fit.
            LedgerError: a charge cannot be written: the ledger may not be, or its disk is full.
        """
        price = positive("mu", mu)
        with self._transaction(write=True) as (connection, state):
            self.filter.price("", price, state.spent)
            _probe(connection)

    # ---- facts of the statement ------- -------------------------------------------------------

    def declare_public(self, scope: str, quantity: str) -> None:
        """Keep, for the statement, that a run's trials show a public quantity; that it is public is the user's word.

        Args:
            scope: the run's name.
            quantity: what it is, in words, as "log loss on 300 public rows".
        """
        self.fix(scope, _PUBLIC + text("public", quantity), quantity)

    def declare_private_training(self, scope: str) -> None:
        """Keep, for the statement, that a run's trials train on private people, whom this ledger does not protect."""
        self.fix(scope, _TRAINS, True)

    # ---- reading -----------------------------------------------------------------------------

    @repeated
    def news(self, scope: str, *, after: int, again: Collection[int] = (), write: bool = False) -> News:
        """Return the scope's charges after number ``after``, and those of the numbers ``again``.

        Args:
            write: make sure that the ledger can be written, too.

        Raises:
            LedgerError: it cannot be used, or with ``write`` not be written.
        """
        scope = text("scope", scope)
        with self._transaction(write=boolean("write", write)) as (connection, state):
            self._refresh()
            late = entries.read(connection, schema.charges.c.seq.in_(again)) if again else []
            new = entries.news(connection, scope, after)
            if write:
                _probe(connection)
        return News((*late, *new), state.spent, state.private)

    @repeated
    def spent(self) -> float:
        """Return mu of all charges so far: an odometer reading, not a guarantee fixed in advance.

        Of a budget in (epsilon, delta) it may pass ``budget.mu``, where a choice has a limit of its own. Then ``mu``,
        of everything together, is larger, and the promised pair still holds.
        """
        with self._transaction(write=False) as (_, state):
            return state.spent.mu

    @repeated
    def remaining(self) -> float:
        """Return mu of the largest single release that still fits."""
        with self._transaction(write=False) as (_, state):
            self._refresh()
            return self.filter.left(state.spent)

    @repeated
    def statement(self, *, delta: float | None = None) -> BudgetStatement:
        """Return the privacy statement, to print or to publish.

        Args:
            delta: at which epsilons are given; default that of the budget, if it was stated as (epsilon, delta).

        Raises:
            InputError: delta is not in (0, 1), or missing and the budget was stated in GDP.
        """
        from dptune.ledger.statement import budget_statement

        with self._transaction(write=False) as (_, state):  # all from one snapshot
            self._refresh()
            delta = self.budget.stated_delta if delta is None else delta
            if delta is None:
                raise InputError("the budget was stated in GDP: say at which delta to give epsilon, e.g. delta=1e-5.")
            charges = self.charges()
            return budget_statement(
                self._facts(delta),
                self.filter,
                state.spent,
                failures=sum(int(charge.note.get("failed", 0)) for charge in charges),
                public=self._declared(_PUBLIC),
                trained=tuple(run for _, run in self._declared(_TRAINS)),
                raises=tuple(self.raises()),
                training_rows=_training_rows(charges),
                places=max((len(charge.note.get("places", ())) for charge in charges), default=0),
            )

    @repeated
    def _declared(self, kind: str) -> tuple[tuple[str, str], ...]:
        f = schema.facts.c
        query = sa.select(f.scope, f.value).where(f.name.startswith(kind)).order_by(f.scope, f.name)
        with self._transaction(write=False) as (connection, _):
            return tuple((str(value["is"]), str(scope)) for scope, value in connection.execute(query))

    def __repr__(self) -> str:
        budget = self.budget
        pair = f"epsilon={budget.stated_epsilon!r}, delta={budget.stated_delta!r}"
        return f"PrivacyLedger({self._name!r}, {pair if self._pair else f'mu={budget.mu!r}'})"


def _training_rows(charges: Sequence[Charge]) -> int | None:
    """Return the number of public training rows, if all choices have recorded the same one."""
    counts = {charge.note["public_rows"] for charge in charges if "public_rows" in charge.note}
    return int(counts.pop()) if len(counts) == 1 else None


def _probe(connection: sa.Connection) -> None:
    """Write a charge and roll it back: nothing has to reach the disk, but the charge must fit."""
    connection.execute(sa.insert(schema.charges), _PROBE)
    connection.rollback()
