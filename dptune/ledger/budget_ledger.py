"""A budget's state: its filter, its raises, the plans of runs, and the allowance of a new run.

Later decisions about a budget, its raises and its division, are stored as facts and confirmed by charges. The first
charge after a decision repeats it in its description, and so in the chain of hashes. A file whose facts contradict that
is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa

from dptune._checks import function, json_data, positive, text
from dptune._store import damaged
from dptune.errors import BudgetMismatch, InputError
from dptune.ledger import entries, schema
from dptune.ledger.approximate import Limits
from dptune.ledger.connection import Database, repeated
from dptune.ledger.durable import DurableLedger
from dptune.ledger.entries import WHOLE, LedgerState
from dptune.ledger.filter import Allowance, Divisions, GdpFilter, filter_of, is_pair
from dptune.ledger.gdp import Budget, Spent

RAISE, LIMITS = "budget/", "limits/"  # prefixes of numbered facts about the whole ledger
FIXES = "limits"  # key in the description of the charge that fixed the limits
RAISED = "raises"  # key in the description of the first charge after a raise

_f = schema.facts.c
_OF_ALL = sa.select(_f.value).where(_f.scope == WHOLE).order_by(_f.name)
_DECIDED = {kind: _OF_ALL.where(_f.name.startswith(kind)) for kind in (RAISE, LIMITS)}  # run by every look
_d = sa.cast(schema.charges.c.description, sa.Text)
_SAID = (  # descriptions that may contain limits or raises
    sa.select(schema.charges.c.description)
    .where(sa.or_(_d.contains(f'"{FIXES}"'), _d.contains(f'"{RAISED}"')))
    .order_by(schema.charges.c.seq)
)


def decided(connection: sa.Connection, kind: str) -> list[dict[str, Any]]:
    """Return the raises, or the limits, in order; the last one holds."""
    return [value["is"] for value in connection.execute(_DECIDED[kind]).scalars()]


def decide(connection: sa.Connection, kind: str, value: Mapping[str, object]) -> None:
    """Store a raise, or limits."""
    name = f"{kind}{len(decided(connection, kind)) + 1:06}"
    entries.fixed(connection, WHOLE, name, lambda: json_data("a decision", dict(value)))


def contradiction(connection: sa.Connection, pending: Sequence[Mapping[str, Any]]) -> str:
    """Return how the facts contradict the charges; "" if they do not.

    Args:
        pending: raises since the last charge, which no charge confirms yet.
    """
    said = connection.execute(_SAID).scalars().all()
    stored = decided(connection, LIMITS)
    if [act for each in said for act in each.get(RAISED, [])] + list(pending) != decided(connection, RAISE):
        return "its raises are not those that its charges say"
    fixed = [each[FIXES] for each in said if FIXES in each]
    if not fixed and not stored:
        return ""
    last_is_said = fixed[-1:] == stored[-1:] or bool(pending)
    if any(each not in stored for each in fixed) or not last_is_said or _divided(fixed) != _divided(stored):
        return "its limits are not those that its charges have fixed"
    return ""


def _divided(facts: Sequence[Mapping[str, Any]]) -> set[tuple[float, float]]:
    return {(each["eta"], each["pure"]) for each in facts}


PLAN = "plan"  # the fact of a scope that says what its run will spend
_ENDED = "ended"  # a scope's fact that it has stopped spending its plan
REPLACE_ONE = "replace all records of one unit, with n public"
CENTRAL = "trusted curator: one process reads the losses; everybody else sees noisy releases only"


class BudgetLedger(DurableLedger):
    """The part of a :class:`PrivacyLedger` that decides what may be charged; only that class constructs it."""

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
            refuse_no_budget(budget)
        promise = None if budget is None else {**asdict(budget), "pair": is_pair(budget)}
        words = "" if budget is None else _in_words(budget)
        adjacency = None if max_change is None else adjacency_of(max_change)
        super().__init__(url, promise, words, dataset=dataset, unit=unit, adjacency=adjacency)
        self._check_decisions()
        if budget is not None and not budget.same_promise(self.budget):
            self._refuse_budget(budget)

    # ---- the budget --------------------------------------------------------------------------

    def _refuse_budget(self, budget: Budget) -> None:
        """Refuse a budget other than the present one: an earlier one, or one that the ledger never had."""
        words = partial(_in_words, digits=15)
        more = " To allow more: ledger.raise_budget, or `dptune raise-budget` on the command line."
        earlier = [Budget(**act["from"]) for act in self.raises()]
        if not earlier:
            self._refuse_mismatch("budget", budget, self.budget, words, more)
        raised = f"it was raised from {words(earlier[0])} to {words(self.budget)}"
        raise BudgetMismatch(
            f"this ledger's budget is not {words(budget)}: {raised}. Write the latter in your script, or leave budget= "
            f"out. Nothing was charged.{'' if any(map(budget.same_promise, earlier)) else more}"
        )

    @property
    def mu(self) -> float:
        """Return the limit of all releases in GDP: the budget's mu, or more if a choice has its own limit.

        A budget in (epsilon, delta) that no charge has divided yet counts at its worst division.
        """
        return self.exposure().gdp

    def exposure(self) -> Limits | Divisions:
        """Return the limits of all releases, or the worst division before the first charge."""
        with self._transaction(write=False):
            self._refresh()
            return self.filter.exposure

    @property
    def _pair(self) -> bool:
        """Return whether the budget is stored in (epsilon, delta)."""
        return bool(self._row["pair"])

    @repeated
    def filter_for(self, scope: str, *, plan: object = None) -> GdpFilter:
        """Return the current filter, or the filter after this run's next charge.

        ``plan`` is the plan of a run that has not stored one yet.
        """
        with self._transaction(write=False):
            self._refresh()
            return self._filter_after(scope, plan=plan)

    def _filter_after(self, scope: str, *, plan: object = None) -> GdpFilter:
        return self.filter.after(scope, lambda: self.fact(scope, PLAN) or plan)

    def _store_limits(self, filter: GdpFilter) -> None:
        if (stored := filter.stored()) is not None:
            with self._database.transaction(write=False) as connection:  # part of the writing transaction
                decide(connection, LIMITS, stored)

    @repeated
    def raise_budget(self, budget: Budget) -> None:
        """Allow more to be spent, from now on and for good; asked for again it changes nothing.

        The act is recorded: when, from what, and after how many releases. Every statement shows it.

        Guarantee: all releases together, earlier and later ones, are ``budget.mu``-GDP, **if no outcome could have led
        to a larger budget**. If released values decide whether to raise, state the largest budget to which they could
        have led.

        Args:
            budget: the new one, in all.

        Raises:
            InputError: it is not larger than the present one.
            LedgerError: the ledger cannot be written.
        """
        refuse_no_budget(budget)
        with self._transaction(write=True) as (connection, state):
            present = self._refresh()
            if budget.same_promise(present):
                return
            if budget.mu <= present.mu:
                raise InputError(_not_more(present, budget))
            self._store_limits(self.filter.raised(budget))
            act = {"from": asdict(present), "to": asdict(budget), "at": entries.now(), "releases": state.mark.seq}
            decide(connection, RAISE, act)
        self._refresh()

    @repeated
    def raises(self) -> list[dict[str, Any]]:
        """Return how the budget was raised, as plain JSON data, in order."""
        with self._transaction(write=False) as (connection, _):
            return decided(connection, RAISE)

    def _raised_at(self, state: LedgerState) -> list[dict[str, Any]]:
        """Return the raises since the last charge; the next one has them in its hash."""
        return [act for act in self._raises if act["releases"] == state.mark.seq]

    def _decided_at(self) -> str:
        divided = (self.span() or ("",))[0] if self._pair else ""  # the first charge of any run divides the budget
        return max([str(act["at"]) for act in self.raises()] + [divided])

    @repeated
    def _check_decisions(self) -> None:
        """Refuse raises and limits that contradict the charges."""
        with self._transaction(write=False) as (connection, state):
            self._refresh()
            if wrong := contradiction(connection, self._raised_at(state)):
                raise damaged(self._name, wrong)

    def _refresh(self) -> Budget:
        """Read the present budget and its filter."""
        with self._database.transaction(write=False) as connection:  # part of the caller's transaction
            self._raises = decided(connection, RAISE)
            fixed = decided(connection, LIMITS) if self._pair else []
        row = self._row
        first = Budget(row["mu"], row["stated_epsilon"], row["stated_delta"])
        self.budget = Budget(**self._raises[-1]["to"]) if self._raises else first
        self.filter = filter_of(self.budget, pair=self._pair, stored=fixed[-1] if fixed else None)
        return self.budget

    # ---- what runs have planned --------------------------------------------------------------

    @repeated
    def fix_plan(self, scope: str, make: Callable[[Allowance], object]) -> object:
        """Store a run's plan once, made from its allowance; return the stored plan.

        One transaction does this, so a run sees every earlier charge and plan. A run that was abandoned before its
        first charge reserves nothing.

        Args:
            scope: the run's name.
            make: returns JSON data with the key "mu"; what it raises is raised, and nothing is written.
        """
        scope, make = text("scope", scope), function("make", make)
        with self._transaction(write=True) as (connection, state):
            return entries.fixed(
                connection, scope, PLAN, lambda: json_data("a plan", make(self._allowance(connection, state)))
            )

    @repeated
    def runs(self) -> list[tuple[str, str]]:
        """Return the names of charged runs and the day of their last charge, latest first."""
        c = schema.charges.c
        found = sa.select(c.scope, sa.func.max(c.charged_at)).group_by(c.scope).order_by(sa.func.max(c.seq).desc())
        with self._transaction(write=False) as (connection, _):
            return [(scope, str(at)[:10]) for scope, at in connection.execute(found)]

    def end_plan(self, scope: str) -> None:
        """Release the unspent part of a run's plan to new runs. Spent budget stays spent."""
        if self.fact(scope, _ENDED) is None:
            self.fix(scope, _ENDED, value=True)

    @repeated
    def allowance(self) -> Allowance:
        """Return the current allowance of a new run. This reads the price of every charge, so call it once a run."""
        with self._transaction(write=False) as (connection, state):
            return self._allowance(connection, state)

    def _allowance(self, connection: sa.Connection, state: LedgerState) -> Allowance:
        self._refresh()
        spent_of: dict[str, Spent] = {}
        for scope, mu in connection.execute(sa.select(schema.charges.c.scope, schema.charges.c.mu)):
            spent_of[scope] = spent_of.get(scope, Spent()).plus(mu)
        plans, ended = entries.facts(connection, PLAN), entries.facts(connection, _ENDED)
        begun = {scope: plan for scope, plan in plans.items() if scope in spent_of and scope not in ended}
        return self.filter.allowance(state.spent, spent_of, begun)


