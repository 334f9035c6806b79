"""The privacy statement of a budget in GDP: what is promised, to whom, and what is not covered."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dptune._numbers import finite, rounded_up
from dptune._statement import NOTHING, Rows, Statement, counted, large_delta
from dptune.errors import LedgerError
from dptune.ledger import approximate
from dptune.ledger.approximate import Limits
from dptune.ledger.filter import Divisions, GdpFilter
from dptune.ledger.gdp import Budget, Spent

NOT_COVERED = (
    "a function that lets one record change another person's loss, the number of losses, or whether it raises",
    "a person with several rows, unless groups= was given",
    "a search space, clip or settings that were chosen by looking at the data",
    "timing, memory use and other side channels",
    "releases about the same people that this ledger did not see",
)
TRAIN = "the {}public rows and all rows that train, unless a training ledger protects them (docs/training.md)"
RAISED = (
    "The guarantee is that of the present budget, for all releases, if no released value could have led to a larger one"
)
TRAINED = (
    "The people who are trained on are NOT protected by this ledger but by a plan of trainings, under removing one "
    "person (add-or-remove) and not replace-one: join both, as `dptune statement train.db val.db` does, with "
    "--disjoint if nobody is in both. What a training raises is sealed. Assumed: how long it takes, which front ends "
    "record, says nothing about one person"
)
PLACES = (
    "the people are at {} places, of which each added over its own; the trusted process read these sums without noise, "
    "and no rows. Assumed: nobody is at two of them (who is at k places has k times mu)"
)
ACCOUNTANT = (
    "Gaussian differential privacy (Dong, Roth, Su 2022); adaptive composition mu^2 = sum of mu_t^2 with a "
    "filter {} (Smith & Thakurta, arXiv 2210.17520)"
)
_ROUNDING = 1e-12  # relative, of mu; the filter forgives half of it


def opendp_noise(facts: Mapping[str, Any]) -> str:
    """Return in words how noise is drawn, from a ledger's facts."""
    number = facts["versions"].get("opendp", "of an unknown version")
    unseeded = f"OpenDP {number}, discrete, unseeded, on a grid (no floating-point noise)"
    return unseeded if facts["private"] else "A SEEDED GENERATOR"


@dataclass(frozen=True, kw_only=True)
class BudgetStatement(Statement):
    """The statement of a budget in GDP.

    Attributes:
        budget: the budget as created or raised.
        exposure: the limits of mu, and of a choice if a budget in (epsilon, delta) has one; before the first charge,
            the divisions of such a budget.
        spent_mu: odometer reading.
        spent_epsilon: the same at ``delta``.
        failures: number of failed evaluations; public, and free of privacy loss if no record influences them.
        public: pairs (quantity, run) that trials show without a release; only the user says that they are public.
        trained: runs that also train on private people, according to the user.
        raises: when the budget was raised, from what to what, as plain JSON data.
    """

    budget: Budget
    exposure: Limits | Divisions
    spent_mu: float
    spent_epsilon: float
    failures: int
    public: tuple[tuple[str, str], ...]
    trained: tuple[str, ...]
    raises: tuple[Mapping[str, Any], ...]


def budget_statement(
    facts: Mapping[str, Any],
    filter: GdpFilter,
    spent: Spent,
    *,
    failures: int,
    public: tuple[tuple[str, str], ...],
    trained: tuple[str, ...],
    raises: tuple[Mapping[str, Any], ...],
    training_rows: int | None = None,
    places: int = 0,
) -> BudgetStatement:
    """Return the statement of a budget from its ledger's contents.

    Args:
        facts: the first fields of a :class:`dptune.Statement`, and delta.
        training_rows: number of rows that train, if every choice has recorded the same.
        places: number of places that answered, if not all people were in one process.
    """
    spent_mu = spent.mu
    cost = Limits.of(spent)
    budget, limits, exposure = filter.budget, filter.limits, filter.exposure
    if any(getattr(cost, name) > getattr(limits, name) * (1 + _ROUNDING) for name in ("mu", "eta", "pure")):
        raise LedgerError(
            f"the ledger of {facts['dataset']!r} was changed from outside: its charges are mu = {spent_mu!r} in "
            f"all, more than its budget of mu = {limits.gdp!r}. No guarantee holds."
        )
    private, delta = facts["private"], facts["delta"]
    epsilon = exposure.epsilon(delta) if private else math.inf
    undivided, mu = filter.undivided, exposure.gdp
    spent_epsilon = _spent_epsilon(spent, delta, private)
    stated, promised = _stated(budget, spent, private)
    releases = sum(count for _, count in facts["mechanisms"])
    unprotected = _unprotected(public, trained)
    seeded = "NOT PRIVATE: noise was drawn from a seeded generator (SeededNoise); epsilon = infinity."
    return BudgetStatement(
        **facts,
        budget=budget,
        exposure=exposure,
        curve=exposure,
        spent_mu=spent_mu,
        spent_epsilon=spent_epsilon,
        failures=failures,
        public=public,
        trained=trained,
        raises=raises,
        epsilon=epsilon,
        accountant=_accountant(limits, undivided=undivided, raised=bool(raises)),
        noise=opendp_noise(facts),
        not_protected=TRAIN.format("" if training_rows is None else f"{training_rows} "),
        not_covered=NOT_COVERED,
        warnings=((seeded,) if not private else ()) + large_delta(max(delta, budget.stated_delta or 0.0), facts["n"]),
        guarantee=(
            *promised,
            ("Guarantee", _cost(mu, epsilon, facts, sharper=undivided or limits.divided)),
            ("Spent so far", f"{_cost(spent_mu, spent_epsilon, facts, sharper=cost.divided)} in {counted(releases)}"),
            *_divided(filter, raised=bool(raises)),
        ),
        numbers={
            "failed_evaluations": failures,
            "private_trainings": list(trained),
            "declared_public": [{"quantity": quantity, "run": run} for quantity, run in public],
            "stated": stated,
            "raises": list(raises),
            "budget": {"mu": mu if private else "infinity", "epsilon": finite(epsilon)},
            **({"limits": {"mu": limits.mu, "eta_of_choices": limits.eta}} if limits.eta else {}),
            **({"limits": {"mu": limits.mu, "pure_epsilon": limits.pure}} if limits.pure else {}),
            "spent": {"mu": spent_mu if private else "infinity", "epsilon": finite(spent_epsilon)},
        },
        unprotected=unprotected,
        remarks=(*_remarks(raises, failures, places), *unprotected),
    )


