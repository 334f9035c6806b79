"""What every private run has: a scope in the ledger, a plan fixed once, values, and a final estimate."""

from __future__ import annotations

import hashlib
import json
import secrets
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy.typing as npt
from scipy.special import ndtri

from dptune.accounting.ledger import PLAN, Limit, PrivacyLedger, Rest
from dptune.errors import BudgetExhausted, BudgetMismatch, BudgetPlanned, InputError, KeyConflict, PlanComplete
from dptune.privacy.private import PerExampleLosses
from dptune.privacy.privatizer import LossPrivatizer
from dptune.space import Space, Value

Losses = PerExampleLosses | npt.ArrayLike
VALUE, FINAL, PRIVATIZER = "value/", "final", "privatizer"


class Plan(Protocol):
    """How a run spends its budget."""

    @property
    def trials(self) -> int:
        """Number of trials of a complete run."""
        ...

    @property
    def spare(self) -> int:
        """Trials beyond the plan that may still get a value."""
        ...

    @property
    def monitor_mu(self) -> float:
        """GDP price of one trial's value; 0 withholds values."""
        ...

    @property
    def final_mu(self) -> float:
        """GDP price of the final estimate; 0 if there is none."""
        ...

    def describe(self) -> dict[str, object]:
        """Return plain JSON data with the keys "mu" and "seed"."""
        ...


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class Estimate:
    """A released mean clipped loss and its privacy noise.

    Attributes:
        value: released mean clipped loss, in units of the loss.
        sigma: standard deviation of the privacy noise, same units.
        private: False if the noise was seeded.
    """

    value: float
    sigma: float
    private: bool

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds these people's mean clipped loss with the given confidence.

        It covers the privacy noise only; how far these people are from a population is not in it.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie between 0 and 1; got {confidence!r}.")
        half = float(-ndtri((1 - confidence) / 2)) * self.sigma
        return self.value - half, self.value + half

    def __str__(self) -> str:
        low, high = self.interval()
        seeded = "" if self.private else " NOT PRIVATE"
        return f"{self.value:.4g} (95% interval of the privacy noise: {low:.4g} to {high:.4g}){seeded}"