def refuse_no_budget(budget: object) -> None:
    """Refuse anything but a ``Budget``, such as a bare epsilon."""
    if not isinstance(budget, Budget):
        raise InputError("budget must be a Budget, e.g. Budget.gdp(mu=1.0).")


def adjacency_of(max_change: float | None) -> str:
    """Return in words which data sets are neighbours: any rows may change, or rows change a little."""
    if max_change is None:
        return REPLACE_ONE
    norm = repr(positive("max_change", max_change))
    return (
        f"one unit's row of features, after public scaling, changes by a vector of L2 norm at most {norm}, with n "
        "public; NOT covered: a larger change, such as replacing the unit's records"
    )


def _not_more(present: Budget, given: Budget) -> str:
    """Return why a given budget is not a raise, in the terms of both; with the mu of pairs if their deltas differ."""
    alike = present.stated_delta == given.stated_delta
    it_is, you_gave = (
        _in_words(each) + (f" (mu={each.mu:.6g})" if is_pair(each) and not alike else "") for each in (present, given)
    )
    return f"a budget is only raised: it is {it_is}, in all; you gave {you_gave}, which is not more."


def _in_words(budget: Budget, digits: int = 6) -> str:
    if budget.stated_epsilon is None:
        return f"mu={budget.mu:.{digits}g}"
    pair = f"epsilon={budget.stated_epsilon:.{digits}g} at delta={budget.stated_delta:.{digits}g}"
    return pair if is_pair(budget) else f"{pair} (mu={budget.mu:.{max(digits - 3, 3)}g})"
