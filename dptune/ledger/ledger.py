"""A budget in Gaussian differential privacy, kept durably."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa

from dptune._checks import at_least, between, boolean, function, json_data, positive, text
from dptune._numbers import real
from dptune._store import damaged
from dptune.errors import BudgetExhausted, InputError
from dptune.ledger import entries, schema
from dptune.ledger.approximate import Limits, divided, largest_plan, largest_within
from dptune.ledger.connection import Database, repeated
from dptune.ledger.divisions import Divisions
from dptune.ledger.durable import DurableLedger
from dptune.ledger.entries import WHOLE, Charge, Head, Limit
from dptune.ledger.events import Event, SelectionRelease
from dptune.ledger.gdp import Budget, Spent, bounded_range_from_mu
from dptune.ledger.statement import BudgetStatement, budget_statement

__all__ = ["PLAN", "Charge", "Limit", "PrivacyLedger", "Rest"]

RAISE = "budget/"  # with a number: a fact about the whole ledger
_LIMITS = "limits/"  # the same
_FIXES = "limits"  # in the description of a charge that has fixed them, so that its hash vouches for them
_RAISED = "raises"  # the same of a raise: in the first charge after it
PLAN = "plan"  # the fact of a scope that says what its run will spend
_PLANNED_AT = "planned at"  # and when, if the ledger may be divided by it; or what a clip asks for a run to come
_TRAINS = "trains on private people"  # a fact of a scope
_PUBLIC = "public/"  # facts of a scope, in words: what its trials show that no release paid for

_f = schema.facts.c
_OF_ALL = sa.select(_f.value).where(_f.scope == WHOLE).order_by(_f.name)
_RAISES, _ALL_LIMITS = (_OF_ALL.where(_f.name.startswith(name)) for name in (RAISE, _LIMITS))  # at every look
_d = sa.cast(schema.charges.c.description, sa.Text)
_SAID = (  # descriptions that may say limits or raises
    sa.select(schema.charges.c.description)
    .where(sa.or_(_d.contains(f'"{_FIXES}"'), _d.contains(f'"{_RAISED}"')))
    .order_by(schema.charges.c.seq)
)
_PLANNED = sa.select(_f.scope, _f.value).where(_f.name == _PLANNED_AT)
_SAME = (1 - 1e-6, 1 + 1e-6)  # what a choice's two prices may differ by
_PROBE = {  # a charge that is taken back at once
    **dict.fromkeys(("scope", "key", "kind", "mechanism", "digest", "hash", "mu_squared_so_far", "charged_at"), ""),
    **{"seq": 0, "nth": 0, "private": True, "seeded_so_far": 0, "description": " " * 2**14},
}

REPLACE_ONE = "replace all records of one unit, with n public"
CENTRAL = "trusted curator: one process reads the losses; everybody else sees noisy releases only"


@dataclass(frozen=True)
class Rest:
    """What a new run may count on.

    Attributes:
        left: mu that is not spent.
        unplanned: mu that is neither spent nor planned by a run that has begun to spend.
        holders: names of the runs that have begun to spend, and not spent what they planned.
        pair: the budget in (epsilon, delta) that a plan may still divide between its choice and everything else.
        eta: what is kept for the choice of the first run to spend that has planned one.
    """

    left: float
    unplanned: float
    holders: tuple[str, ...]
    pair: Budget | None = None
    eta: float = 0.0

    @property
    def divides(self) -> bool:
        """Whether the choice of a new run may have a limit of its own."""
        return self.pair is not None or self.eta > 0

    def whole(self, choice_share: float | Sequence[float]) -> float:
        """Return mu of a plan that takes all, with these shares of mu^2 for choices: what is not planned, or more."""
        pair = self.pair
        if choice_share and pair is not None and pair.stated_epsilon is not None and pair.stated_delta is not None:
            return largest_plan(choice_share, pair.stated_epsilon, pair.stated_delta)
        if choice_share and self.eta > 0:
            return max(self.unplanned, largest_within(self.unplanned, self.eta, choice_share))
        return self.unplanned


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
    :meth:`mark` was kept. (A copy that is used beside the original is a fork that no software can see.)

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
    limits: Limits
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
        limit: Limit | None = None,
        limits: Limits | None = None,
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
            limits: for a choice that comes before a run with another: what both are to have, if this is the ledger's
                first charge. Their ``holder`` is ``scope`` if the choice itself is held to their eta.

        Returns:
            The charge; its ``value`` is set if the release was made before.

        Raises:
            BudgetExhausted: it does not fit; nothing was written.
            PlanComplete: the limit is reached; nothing was written.
            LedgerError: another ledger lies in this one's place.
            KeyConflict: the key was used for another question.
        """
        mu = positive("mu, a charge's price,", event.mu)
        eta, fixes = 0.0, dict[str, object]()
        if isinstance(event, SelectionRelease):  # its bounded range is a price, too
            eta = between("eta, a choice's bounded range,", event.eta, *(bounded_range_from_mu(mu) * x for x in _SAME))

        def admit(head: Head) -> float | None:
            fixes.clear()
            self._refresh()  # another process may have raised the budget
            raised = self._raised_at(head)
            divides, fixed, now = self._divides(head), self.limits, self._limits_with(scope, head, limits)
            if not (eta and scope == now.holder and head.spent.admits_choice(eta, now.eta)):
                self._admit(head.spent, mu, now)
                price: float | None = mu
            else:
                price = None
            kept = replace(now, holder="") if divides and limits is not None else now
            if divides or kept != fixed:
                self._store_limits(kept)
            if divides or kept != fixed or (raised and self._pair):
                fixes[_FIXES] = asdict(kept)
            if raised:
                fixes[_RAISED] = raised
            self.limits = kept
            return price

        return self._pay(
            scope,
            key,
            event,
            admit,
            digest=digest,
            private=private,
            note=note,
            limit=limit,
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
        with self._transaction(write=True) as (connection, head):
            limits = self.limits_for(choice_of)
            its_own = choice_of != "" and choice_of == limits.holder
            if not (its_own and head.spent.admits_choice(bounded_range_from_mu(mu), limits.eta)):
                self._admit(head.spent, price, self.limits)
            _probe(connection)

    def _admit(self, spent: Spent, mu: float, limits: Limits) -> None:
        if not spent.admits(mu, limits.mu):
            raise BudgetExhausted(mu, spent.remaining(limits.mu), limits.mu)

    # ---- the budget --------------------------------------------------------------------------

    @property
    def mu(self) -> float:
        """What everything may cost together in GDP: the budget's mu, or more where a choice has a limit of its own.

        A budget in (epsilon, delta) that no charge has divided yet counts at its worst division.
        """
        return self.exposure().gdp

    def exposure(self) -> Limits | Divisions:
        """Return what everything together may come to: the limits, or before the first charge the worst division."""
        with self._transaction(write=False) as (_, head):
            self._refresh()
            return self._exposure(head)

    def _exposure(self, head: Head) -> Limits | Divisions:
        return Divisions.of(self.budget) if self._divides(head) else self.limits

    @property
    def _pair(self) -> bool:
        """Whether the budget is kept in (epsilon, delta)."""
        return bool(self._row["pair"])

    @repeated
    def limits_for(self, scope: str, *, plan: object = None) -> Limits:
        """Return the limits as they are, or as they will be if this run makes the first charge.

        ``plan`` is that of a run that has not stored one yet.
        """
        with self._transaction(write=False) as (_, head):
            self._refresh()
            return self._limits_with(scope, head, plan=plan)

    def _divides(self, head: Head) -> bool:
        """Whether the next charge divides a budget in (epsilon, delta)."""
        return self._pair and head.mark.seq == 0

    def _limits_with(self, scope: str, head: Head, wanted: Limits | None = None, plan: object = None) -> Limits:
        """Return the limits as they are with this run's next charge.

        The first charge of a ledger divides a budget in (epsilon, delta), as its run has planned, or as is ``wanted``
        for a run to come. It is stored in the transaction of that charge: nothing is released before, so nothing
        released decides. An eta without a holder goes to the first run whose planned choice fits; mu and eta stay.
        """
        divides = self._divides(head)
        if not divides and (self.limits.eta == 0 or self.limits.holder or not scope):
            return self.limits
        if divides and wanted is not None:
            return Limits.within(self.budget, wanted.eta, wanted.holder, planned=wanted.mu)
        mu, share = _planned((self.fact(scope, PLAN) or plan) if scope else None)
        planned, eta = divided(mu, share) if share else (mu, 0.0)
        if divides:
            return Limits.within(self.budget, eta, scope, planned=planned)
        takes = eta > 0 and head.spent.admits_choice(eta, self.limits.eta)
        return replace(self.limits, holder=scope) if takes else self.limits

    def _store_limits(self, limits: Limits) -> None:
        with self._database.transaction(write=False) as connection:  # a part of the one that writes
            name = f"{_LIMITS}{len(connection.execute(_ALL_LIMITS).all()) + 1:06}"
            entries.fixed(connection, WHOLE, name, lambda: json_data("limits", asdict(limits)))

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
        with self._transaction(write=True) as (connection, head):
            present = self._refresh()
            if budget.same_promise(present):
                return
            if budget.mu <= present.mu:
                raise InputError(f"a budget is only raised: it is mu={present.mu:.6g}, in all, and it cannot shrink.")
            if self._pair:
                self._raise_limits(budget)
            act = {"from": asdict(present), "to": asdict(budget), "at": entries.now(), "releases": head.mark.seq}
            entries.fixed(connection, WHOLE, f"{RAISE}{len(self.raises()) + 1:06}", lambda: json_data("a raise", act))
        self._refresh()

    @repeated
    def raises(self) -> list[dict[str, Any]]:
        """Return how the budget was raised, as plain JSON data, in order."""
        with self._transaction(write=False) as (connection, _):
            return [value["is"] for value in connection.execute(_RAISES).scalars()]

    def _raised_at(self, head: Head) -> list[dict[str, Any]]:
        """Return the raises since the last charge; the next one has them in its hash."""
        return [act for act in self._raises if act["releases"] == head.mark.seq]

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
        known = alone.get("eta", self.limits.eta) == self.limits.eta and "at" in alone
        return str(alone["at"]) if known else min(self.span() or ("",))

    def _raise_limits(self, budget: Budget) -> None:
        """More of a budget in (epsilon, delta) is more mu; the limit of choices stays."""
        if not _is_pair(budget):
            raise InputError("this budget is kept in (epsilon, delta): raise it with Budget.approximate_dp.")
        if not self._limits_fixed():
            return
        limits = Limits.within(budget, self.limits.eta, self.limits.holder)
        if limits.mu < self.limits.mu or limits.eta < self.limits.eta:
            raise InputError("a budget is only raised: what is planned of it does not fit into this one.")
        self._store_limits(limits)

    @repeated
    def _check_decisions(self) -> None:
        """Refuse raises and limits that are not those that the charges say.

        Raises:
            LedgerError: the file was changed.
        """
        with self._transaction(write=False) as (connection, head):
            said = connection.execute(_SAID).scalars().all()
            self._refresh()
            pending = self._raised_at(head)
            stored = [value["is"] for value in connection.execute(_ALL_LIMITS).scalars()]
        if [act for each in said for act in each.get(_RAISED, [])] + pending != self._raises:
            raise damaged(self._name, "its raises are not those that its charges say")
        fixed = [each[_FIXES] for each in said if _FIXES in each]
        if not fixed and not stored:
            return
        last_is_said = fixed[-1:] == stored[-1:] or pending
        if any(each not in stored for each in fixed) or not last_is_said or _etas(fixed) != _etas(stored):
            raise damaged(self._name, "its limits are not those that its charges have fixed")

    def _limits_fixed(self) -> bool:
        with self._database.transaction(write=False) as connection:
            return connection.execute(_ALL_LIMITS).first() is not None

    def _refresh(self) -> Budget:
        """Read the present budget and limits."""
        with self._database.transaction(write=False) as connection:  # a part of the one that asks
            self._raises = [value["is"] for value in connection.execute(_RAISES).scalars()]
            fixed = connection.execute(_ALL_LIMITS).scalars().all() if self._pair else []
        row = self._row
        first = Budget(row["mu"], row["stated_epsilon"], row["stated_delta"])
        self.budget = Budget(**self._raises[-1]["to"]) if self._raises else first
        self.limits = Limits(**fixed[-1]["is"]) if fixed else Limits(self.budget.mu)
        return self.budget

    # ---- what runs have planned --------------------------------------------------------------

    @repeated
    def fix_plan(self, scope: str, make: Callable[[Rest], object]) -> object:
        """Store a run's plan once, made from what the other runs leave it; return the stored one.

        One transaction, so that a run sees every charge and every plan before its own. A run that was given up before
        its first charge holds nothing: no other has to make room for it.

        Args:
            scope: the run's name.
            make: returns JSON data with the key "mu"; what it raises is raised, and nothing is written.
        """
        scope, make = text("scope", scope), function("make", make)
        with self._transaction(write=True) as (connection, head):
            plan = entries.fixed(
                connection, scope, PLAN, lambda: json_data("a plan", make(self._rest(connection, head)))
            )
            if self._divides(head):
                entries.fixed(connection, scope, _PLANNED_AT, lambda: {"at": entries.now()})
            return plan

    def announce_limits(self, scope: str, limits: Limits) -> None:
        """Keep when it was known which limits this scope will ask for, if it makes the first charge."""
        self.fix(scope, _PLANNED_AT, {"at": entries.now(), **asdict(limits)})

    @repeated
    def rest(self) -> Rest:
        """Return what a new run may count on at the moment. It reads the price of every charge: once a run."""
        with self._transaction(write=False) as (connection, head):
            return self._rest(connection, head)

    def _rest(self, connection: sa.Connection, head: Head) -> Rest:
        self._refresh()
        spent: dict[str, Spent] = {}
        for scope, mu in connection.execute(sa.select(schema.charges.c.scope, schema.charges.c.mu)):
            spent[scope] = spent.get(scope, Spent()).plus(mu)
        f = schema.facts.c
        plans = connection.execute(sa.select(f.scope, f.value).where(f.name == PLAN))
        planned = {scope: self._held(scope, value["is"]) for scope, value in plans if scope in spent}
        kept = {scope: spent[scope].remaining(mu) for scope, mu in planned.items() if mu > 0}
        used = head.spent
        left, unplanned = (one.remaining(self.limits.mu) for one in (used, reduce(Spent.plus, kept.values(), used)))
        holders = tuple(sorted(scope for scope in kept if kept[scope] > 0))
        pair = self.budget if self._divides(head) else None
        return Rest(left, unplanned, holders, pair, self._kept(head.spent))

    def _kept(self, spent: Spent) -> float:
        """The eta that no run holds yet."""
        return max(self.limits.eta - float(spent.choices), 0.0) if not self.limits.holder else 0.0

    def _held(self, scope: str, plan: object) -> float:
        """What a plan takes of the limit of mu."""
        mu, share = _planned(plan)
        return mu * math.sqrt(1 - share) if scope == self.limits.holder else mu

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
        with self._transaction(write=boolean("write", write)) as (connection, head):
            self._refresh()
            known = entries.read(connection, schema.charges.c.seq.in_(again)) if again else []
            new = entries.news(connection, scope, after)
            if write:
                _probe(connection)
        return News((*known, *new), head.spent, head.private)

    @repeated
    def spent(self) -> float:
        """Return mu of all charges so far: an odometer reading, not a guarantee fixed in advance.

        Of a budget in (epsilon, delta) it may pass ``budget.mu``, where a choice has a limit of its own: ``mu``, of
        everything together, is larger then, and the promised pair still holds.
        """
        with self._transaction(write=False) as (_, head):
            return head.spent.mu

    @repeated
    def remaining(self) -> float:
        """Return mu of the largest single release that still fits."""
        with self._transaction(write=False) as (_, head):
            self._refresh()
            return head.spent.remaining(self.limits.mu)

    @repeated
    def statement(self, *, delta: float | None = None) -> BudgetStatement:
        """Return the privacy statement, to print or to publish.

        Args:
            delta: at which epsilons are given; default that of the budget, if it was stated as (epsilon, delta).

        Raises:
            InputError: delta is not in (0, 1), or missing and the budget was stated in GDP.
        """
        with self._transaction(write=False) as (_, head):  # all of it as it stood at one moment
            self._refresh()
            delta = self.budget.stated_delta if delta is None else delta
            if delta is None:
                raise InputError("the budget was stated in GDP: say at which delta to give epsilon, e.g. delta=1e-5.")
            charges, holder = self.charges(), self.limits.holder
            return budget_statement(
                self._facts(delta),
                self.budget,
                self.limits,
                head.spent,
                exposure=self._exposure(head),
                before=tuple(sorted({charge.scope for charge in charges if charge.eta and charge.scope != holder})),
                failures=sum(int(charge.note.get("failed", 0)) for charge in charges),
                public=self._declared(_PUBLIC),
                trained=tuple(run for _, run in self._declared(_TRAINS)),
                raises=tuple(self.raises()),
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
    return {**asdict(budget), "pair": _is_pair(budget)}


def _etas(limits: Sequence[Mapping[str, Any]]) -> set[float]:
    return {each["eta"] for each in limits}


def _is_pair(budget: Budget) -> bool:
    """Whether it is stated in (epsilon, delta) and promises no less mu than that pair."""
    epsilon, delta = budget.stated_epsilon, budget.stated_delta
    return epsilon is not None and delta is not None and budget.same_promise(Budget.approximate_dp(epsilon, delta))


def _planned(plan: object) -> tuple[float, float]:
    """Return mu of a plan, 0 if it names none, and the share of mu^2 for its choice."""
    found = plan if isinstance(plan, dict) else {}
    shares = found.get("shares")
    mu, share = real(found.get("mu")) or 0.0, real(shares.get("choice") if isinstance(shares, dict) else 0.0) or 0.0
    return mu, share if mu > 0 and 0 < share <= 1 else 0.0


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
    return pair if _is_pair(budget) else f"{pair} (mu={budget.mu:.3g})"