def _spent_epsilon(spent: Spent, delta: float, private: bool) -> float:
    return Limits.of(spent).epsilon(delta) if private else math.inf


def _cost(mu: float, epsilon: float, facts: Mapping[str, Any], *, sharper: bool) -> str:
    if not facts["private"]:
        return NOTHING
    delta = rounded_up(facts["delta"], 6)
    word = "and, more sharply," if sharper else "that is"
    return f"mu = {rounded_up(mu)} GDP, {word} epsilon = {rounded_up(epsilon)} at delta = {delta}"


def _accountant(limits: Limits, *, undivided: bool, raised: bool) -> str:
    gdp = ACCOUNTANT.format("that was raised after it was fixed" if raised else "fixed in advance")
    sharper = [approximate.ACCOUNTANT] * (undivided or limits.eta > 0)
    if undivided or limits.pure > 0:
        beside = ", times one Gaussian of all others (Zhu, Dong & Wang 2022)" * (limits.mu > 0 and not undivided)
        sharper.append(approximate.PURE_ACCOUNTANT + beside)
    return f"{gdp}; for epsilon {'; or '.join(sharper)}" if sharper else gdp


def _divided(filter: GdpFilter, *, raised: bool) -> Rows:
    """Return how a budget in (epsilon, delta) is divided, if it is."""
    when = "before the first release, and raised since then" if raised else "before the first release"
    if filter.undivided:
        words = "nothing is released yet; the first charge divides the budget, and the figures hold for every division"
        return (("Undivided", words),)
    limits = filter.limits
    if limits.pure > 0:
        parts = f"epsilon = {rounded_up(limits.pure)} at delta = 0 for the releases of the run {filter.holder!r}"
        beside = f", mu = {rounded_up(limits.mu)} for everything else" if limits.mu > 0 else ", nothing for others"
        return (("Divided", f"{when}: {parts}{beside}"),)
    if limits.eta == 0:
        return ()
    parts = f"bounded range {rounded_up(limits.eta)} for the choice of the run {filter.holder!r}"
    return (("Divided", f"{when}: {parts}, mu = {rounded_up(limits.mu)} for everything else"),)


def _stated(budget: Budget, spent_so_far: Spent, private: bool) -> tuple[dict[str, object] | None, Rows]:
    """Return a stated (epsilon, delta) and its spent part, as JSON and as a row."""
    epsilon, delta = budget.stated_epsilon, budget.stated_delta
    if epsilon is None or delta is None:
        return None, ()
    spent = _spent_epsilon(spent_so_far, delta, private)
    numbers: dict[str, object] = {
        "epsilon": finite(epsilon if private else math.inf),
        "delta": delta,
        "spent_epsilon": finite(spent),
    }
    promised = (
        f"epsilon = {rounded_up(epsilon, 6)} at delta = {rounded_up(delta, 6)}, as the budget was stated; "
        f"spent so far: epsilon = {rounded_up(spent)} at that delta"
    )
    return numbers, (("Promised", promised if private else NOTHING),)


def _unprotected(public: tuple[tuple[str, str], ...], trained: tuple[str, ...]) -> Rows:
    """Return rows on whom runs train on and what trials show without a release."""
    shown = "; ".join(f"{quantity} (run {run!r})" for quantity, run in public)
    word = f"by the user's word alone, shown by trials without a release: {shown}"
    training = f"private, in the runs {', '.join(map(repr, trained))}. {TRAINED}"
    return (*[("Training", training)] * bool(trained), *[("Public", word)] * bool(public))


def _remarks(raises: tuple[Mapping[str, Any], ...], failures: int, places: int) -> Rows:
    acts = "; ".join(
        f"from {_as_stated(Budget(**each['from']))} at {_second(each['at'])}, after {counted(each['releases'])}"
        for each in raises
    )
    failed = f"{failures} evaluation{'s' * (failures > 1)} failed, for everybody"
    return (
        *[("Raised", f"{acts}. {RAISED}")] * bool(acts),
        *[("Failures", failed)] * bool(failures),
        *[("Places", PLACES.format(places))] * bool(places),
    )


def _as_stated(budget: Budget) -> str:
    if budget.stated_epsilon is None or budget.stated_delta is None:
        return f"mu = {rounded_up(budget.mu)}"
    return f"epsilon = {rounded_up(budget.stated_epsilon, 6)} at delta = {rounded_up(budget.stated_delta, 6)}"


def _second(at: str) -> str:
    return datetime.datetime.fromisoformat(at).isoformat(timespec="seconds")