class Run:
    """The part of a run that does not depend on the algorithm.

    Args:
        privatizer: holds the losses and pays.
        scope: the run's name in the ledger.
        plan: agreed on with :func:`agree_on_plan`.
    """

    def __init__(self, privatizer: LossPrivatizer, scope: str, plan: Plan) -> None:
        self.privatizer, self.ledger, self.scope = privatizer, privatizer.ledger, scope
        self._plan = plan

    def check(self, trial: str, parameters: Mapping[str, Value] | None = None) -> None:
        """Refuse, before a model is trained, a trial whose next release could not be paid.

        Args:
            trial: its name.
            parameters: where it will be evaluated, if that is known by now.

        Raises:
            PlanComplete: the run has made all its releases.
            BudgetExhausted: the ledger is spent, by this run or by others.
            KeyConflict: the trial has its value at other parameters.
            InputError: the trial has the name of the final estimate.
        """
        _refuse_name(trial)
        plan = self._plan
        recorded = self.recorded_parameters(trial)
        if recorded is not None:
            if parameters is not None and plain(parameters) != recorded:
                raise self.other_parameters(trial)
            return
        if self.complete or self.ledger.count(self.scope, prefix=VALUE) >= plan.trials + plan.spare:
            raise PlanComplete(
                f"the run {self.scope!r} has used up the trials it planned ({plan.trials}); nothing was read or spent. "
                "Read its recommendation, or start another study with a mu= of its own."
            )
        price = self._next_price()
        if price > 0:
            self.ledger.check(price)

    def _next_price(self) -> float:
        """GDP price of everything up to the run's next use of a trial's losses: here its value."""
        return self._plan.monitor_mu

    def recorded_parameters(self, trial: str) -> Mapping[str, object] | None:
        """Return where the trial was evaluated, as plain JSON data, or None if it has no release of its own yet."""
        charge = self.ledger.find(self.scope, VALUE + trial)
        return None if charge is None else charge.note["parameters"]

    def other_parameters(self, trial: str) -> KeyConflict:
        """Return the refusal of a trial that comes again at other parameters."""
        return KeyConflict(
            f"the trial {trial!r} of the run {self.scope!r} has a released value at other parameters; nothing was "
            "trained or spent. If the study was begun again, continue it from its storage (storage=, study_name=, "
            "load_if_exists=True), or give a new study a new name."
        )

    @property
    def complete(self) -> bool:
        """Whether the run has nothing left to release for trials."""
        return False

    def released(self, trial: str, value: float) -> bool:
        """Tell whether ``value`` is what the run released for the trial (or the constant of withheld values)."""
        if self._plan.monitor_mu == 0:
            return value == 0.0
        charge = self.ledger.find(self.scope, VALUE + trial)
        return charge is not None and charge.value == (value,)

    def take(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> str:
        """Hand a trial's losses to the privatizer; return a name that no other run or other parameters share.

        Raises:
            InputError: the trial has the name of the final estimate, or the losses have the wrong shape or dtype.
        """
        _refuse_name(trial)
        return self._observe(trial, parameters, losses)

    def _observe(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> str:
        where = hashlib.sha256(json.dumps(dict(parameters), sort_keys=True, default=str).encode()).hexdigest()[:12]
        point = json.dumps([self.scope, trial, where])
        if losses is None:
            self.privatizer.observe_failure(point)
        else:
            self.privatizer.observe(point, losses)
        return point

    def release_value(self, key: str, point: str, parameters: Mapping[str, Value], mu: float) -> Estimate:
        """Release the mean clipped loss of a point under ``key``."""
        query = self.privatizer.mean_query(point, mu)
        note = {"parameters": plain(parameters)}
        limit = Limit(VALUE, self._plan.trials + self._plan.spare) if key.startswith(VALUE) else None
        released = self.privatizer.release(query, scope=self.scope, key=key, note=note, limit=limit)
        return Estimate(released.scalar, released.sigma, released.charge.private)

    def check_estimate(self, parameters: Mapping[str, Value]) -> None:
        """Refuse, before a model is trained, a final estimate that could not be paid or was made elsewhere.

        Raises:
            InputError: the plan has no final estimate.
            BudgetExhausted: it does not fit.
            KeyConflict: it was made at other parameters.
        """
        if self._plan.final_mu == 0:
            raise InputError("this run was planned with final_share=0; there is no budget for a final estimate.")
        made = self.ledger.find(self.scope, FINAL)
        if made is None:
            self.ledger.check(self._plan.final_mu)
        elif made.note["parameters"] != plain(parameters):
            raise KeyConflict(
                f"the run {self.scope!r} has its one final estimate, at {made.note['parameters']}; nothing was trained "
                "or spent. Ask for it there, as often as you like; the loss at other parameters would be a release "
                "that the run did not plan."
            )

    def estimate(self, parameters: Mapping[str, Value], losses: Losses | None) -> Estimate:
        """Release the mean clipped loss at the recommended parameters, once per run.

        Raises:
            InputError: the plan has no final estimate, or the losses have the wrong shape.
            KeyConflict: the run's final estimate was made at other parameters.
        """
        self.check_estimate(parameters)
        point = self._observe(FINAL, parameters, losses)
        try:
            return self.release_value(FINAL, point, parameters, self._plan.final_mu)
        finally:
            self.privatizer.forget(point)


def _refuse_name(trial: str) -> None:
    if trial == FINAL:
        raise InputError(f"{FINAL!r} is the name of a run's final estimate; give the trial another name.")


def plain(parameters: Mapping[str, Value]) -> Mapping[str, object]:
    """Return parameters as the JSON data that a ledger keeps of them."""
    kept: dict[str, object] = json.loads(json.dumps(dict(parameters), default=str))
    return kept


def agree_on_plan(
    privatizer: LossPrivatizer,
    scope: str,
    *,
    make_plan: Callable[[float, int], P],
    mu: float | None,
    seed: int | None,
    space: Space | None = None,
) -> P:
    """Return the scope's plan: this process's if it is the first, else the stored one, if it is the same.

    Args:
        privatizer: of the run, for good; its ledger keeps the plan.
        scope: the run's name.
        make_plan: (mu, seed) -> plan.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; default drawn when the run begins.
        space: the search space, stored with the plan.

    Raises:
        BudgetMismatch: an earlier process planned this scope differently, or with another privatizer.
        BudgetExhausted: the ledger has not that much left for a new run.
    """
    ledger, budget = privatizer.ledger, privatizer.ledger.budget.mu
    drawn = secrets.randbits(32) if seed is None else seed

    def begin(rest: Rest) -> object:
        share = _share(rest, mu, budget)
        try:
            return _describe(make_plan(share, drawn), space)
        except InputError:
            if mu is None and rest.holders:
                make_plan(budget, drawn)  # raises what is wrong with the settings, if it is they
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
    _agree_on_privatizer(privatizer, scope)
    plan = make_plan(stored["mu"] if mu is None else mu, stored["seed"] if seed is None else seed)
    if _describe(plan, space) != stored:
        raise BudgetMismatch(
            f"the run {scope!r} was planned with other settings or another search space; they are fixed when a run "
            "begins. Continue it as it was begun, or give a new study a new name."
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


def _agree_on_privatizer(privatizer: LossPrivatizer, scope: str) -> None:
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


def stored_space(ledger: PrivacyLedger, scope: str) -> Space | None:
    """Return the search space that was fixed when the run began, or None if it has not begun or has none."""
    plan = ledger.fact(scope, PLAN)
    return Space.from_description(plan["space"]) if isinstance(plan, dict) and plan.get("space") else None


def _describe(plan: Plan, space: Space | None) -> object:
    described = {**plan.describe(), "space": None if space is None else space.describe()}
    return json.loads(json.dumps(described))
