"""A budget in Gaussian differential privacy, kept durably."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa

from dptune._checks import at_least, between, boolean, function, json_data, positive, text
from dptune._store import damaged
from dptune.errors import InputError
from dptune.ledger import decisions, entries, schema
from dptune.ledger.approximate import Limits
from dptune.ledger.connection import Database, repeated
from dptune.ledger.divisions import Divisions
from dptune.ledger.durable import DurableLedger
from dptune.ledger.entries import Charge, LedgerState, Quota
from dptune.ledger.events import Event, SelectionRelease
from dptune.ledger.filter import Allowance, Division, GdpFilter, PairFilter, filter_of, is_pair
from dptune.ledger.gdp import Budget, Spent, bounded_range_from_mu
from dptune.ledger.statement import BudgetStatement, budget_statement

__all__ = ["PLAN", "Charge", "PrivacyLedger"]

PLAN = "plan"  # the fact of a scope that says what its run will spend
_PLANNED_AT = "planned at"  # and when, if the ledger may be divided by it; or what a clip asks for a run to come
_TRAINS = "trains on private people"  # a fact of a scope
_PUBLIC = "public/"  # facts of a scope, in words: what its trials show that no release paid for

_f = schema.facts.c
_PLANNED = sa.select(_f.scope, _f.value).where(_f.name == _PLANNED_AT)
_SAME = (1 - 1e-6, 1 + 1e-6)  # what a choice's two prices may differ by
_PROBE = {  # a charge that is taken back at once
    **dict.fromkeys(("scope", "key", "kind", "mechanism", "digest", "hash", "mu_squared_so_far", "charged_at"), ""),
    **{"seq": 0, "nth": 0, "private": True, "seeded_so_far": 0, "description": " " * 2**14},
}

REPLACE_ONE = "replace all records of one unit, with n public"
CENTRAL = "trusted curator: one process reads the losses; everybody else sees noisy releases only"


@dataclass(frozen=True)
class News:
    """What a run does not know yet, read in one transaction.

    Attributes:
        charges: of its scope, in their order.
        spent: what every charge of the ledger comes to.
        private: False if any of them was made with seeded noise.
    """

    charges: tuple[Charge, ...]
    spent: Spent
    private: bool


class PrivacyLedger(DurableLedger):
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

    kind = "budget"
    filter: GdpFilter
    protects: ClassVar = {
        "dataset": "validation data",
        "unit": "one person",
        "adjacency": REPLACE_ONE,
        "trust_model": CENTRAL,
    }

    def __init__(
        self,
        url: str | Path | Database,
        budget: Budget | None = None,
        *,
        dataset: str | None = None,
        unit: str | None = None,
        max_change: float | None = None,
    ) -> None:
        if budget is not None:
            _refuse_no_budget(budget)
        promise, words = (None, "") if budget is None else (_first_row(budget), _in_words(budget))
        adjacency = None if max_change is None else adjacency_of(max_change)
        super().__init__(url, promise, words, dataset=dataset, unit=unit, adjacency=adjacency)
        self._check_decisions()
        if budget is not None and not budget.same_promise(self.budget):
            raised = " It was raised since then." if self.raises() else ""
            more = f"{raised} To allow more: ledger.raise_budget, or `dptune raise-budget` on the command line."
            self._refuse_mismatch("budget", budget, self.budget, more=more)

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
        division: Division | None = None,
    ) -> Charge:
        """Pay for one release, durably, before any data is read; or find that it was paid already.

        Args:
            scope: the study, the name space of ``key``.
            key: idempotency key; the same key with the same ``digest`` is never paid twice.
            event: what is paid for; ``event.mu`` is its price.
            digest: fingerprint of the public question.
            private: False stamps the charge, and the whole ledger's statement, NOT PRIVATE.
            note: public JSON data to keep with the charge.
            quota: how many charges of a kind the scope may make.
            division: for a choice that comes before a run with another: what both are to have, if this is the ledger's
                first charge.

        Returns:
            The charge; its ``value`` is set if the release was made before.

        Raises:
            BudgetExhausted: it does not fit; nothing was written.
            PlanComplete: the quota is used; nothing was written.
            LedgerError: another ledger lies in this one's place.
            KeyConflict: the key was used for another question.
        """
        mu = positive("mu, a charge's price,", event.mu)
        eta, fixes = 0.0, dict[str, object]()
        if isinstance(event, SelectionRelease):  # its bounded range is a price, too
            eta = between("eta, a choice's bounded range,", event.eta, *(bounded_range_from_mu(mu) * x for x in _SAME))

        def admit(state: LedgerState) -> float | None:
            fixes.clear()
            self._refresh()  # another process may have raised the budget
            raised = self._raised_at(state)
            before, after = self.filter, self._filter_after(scope, state, division=division)
            price = after.price(scope, mu, eta, state.spent)
            if isinstance(after, PairFilter):
                kept = after.open() if division is not None and before.undivided else after
                if kept != before:
                    self._store_limits(kept)
                if kept != before or raised:
                    fixes[decisions.FIXES] = kept.stored()
                self.filter = kept
            if raised:
                fixes[decisions.RAISED] = raised
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
            described=lambda: fixes,
        )

    @repeated
    def check(self, mu: float, *, releases: int = 1, choice_of: str = "") -> None:
        """Refuse now what ``charge`` would refuse later: before a model is trained.

        Args:
            mu: price of each release.
            releases: how many.
            choice_of: the run that asks, if the release is its choice, which may have a limit of its own.

        Raises:
            BudgetExhausted: ``releases`` releases of ``mu`` each do not fit.
            LedgerError: a charge cannot be written: the ledger may not be, or its disk is full.
        """
        price = positive("mu", mu) * math.sqrt(at_least("releases", releases, 1))
        with self._transaction(write=True) as (connection, state):
            after, eta = self.filter_for(choice_of), bounded_range_from_mu(mu)
            if not after.counts_as_eta(choice_of, eta, state.spent):
                self.filter.price("", price, 0.0, state.spent)
            _probe(connection)

    # ---- the budget --------------------------------------------------------------------------

    @property
    def mu(self) -> float:
        """What everything may cost together in GDP: the budget's mu, or more where a choice has a limit of its own.

        A budget in (epsilon, delta) that no charge has divided yet counts at its worst division.
        """
        return self.exposure().gdp

    def exposure(self) -> Limits | Divisions:
        """Return what everything together may come to: the limits, or before the first charge the worst division."""
        with self._transaction(write=False):
            self._refresh()
            return self.filter.exposure

    @property
    def _pair(self) -> bool:
        """Whether the budget is kept in (epsilon, delta)."""
        return bool(self._row["pair"])

    @repeated
    def filter_for(self, scope: str, *, plan: object = None) -> GdpFilter:
        """Return the filter as it is, or as it will be if this run makes the next charge.

        ``plan`` is that of a run that has not stored one yet.
        """
        with self._transaction(write=False) as (_, state):
            self._refresh()
            return self._filter_after(scope, state, plan=plan)

    def _filter_after(
        self, scope: str, state: LedgerState, *, plan: object = None, division: Division | None = None
    ) -> GdpFilter:
        return self.filter.after(scope, state.spent, lambda: self.fact(scope, PLAN) or plan, division)

    def _store_limits(self, filter: GdpFilter) -> None:
        if (stored := filter.stored()) is not None:
            with self._database.transaction(write=False) as connection:  # a part of the one that writes
                decisions.store_limits(connection, stored)

    @repeated
    def raise_budget(self, budget: Budget) -> None:
        """Allow more to be spent, from now on and for good; asked for again it changes nothing.

        The act is recorded: when, from what, and after how many releases. Every statement shows it.

        Guarantee: all releases together, earlier and later ones, are ``budget.mu``-GDP, as if this had been the budget
        from the beginning, **if no outcome could have led to a larger one**. Whoever lets released values decide
        whether to raise has to state the largest budget that they could have led to.

        Args:
            budget: the new one, in all.

        Raises:
            InputError: it is not larger than the present one.
            LedgerError: the ledger cannot be written.
        """
        _refuse_no_budget(budget)
        with self._transaction(write=True) as (connection, state):
            present = self._refresh()
            if budget.same_promise(present):
                return
            if budget.mu <= present.mu:
                raise InputError(f"a budget is only raised: it is mu={present.mu:.6g}, in all, and it cannot shrink.")
            self._store_limits(self.filter.raised(budget))
            act = {"from": asdict(present), "to": asdict(budget), "at": entries.now(), "releases": state.mark.seq}
            decisions.store_raise(connection, act)
        self._refresh()

    @repeated
    def raises(self) -> list[dict[str, Any]]:
        """Return how the budget was raised, as plain JSON data, in order."""
        with self._transaction(write=False) as (connection, _):
            return decisions.raises(connection)

    def _raised_at(self, state: LedgerState) -> list[dict[str, Any]]:
        """Return the raises since the last charge; the next one has them in its hash."""
        return [act for act in self._raises if act["releases"] == state.mark.seq]

    def _decided_at(self) -> str:
        return max([str(act["at"]) for act in self.raises()] + [self._divided_at()])

    @repeated
    def _divided_at(self) -> str:
        """When it was known how the budget is divided; "" if it is not.

        That is the time of the plan, or of what a clip asked for, whose run has made the first charge, if it was the
        only one: of two, which one charges first may be decided later. Else it is the time of the first charge.
        """
        first = next(iter(self.charges()), None) if self._pair else None
        if first is None:
            return ""
        with self._transaction(write=False) as (connection, _):
            planned = {scope: value["is"] for scope, value in connection.execute(_PLANNED)}
        alone: Any = planned[first.scope] if list(planned) == [first.scope] else {}
        known = alone.get("eta", self.filter.limits.eta) == self.filter.limits.eta and "at" in alone
        return str(alone["at"]) if known else min(self.span() or ("",))

    @repeated
    def _check_decisions(self) -> None:
        """Refuse raises and limits that are not those that the charges say.

        Raises:
            LedgerError: the file was changed.
        """
        with self._transaction(write=False) as (connection, state):
            self._refresh()
            if wrong := decisions.contradiction(connection, self._raised_at(state)):
                raise damaged(self._name, wrong)

    def _refresh(self) -> Budget:
        """Read the present budget and its filter."""
        with self._database.transaction(write=False) as connection:  # a part of the one that asks
            self._raises = decisions.raises(connection)
            fixed = decisions.limits(connection) if self._pair else []
        row = self._row
        first = Budget(row["mu"], row["stated_epsilon"], row["stated_delta"])
        self.budget = Budget(**self._raises[-1]["to"]) if self._raises else first
        self.filter = filter_of(self.budget, pair=self._pair, stored=fixed[-1] if fixed else None)
        return self.budget

    # ---- what runs have planned --------------------------------------------------------------

    @repeated
    def fix_plan(self, scope: str, make: Callable[[Allowance], object]) -> object:
        """Store a run's plan once, made from what the other runs leave it; return the stored one.

        One transaction, so that a run sees every charge and every plan before its own. A run that was given up before
        its first charge holds nothing: no other has to make room for it.

        Args:
            scope: the run's name.
            make: returns JSON data with the key "mu"; what it raises is raised, and nothing is written.
        """
        scope, make = text("scope", scope), function("make", make)
        with self._transaction(write=True) as (connection, state):
            plan = entries.fixed(
                connection, scope, PLAN, lambda: json_data("a plan", make(self._allowance(connection, state)))
            )
            if self.filter.undivided:
                entries.fixed(connection, scope, _PLANNED_AT, lambda: {"at": entries.now()})
            return plan

    def announce_division(self, scope: str, division: Division) -> None:
        """Store when it was known which division this scope will ask for, if it makes the first charge."""
        self.fix(scope, _PLANNED_AT, {"at": entries.now(), **asdict(division)})

    @repeated
    def allowance(self) -> Allowance:
        """Return what a new run may count on at the moment. It reads the price of every charge: once a run."""
        with self._transaction(write=False) as (connection, state):
            return self._allowance(connection, state)

    def _allowance(self, connection: sa.Connection, state: LedgerState) -> Allowance:
        self._refresh()
        spent_of: dict[str, Spent] = {}
        for scope, mu in connection.execute(sa.select(schema.charges.c.scope, schema.charges.c.mu)):
            spent_of[scope] = spent_of.get(scope, Spent()).plus(mu)
        plans = connection.execute(sa.select(_f.scope, _f.value).where(_f.name == PLAN))
        begun = {scope: value["is"] for scope, value in plans if scope in spent_of}
        return self.filter.allowance(state.spent, spent_of, begun)

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
            known = entries.read(connection, schema.charges.c.seq.in_(again)) if again else []
            new = entries.news(connection, scope, after)
            if write:
                _probe(connection)
        return News((*known, *new), state.spent, state.private)

    @repeated
    def spent(self) -> float:
        """Return mu of all charges so far: an odometer reading, not a guarantee fixed in advance.

        Of a budget in (epsilon, delta) it may pass ``budget.mu``, where a choice has a limit of its own. Then ``mu``,
        of everything together, is
        larger, and the promised pair still holds.
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
        with self._transaction(write=False) as (_, state):  # all of it as it stood at one moment
            self._refresh()
            delta = self.budget.stated_delta if delta is None else delta
            if delta is None:
                raise InputError("the budget was stated in GDP: say at which delta to give epsilon, e.g. delta=1e-5.")
            charges, holder = self.charges(), self.filter.holder
            return budget_statement(
                self._facts(delta),
                self.filter,
                state.spent,
                before=tuple(sorted({charge.scope for charge in charges if charge.eta and charge.scope != holder})),
                failures=sum(int(charge.note.get("failed", 0)) for charge in charges),
                public=self._declared(_PUBLIC),
                trained=tuple(run for _, run in self._declared(_TRAINS)),
                raises=tuple(self.raises()),
                training_rows=_training_rows(charges),
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
    """Return how many public rows train, if the choices have recorded one number."""
    found = {charge.note["public_rows"] for charge in charges if "public_rows" in charge.note}
    return int(found.pop()) if len(found) == 1 else None


def _probe(connection: sa.Connection) -> None:
    """Write a charge and take it back, with the whole transaction: so nothing has to reach the disk, but it must fit.

    Raises:
        DBAPIError: it cannot be written; a full disk says so before a model is trained.
    """
    connection.execute(sa.insert(schema.charges), _PROBE)
    connection.rollback()


def _refuse_no_budget(budget: object) -> None:
    if not isinstance(budget, Budget):
        raise InputError("budget must be a Budget, e.g. Budget.gdp(mu=1.0).")


def _first_row(budget: Budget) -> dict[str, object]:
    return {**asdict(budget), "pair": is_pair(budget)}


def adjacency_of(max_change: float | None) -> str:
    """Return in words which data sets a ledger does not tell apart: all, or rows that change a little."""
    if max_change is None:
        return REPLACE_ONE
    norm = repr(positive("max_change", max_change))
    return (
        f"one unit's row of features, after public scaling, changes by a vector of L2 norm at most {norm}, with n "
        "public; NOT covered: a larger change, such as replacing the unit's records"
    )


def _in_words(budget: Budget) -> str:
    if budget.stated_epsilon is None:
        return f"mu={budget.mu:g}"
    pair = f"epsilon={budget.stated_epsilon:g} at delta={budget.stated_delta:g}"
    return pair if is_pair(budget) else f"{pair} (mu={budget.mu:.3g})"
