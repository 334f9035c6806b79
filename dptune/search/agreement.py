"""What a run agrees on with its ledger before its first charge, for good: its plan, space, people, and its start.

A run may start from the answers that another run about the same people and space has paid for. What a ledger has
released is free to use again: learning it spends nothing (post-processing). Which answers these are is fixed with the
plan, so that restarts and other processes learn the same. ::

    SearchRun(CENTRED, privatizer, scope="svm", space=space, mu=0.7, trials=20)
    SearchRun(CENTRED, privatizer, scope="svm again", space=space, mu=0.5, trials=40, start_from="svm")

A run that *extends* another is such a run, with a name made from the other's, and the GDP budget that composes with
the other's to what both are given in all: mu_added^2 = mu_in_all^2 - mu^2.
"""

from __future__ import annotations

import json
import math
import secrets
import warnings
from collections.abc import Mapping
from typing import Any

from dptune._checks import at_least, positive
from dptune.errors import BudgetMismatch, BudgetPlanned, InputError
from dptune.ledger.filter import Allowance
from dptune.ledger.ledger import PLAN, Charge, PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer
from dptune.results.start import check_start, share_of
from dptune.search.algorithms.method import Method, RunPlan
from dptune.space import Space, Value

PRIVATIZER = "privatizer"  # the fact of a scope that says what its losses are


