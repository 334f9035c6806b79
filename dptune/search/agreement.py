"""The plan, the space and the people of a run, fixed in its ledger before the first charge."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Mapping
from typing import Any

from dptune.errors import BudgetMismatch, BudgetPlanned, InputError
from dptune.ledger.filter import Allowance
from dptune.ledger.ledger import PLAN, PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer
from dptune.results import check_start, share_of
from dptune.search.algorithms.method import Method, RunPlan
from dptune.space import Space, Value

PRIVATIZER = "privatizer"  # a scope's fact about its losses


def agree_on_plan(
    method: Method,
    privatizer: LossPrivatizer,
    scope: str,
    space: Space | None,
    *,
    mu: float | None,
    seed: int | None,
    default: Mapping[str, Value] | None,
    settings: Mapping[str, Any],
) -> RunPlan:
    """Return the scope's plan for :class:`SearchRun`: the stored one, or this process's if there is none."""
    refuse_outside(default, space)
    ledger, budget = privatizer.ledger, privatizer.ledger.budget.mu
    drawn = secrets.randbits(32) if seed is None else seed

    def make_plan(mu: float, seed: int) -> RunPlan:
        return method.plan(privatizer, space, mu=mu, seed=seed, default=default, **settings)

    def begin(rest: Allowance) -> object:
        share = share_of(rest, mu, budget, choice_share=0.0)
        try:
            return described(make_plan(share, drawn), space)
        except InputError:
            if mu is None and rest.holders:
                make_plan(budget, drawn)  # raises if the settings are wrong
                raise BudgetPlanned(rest.left, budget, rest.holders) from None
            raise

    stored = ledger.fact(scope, PLAN)
    if stored is None:
        if mu is not None:
            check_start(ledger, scope, mu, choice_share=0.0)
            _warn_if_planned(ledger.allowance(), scope, mu)
        stored = ledger.fix_plan(scope, begin)
    if not isinstance(stored, dict) or "seed" not in stored:
        raise BudgetMismatch(
            f"the name {scope!r} belongs to a choice or another release, not to a run. Give the run another name."
        )
    _agree_on_people(privatizer, scope)
    plan = make_plan(stored["mu"] if mu is None else mu, stored["seed"] if seed is None else seed)
    wanted: Any = described(plan, space)
    if wanted != stored:
        raise BudgetMismatch(
            f"the run {scope!r} was planned with other settings or another search space, which are fixed when a run "
            f"begins. {_difference(wanted, stored)} Continue it with its own settings, or give a new run a new name."
        )
    return plan


def refuse_outside(default: Mapping[str, Any] | None, space: Space | None) -> None:
    """Refuse a default configuration outside the search space, as far as the space is known."""
    if default is not None and space is not None and (wrong := space.validation_error(default)):
        raise InputError(
            f"default= must have every searched parameter, within its range: {wrong}. Omit default= to compare with "
            "the centre of the search space."
        )


def _warn_if_planned(rest: Allowance, scope: str, mu: float) -> None:
    """Warn if a new run uses budget that other runs have planned. (1e-9: rounding in a sum of shares.)"""
    if rest.holders and mu > rest.unplanned * (1 + 1e-9):
        names = ", ".join(map(repr, rest.holders))
        warnings.warn(
            f"the run {scope!r} starts with mu={mu:.4g}. Other runs ({names}) have planned a part of it: they may "
            "end early, or without their final estimate.",
            stacklevel=2,
        )


def _agree_on_people(privatizer: LossPrivatizer, scope: str) -> None:
    """Fix the run's clipping range, people, precision and kind of noise in the ledger; refuse others.

    The groups are not in the ledger: which row belongs to whom may be private.
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


def described(plan: RunPlan, space: Space | None) -> object:
    """Return the plan with its space, in the ledger's form."""
    return json.loads(json.dumps({**plan.describe(), "space": None if space is None else space.describe()}))


def _difference(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Return the differences in words, with numbers for trials and mu."""

    def other(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
        return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))

    differences = {name: name for name in other(wanted, stored)}
    differences |= {name: f"{name} (it has {stored[name]:.6g})" for name in ("trials", "mu") if name in differences}
    if "settings" in differences:
        # these refer to the space's coordinates
        of_space = {"d", "steps", "default"} if "space" in differences else set()
        names = [name for name in other(wanted["settings"], stored.get("settings", {})) if name not in of_space]
        differences["settings"] = f"settings ({', '.join(names)})"
        if not names:
            del differences["settings"]
    if "space" in differences:
        differences["space"] = "search space"
    return f"Other: {', '.join(differences.values())}."
