"""More trials and more budget for a run, when it is complete.

A run keeps its plan for good. What extends it is another run that starts from all of its answers
(:mod:`dptune.search.earlier`), with the trials that are added, and the GDP budget that composes with the run's own to
what it is given in all: ``mu_added^2 = mu_in_all^2 - mu^2``. Its plan is fixed in the ledger before anything of it is
spent; its name is the run's with ", extended", so that every process and every restart finds it. ::

    run = run.extend(trials=40, mu=1.0)     # 20 trials and mu=.7 so far
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dptune._checks import at_least, positive
from dptune.errors import InputError
from dptune.search.agreement import stored_plan
from dptune.search.earlier import Earlier, line_of

if TYPE_CHECKING:
    from dptune.accounting.ledger import PrivacyLedger
    from dptune.search.run import SearchRun


def totals(ledger: PrivacyLedger, scope: str) -> tuple[int, float]:
    """Return how many trials the run and those that it extends have planned, and their GDP budget."""
    trials, squares = 0, 0.0
    for name in parts(ledger, scope):
        plan = stored_plan(ledger, name) or {}
        trials, squares = trials + int(plan["trials"]), squares + float(plan["mu"]) ** 2
    return trials, math.sqrt(squares)


def parts(ledger: PrivacyLedger, scope: str) -> list[str]:
    """Return the names of the run and of those that it extends, the newest first."""
    names = [scope]
    while (earlier := Earlier.of(ledger, names[-1])) is not None and earlier.in_all is not None:
        names.append(earlier.scope)
    return names


def name_of_extension(scope: str) -> str:
    """Return the name of the run that extends this one."""
    return f"{scope}, extended"


def extended(run: SearchRun, *, trials: int, mu: float | None) -> SearchRun:
    """Return the run that goes on from this one; :meth:`dptune.search.run.SearchRun.extend` says what it is."""
    wanted = {"trials": at_least("trials", trials, 1), "mu": None if mu is None else positive("mu", mu)}
    run = newest(run)
    if wanted not in _asked(run):
        _refuse(run, trials, mu)
        run = _grown(run, wanted)
    return run


def newest_name(ledger: PrivacyLedger, scope: str) -> str:
    """Return the name of what the run of this name was extended to by now: its own, if it was not."""
    while _asked_of(ledger, name_of_extension(scope)) is not None:
        scope = name_of_extension(scope)
    return scope


def newest(run: SearchRun) -> SearchRun:
    """Return what the run was extended to by now, by whatever process: itself, if it was not."""
    while (wanted := _asked_of(run.ledger, name_of_extension(run.scope))) is not None:
        run = _grown(run, wanted)
    return run


def _asked_of(ledger: PrivacyLedger, scope: str) -> Mapping[str, Any] | None:
    earlier = Earlier.of(ledger, scope)
    return None if earlier is None else earlier.in_all


def _asked(run: SearchRun) -> list[Mapping[str, Any] | None]:
    """What the run and those that it extends were extended to, as users gave it."""
    return [_asked_of(run.ledger, name) for name in line_of(run.ledger, run.scope)]


def _grown(run: SearchRun, wanted: Mapping[str, Any]) -> SearchRun:
    had, spent = totals(run.ledger, run.scope)
    settings = {**run._settings, "trials": wanted["trials"] - had}
    mu = None if wanted["mu"] is None else _beside(wanted["mu"], spent)
    grown = type(run)(
        run.method,
        run.privatizer,
        scope=name_of_extension(run.scope),
        space=run._began,
        mu=mu,
        seed=run.plan.settings.seed,
        default=run.default,
        start_from=run.scope,
        in_all=wanted,
        **settings,
    )
    grown._told = run._told  # of trials that are under way
    return grown


def _beside(whole: float, spent: float) -> float:
    """The GDP budget that composes with ``spent`` to ``whole``."""
    return math.sqrt(whole**2 - spent**2)


def _refuse(run: SearchRun, trials: int, mu: float | None) -> None:
    had, spent = totals(run.ledger, run.scope)
    if trials <= had or (mu is not None and mu <= spent):
        given = "" if mu is None else f" and mu={mu:.4g}"
        raise InputError(
            f"trials={trials}{given} are what the run {run.scope!r} is to have in all, and it has {had} trials and "
            f"mu={spent:.4g}; give more of both."
        )
    if not run.complete:
        raise InputError(
            f"the run {run.scope!r} is not complete, and only then it can be extended. Let it make the {had} trials "
            "that it planned, or begin a new run that starts from it (start_from=)."
        )