def agree_on_plan(
    method: Method,
    privatizer: LossPrivatizer,
    scope: str,
    space: Space | None,
    *,
    mu: float | None,
    seed: int | None,
    default: Mapping[str, Value] | None,
    start_from: str | None,
    in_all: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> RunPlan:
    """Return the scope's plan, for :class:`SearchRun`: this process's if it is the first, else the stored one."""
    refuse_outside(default, space)
    ledger, budget = privatizer.ledger, privatizer.ledger.budget.mu
    drawn = secrets.randbits(32) if seed is None else seed
    start = None if start_from is None else _starting_from(method, privatizer, start_from, space, in_all)
    parent = None if start_from is None else stored_plan(ledger, start_from)

    def make_plan(mu: float, seed: int) -> RunPlan:
        return method.plan(privatizer, space, mu=mu, seed=seed, default=default, parent=parent, **settings)

    def begin(rest: Allowance) -> object:
        share = share_of(rest, mu, budget, choice_share=0.0 if rest.unplanned else 1.0)
        try:
            plan = make_plan(share, drawn)
            if mu is None and rest.divides:
                larger = make_plan(share_of(rest, mu, budget, plan.choice_share), drawn)
                plan = larger if larger.choice_share == plan.choice_share else plan
            return described(plan, space, start)
        except InputError:
            if mu is None and rest.holders:
                make_plan(budget, drawn)  # raises what is wrong with the settings, if it is they
                raise BudgetPlanned(rest.left, budget, rest.holders) from None
            raise

    stored = ledger.fact(scope, PLAN)
    if stored is None:
        if mu is not None:
            check_start(ledger, scope, mu, choice_share=make_plan(mu, drawn).choice_share)
            _warn_if_planned(ledger.allowance(), scope, mu)
        stored = ledger.fix_plan(scope, begin)
    if not isinstance(stored, dict) or "seed" not in stored:
        raise BudgetMismatch(
            f"the name {scope!r} belongs to a choice or another release, not to a run. Give the run another name."
        )
    _agree_on_people(privatizer, scope)
    drawn = stored["seed"] if seed is None else seed
    plan = make_plan(stored["mu"] if mu is None else mu, drawn)
    if start is not None:  # with the charges that the first process found
        start = {**start, "last": (stored.get("start_from") or start)["last"]}
    wanted: Any = described(plan, space, start)
    if wanted != stored:
        raise BudgetMismatch(
            f"the run {scope!r} was planned with other settings or another search space, which are fixed when a run "
            f"begins. {_difference(wanted, stored)} Continue it with its own settings, extend it when it is complete "
            "(docs/resume.md), or give a new run a new name."
        )
    return plan


def refuse_outside(default: Mapping[str, Any] | None, space: Space | None) -> None:
    """Refuse a default configuration that is no point of the search space, as far as that is known."""
    if default is not None and space is not None and (wrong := space.validation_error(default)):
        raise InputError(
            f"default= must have every active searched parameter, within its range: {wrong}. Omit default= to "
            "compare with the centre of the search space."
        )


def _warn_if_planned(rest: Allowance, scope: str, mu: float) -> None:
    """Say so if a new run takes what other runs count on. (1e-9: rounding in a sum of shares.)"""
    if rest.holders and mu > rest.unplanned * (1 + 1e-9):
        names = ", ".join(map(repr, rest.holders))
        warnings.warn(
            f"the run {scope!r} starts with mu={mu:.4g}. Other runs ({names}) have planned a part of it: they may "
            "end early, or without their final estimate.",
            stacklevel=2,
        )


def warn_if_lost(ledger: PrivacyLedger, scope: str, plan: RunPlan) -> bool:
    """Say so if the run has planned more than GDP allows, and the ledger is not divided as it has planned."""
    if plan.choice_share == 0 or ledger.filter.holder == scope or plan.mu <= ledger.filter.limits.mu * (1 + 1e-9):
        return False
    filter = ledger.filter_for(scope)
    if filter.holder == scope:
        return False
    other = f"of the run {filter.holder!r}" if filter.holder else "of a release without a choice"
    warnings.warn(
        f"the run {scope!r} has planned mu={plan.mu:.4g} and counts on the ledger's reserve for choices, but the "
        f"charge {other} came first and took it. The run may end early, without its choice, or "
        "without its final estimate. A new run under another name is planned with what is left.",
        stacklevel=3,
    )
    return True


def _agree_on_people(privatizer: LossPrivatizer, scope: str) -> None:
    """Fix the run's clipping range, people, precision and kind of noise in the ledger; others make another function.

    The groups are not in the ledger: who belongs to whom may be private.
    """
    wanted = privatizer.describe()
    ledger = privatizer.ledger
    fixed = ledger.fact(scope, PRIVATIZER) or ledger.fix(scope, PRIVATIZER, wanted)
    begun = fixed if isinstance(fixed, dict) else {}
    other = sorted(name for name in wanted if begun.get(name) != wanted[name])
    if other:
        raise BudgetMismatch(
            f"the run {scope!r} was started with another privatizer (other {', '.join(other)}); continue it with the "
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


def described(plan: RunPlan, space: Space | None, start: Mapping[str, Any] | None) -> object:
    """Return the plan with its space and start, as the ledger keeps it."""
    facts = {**plan.describe(), "space": None if space is None else space.describe()}
    return json.loads(json.dumps(facts if start is None else {**facts, "start_from": start}))


def _difference(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Say what differs, the trials and mu with their numbers."""

    def other(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
        return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))

    differences = {name: name for name in other(wanted, stored)}
    differences |= {name: f"{name} (it has {stored[name]:.6g})" for name in ("trials", "mu") if name in differences}
    if "settings" in differences:
        # these are written in the space's code
        of_space = {"d", "steps", "default"} if "space" in differences else set()
        names = [name for name in other(wanted["settings"], stored.get("settings", {})) if name not in of_space]
        differences["settings"] = f"settings ({', '.join(names)})"
        if not names:
            del differences["settings"]
    if "space" in differences:
        differences["space"] = "search space"
    return f"Other: {', '.join(differences.values())}."


# ---- what a run starts from ------------------------------------------------------------------------------------


def _starting_from(
    method: Method, privatizer: LossPrivatizer, scope: str, space: Space | None, in_all: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return what a run that begins now learns from the run ``scope``, as its plan keeps it."""
    ledger = privatizer.ledger
    plan = stored_plan(ledger, scope)
    if plan is None or "algorithm" not in plan:
        raise InputError(f"start_from={scope!r}: the ledger has no run of that name. `dptune show` lists its runs.")
    same = {
        "method": plan["algorithm"] == method.name,
        "search space": stored_space(ledger, scope) == space,
        "privatizer (people, clip or precision)": ledger.fact(scope, PRIVATIZER) == privatizer.describe(),
    }
    other = [name for name, agrees in same.items() if not agrees]
    if other:
        raise InputError(
            f"start_from={scope!r}: that run has another {' and another '.join(other)}, so its answers do not "
            "apply. Omit start_from=, or use what that run has."
        )
    return {"scope": scope, "last": max((c.seq for c in _charges(ledger, scope)), default=0), "in_all": in_all}


def inherited(ledger: PrivacyLedger, scope: str) -> list[Charge]:
    """Return the charges of other runs that this run starts from, in the order of the ledger."""
    start = _start(ledger, scope)
    return [] if start is None else [c for c in _charges(ledger, start["scope"]) if c.seq <= start["last"]]


def lineage(ledger: PrivacyLedger, scope: str, *, extended: bool = False) -> list[str]:
    """Return the names of the run and of those that it goes back to, or only those that it extends, newest first."""
    names = [scope]
    while (start := _start(ledger, names[-1])) is not None and not (extended and start.get("in_all") is None):
        names.append(start["scope"])
    return names


def totals(ledger: PrivacyLedger, scope: str) -> tuple[int, float]:
    """Return how many trials the run and those that it extends have planned, and their GDP budget."""
    trials, squares = 0, 0.0
    for name in lineage(ledger, scope, extended=True):
        plan = stored_plan(ledger, name) or {}
        trials = trials + int(plan["trials"])
        squares = squares + float(plan["mu"]) ** 2
    return trials, math.sqrt(squares)


def asked_in_all(ledger: PrivacyLedger, scope: str) -> Mapping[str, Any] | None:
    """Return ``trials`` and ``mu`` that a run and the one that it extends were given in all; None: it extends none."""
    return (_start(ledger, scope) or {}).get("in_all")


def wanted_in_all(ledger: PrivacyLedger, scope: str, trials: int, mu: float | None) -> dict[str, Any] | None:
    """Return ``trials`` and ``mu`` in all of a run that is to be extended; None: it was extended to them already."""
    wanted = {"trials": at_least("trials", trials, 1), "mu": None if mu is None else positive("mu", mu)}
    if wanted in [asked_in_all(ledger, name) for name in lineage(ledger, scope)]:
        return None
    had, spent = totals(ledger, scope)
    if trials <= had or (mu is not None and mu <= spent):
        price = "" if mu is None else f" and mu={mu:.4g}"
        raise InputError(
            f"trials={trials}{price} must be the totals of the run {scope!r}, which has {had} trials and "
            f"mu={spent:.4g} already; give more of both."
        )
    return wanted


def name_of_extension(scope: str) -> str:
    """Return the name of the run that extends this one."""
    return f"{scope}, extended"


def newest_name(ledger: PrivacyLedger, scope: str) -> str:
    """Return the name of what the run of this name was extended to by now: its own, if it was not."""
    while asked_in_all(ledger, name_of_extension(scope)) is not None:
        scope = name_of_extension(scope)
    return scope


def added_mu(whole: float, spent: float) -> float:
    """Return the GDP budget that composes with ``spent`` to ``whole``."""
    return math.sqrt(whole**2 - spent**2)


def _start(ledger: PrivacyLedger, scope: str) -> Mapping[str, Any] | None:
    return (stored_plan(ledger, scope) or {}).get("start_from")


def _charges(ledger: PrivacyLedger, scope: str) -> list[Charge]:
    charges = [charge for name in lineage(ledger, scope) for charge in ledger.news(name, after=0).charges]
    return sorted(charges, key=lambda charge: charge.seq)
