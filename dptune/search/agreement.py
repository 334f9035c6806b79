"""What a run agrees on with its ledger before its first charge: its plan, space and people; fixed for good."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from dptune.accounting.ledger import PLAN, PrivacyLedger, Rest
from dptune.algorithms.method import RULES, Plan
from dptune.errors import BudgetExhausted, BudgetMismatch, BudgetPlanned, InputError
from dptune.privacy.privatizer import LossPrivatizer
from dptune.space import Space

PRIVATIZER = "privatizer"  # the fact of a scope that says what its losses are


def agree_on_plan(
    privatizer: LossPrivatizer,
    scope: str,
    *,
    make_plan: Callable[[float, int, int], Plan],
    mu: float | None,
    seed: int | None,
    space: Space | None = None,
    start_from: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the scope's plan: this process's if it is the first, else the stored one, if it is the same.

    Args:
        privatizer: of the run, for good; its ledger keeps the plan.
        scope: the run's name.
        make_plan: (mu, seed, version of the defaults) -> plan.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; default drawn when the run begins.
        space: the search space, stored with the plan.
        start_from: the answers that the run starts from (:mod:`dptune.search.earlier`), stored with the plan; those
            that the first process found are learned for good.

    Raises:
        BudgetMismatch: an earlier process planned this scope differently, or with another privatizer.
        BudgetExhausted: the ledger has not that much left for a new run.
    """
    ledger, budget = privatizer.ledger, privatizer.ledger.budget.mu
    drawn = secrets.randbits(32) if seed is None else seed

    def begin(rest: Rest) -> object:
        share = _share(rest, mu, budget)
        try:
            return described(make_plan(share, drawn, RULES), space, start_from)
        except InputError:
            if mu is None and rest.holders:
                make_plan(budget, drawn, RULES)  # raises what is wrong with the settings, if it is they
                raise BudgetPlanned(rest.left, budget, rest.holders) from None
            raise

    stored = ledger.fact(scope, PLAN)
    if stored is None:
        if mu is not None:
            ledger.check(mu)
            _warn_if_planned(ledger.rest(), scope, mu)
        stored = ledger.fix_plan(scope, begin)
    if not isinstance(stored, dict):
        raise BudgetMismatch(f"the run {scope!r} has no readable plan in the ledger; give the study a new name.")
    _agree_on_people(privatizer, scope)
    drawn = stored["seed"] if seed is None else seed
    plan = make_plan(stored["mu"] if mu is None else mu, drawn, stored.get("rules", 1))
    wanted: Any = described(plan, space, _as_found(start_from, stored))
    if wanted != stored:
        raise BudgetMismatch(
            f"the run {scope!r} was planned with other settings or another search space, which are fixed when a run "
            f"begins. {_difference(wanted, stored)} Continue it as it was begun, extend it when it is complete "
            "(docs/optuna.md), or give a new study a new name."
        )
    return plan


def check_start(ledger: PrivacyLedger, scope: str, mu: float | None) -> None:
    """Refuse a run that could not begin: with ``mu``, or with what is neither spent nor planned by other runs.

    Raises:
        BudgetExhausted: the ledger has not that much left, or nothing at all.
    """
    try:
        if mu is not None:
            ledger.check(mu)
        _share(ledger.rest(), mu, ledger.budget.mu)
    except BudgetExhausted:
        if ledger.fact(scope, PLAN) is None:  # looked up last: another thread or process may have begun it
            raise


def usual_share(ledger: PrivacyLedger, mu: float | None) -> float:
    """Return the budget a new run would begin with; of a ledger that has none left, the whole one."""
    return mu if mu is not None else ledger.rest().unplanned or ledger.budget.mu


def _share(rest: Rest, mu: float | None, budget: float) -> float:
    if mu is not None or rest.unplanned > 0:
        return rest.unplanned if mu is None else mu
    if rest.left > 0:
        raise BudgetPlanned(rest.left, budget, rest.holders)
    raise BudgetExhausted(budget, 0.0, budget)


def _warn_if_planned(rest: Rest, scope: str, mu: float) -> None:
    """Say so if a new run takes what other runs count on. (1e-9: rounding in a sum of shares.)"""
    if rest.holders and mu > rest.unplanned * (1 + 1e-9):
        names = ", ".join(map(repr, rest.holders))
        warnings.warn(
            f"the run {scope!r} begins with mu={mu:.4g}, of which other runs ({names}) have planned a part: they may "
            "end early, or without their final estimate.",
            stacklevel=2,
        )


def _agree_on_people(privatizer: LossPrivatizer, scope: str) -> None:
    """Fix the run's clipping range, people, precision and kind of noise in the ledger, or refuse others.

    The groups are not in the ledger: who belongs to whom may be private.

    Raises:
        BudgetMismatch: the run was begun with others: its values would not be values of one function.
    """
    wanted, ledger = privatizer.describe(), privatizer.ledger
    fixed = ledger.fact(scope, PRIVATIZER) or ledger.fix(scope, PRIVATIZER, wanted)
    begun = fixed if isinstance(fixed, dict) else {}
    other = sorted(name for name in wanted if begun.get(name) != wanted[name])
    if other:
        raise BudgetMismatch(
            f"the run {scope!r} was begun with another privatizer (other {', '.join(other)}); continue it with the "
            "same one, or give a new run a new name."
        )


def stored_plan(ledger: PrivacyLedger, scope: str) -> dict[str, Any] | None:
    """Return the plan that was fixed when the run began, as plain JSON data, or None if it has not begun."""
    plan = ledger.fact(scope, PLAN)
    return plan if isinstance(plan, dict) else None


def stored_space(ledger: PrivacyLedger, scope: str) -> Space | None:
    """Return the search space that was fixed when the run began, or None if it has not begun or has none."""
    plan = stored_plan(ledger, scope) or {}
    return Space.from_description(plan["space"]) if plan.get("space") else None


def described(plan: Plan, space: Space | None, start_from: Mapping[str, Any] | None) -> object:
    """Return the plan with its space and start, as the ledger keeps it."""
    start = {} if start_from is None else {"start_from": start_from}
    facts = {**plan.describe(), "space": None if space is None else space.describe(), **start}
    return json.loads(json.dumps(facts))


def _difference(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Say what differs, the trials and mu with their numbers."""

    def other(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
        return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))

    told = {name: name for name in other(wanted, stored)}
    told |= {name: f"{name} (it has {stored[name]:.6g})" for name in ("trials", "mu") if name in told}
    if "settings" in told:
        told["settings"] = f"settings ({', '.join(other(wanted['settings'], stored.get('settings', {})))})"
    return f"Other: {', '.join(told.values())}."


def _as_found(start_from: Mapping[str, Any] | None, stored: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The same start, with the charges that the first process found."""
    return None if start_from is None else {**start_from, "last": (stored.get("start_from") or start_from)["last"]}
