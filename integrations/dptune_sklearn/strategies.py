"""How a search spends its budget: a run that proposes points, another library's sampler, or one choice among all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dptune
from dptune.algorithms import VALUES
from dptune.errors import AllTrialsFailed, InputError
from dptune.search import drive
from dptune.search.agreement import check_start, newest_name, parts, stored_plan, usual_share
from dptune.search.answer import Recommendation
from dptune.search.fold import VALUE
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune.selection.methods import lead
from dptune_sklearn.models import Failed, Models, usable
from dptune_sklearn.spaces import USUAL_TRIALS, Distributions, UserSpace, candidates


@dataclass(frozen=True)
class Found:
    """What a search ends with; public.

    Attributes:
        best: parameters, as the estimator is given them, and what is known about them.
        model: the estimator, fitted with them.
        loss: released mean clipped loss there, with its interval; None if no budget was kept for it.
    """

    best: Recommendation
    model: Any
    loss: dptune.search.Estimate | None


@dataclass(frozen=True)
class Search:
    """What a user asks of a search, who pays for it, and what trains."""

    distributions: Distributions
    usual: Mapping[str, Any]  # the estimator's own parameters
    n_trials: int | None
    mu: float | None
    seed: int
    settings: Mapping[str, Any]
    name: str
    goes_on: bool  # with a search of fewer trials under this name
    privatizer: dptune.LossPrivatizer
    models: Models


Strategy = Callable[[Search], Found]  # may raise InputError, or BudgetExhausted before a model is trained


def select(search: Search) -> Found:
    """Train all candidates in parallel, choose one, and pay once."""
    if search.goes_on:
        raise InputError('a choice is made once, among all candidates: warm_start= cannot go with method="selection".')
    tried: list[dict[str, Any]] = []

    def losses() -> Any:
        for parameters, model in zip(points, search.models.trained(points), strict=True):
            if not isinstance(model, Failed):  # that it failed is public, so it costs nothing
                tried.append(parameters)
                yield search.models.losses(model)
        if not tried:
            usable(model)

    points = candidates(search.distributions, search.n_trials, search.seed)
    settings, mu = {"estimate_share": 0.1, **search.settings}, _mu(search)
    if (needed := lead(search.privatizer.n, mu, len(points))) > 1:
        why = f"the best is found surely only if it leads by {needed:.2g} times the clip's width."
        _warn(search.name, why, depth=4)
    chosen = dptune.select(losses(), search.privatizer, mu=mu, name=search.name, **settings)
    best = tried[chosen.index]
    return Found(Recommendation(best, defaults={}), search.models.fitted(best), chosen.estimate)


def propose(method: dptune.algorithms.Method, search: Search) -> Found:
    """Search with a method that proposes points, a round at a time; the models of a round are trained in parallel."""
    where = UserSpace(search.distributions)
    for run in _runs(search, method, where):
        _drive(run, search.models, where)
    return _ended(run, search.models, where)


def sample(sampler: Any, search: Search) -> Found:
    """Search with any Optuna sampler, told the noisy value of each trial; one that was stopped goes on with those."""
    import optuna

    from dptune_optuna.spaces import to_distributions

    where, asked = UserSpace(search.distributions), dict[str, Any]()
    distributions = to_distributions(where.space)
    study = optuna.create_study(study_name=search.name, sampler=sampler)

    def ask(name: str) -> dict[str, Any]:
        asked[name] = study.ask(distributions)
        return dict(asked[name].params)

    def tell(name: str, value: float | None) -> None:
        study.tell(asked.pop(name), value, state=None if value is not None else optuna.trial.TrialState.FAIL)

    for run in _runs(search, VALUES, where):
        known = [] if study.trials else charges_of(search.privatizer.ledger, search.name, prefix=VALUE)
        for charge in known:
            if charge.value is not None:
                at = dict(charge.note["parameters"])
                study.add_trial(
                    optuna.trial.create_trial(params=at, distributions=distributions, value=charge.value[0])
                )
        _drive(run, search.models, where, ask=ask, tell=tell)
    return _ended(run, search.models, where)


def _drive(run: SearchRun, models: Models, where: UserSpace, **proposing: Any) -> None:
    """Complete a run; if nothing can be trained, raise what the training raised."""
    failed: list[Failed] = []

    def train(points: Sequence[Mapping[str, Any]]) -> list[dptune.privacy.PerExampleLosses | None]:
        trained = list(models.trained(map(where.user, points)))
        failed.extend(model for model in trained if isinstance(model, Failed))
        return [models.losses(model) for model in trained]

    try:
        drive(run, train, **proposing)
    except AllTrialsFailed:
        if failed:
            usable(failed[0])
        raise


def charges_of(ledger: dptune.PrivacyLedger, name: str, *, prefix: str = "") -> list[Any]:
    """Return the charges of a search and of what extends it, in the ledger's order."""
    scopes = reversed(parts(ledger, newest_name(ledger, name)))
    return [charge for scope in scopes for charge in ledger.charges(scope, prefix=prefix)]


def _mu(search: Search) -> float:
    """The budget of a choice: given, the one that it was begun with, or what other runs leave."""
    ledger = search.privatizer.ledger
    check_start(ledger, search.name, search.mu)
    begun = stored_plan(ledger, search.name)
    return usual_share(ledger, search.mu) if begun is None or search.mu is not None else float(begun["mu"])


def _runs(search: Search, method: dptune.algorithms.Method, where: UserSpace) -> Iterator[SearchRun]:
    """Yield the run, begun or continued; when it is complete, what extends it, if it is to go on and has fewer trials.

    Noise that leaves a run little to learn is warned of.
    """

    def request(trials: int | None, mu: float | None) -> SearchRequest:
        settings = {"trials": trials or (USUAL_TRIALS if method is VALUES else None), **search.settings}
        about = settings, where.ours(search.usual), "PrivateSearch", where.space
        return SearchRequest(method, search.privatizer, mu, search.seed, *about)

    space = None if method is VALUES else where.space
    wanted = request(search.n_trials, search.mu)
    begun = stored_plan(search.privatizer.ledger, search.name) if search.goes_on else None
    first = wanted if begun is None else request(begun["trials"], begun["mu"])
    first.check_start(search.name)
    run = first.begin(search.name, space)
    if warning := first.warning(run):
        _warn(search.name, warning, depth=5)
    yield run
    planned = wanted.plan(space).trials
    if begun is not None and planned > run.trials:
        yield run.extend(trials=search.n_trials or planned, mu=search.mu)


def _warn(name: str, why: str, *, depth: int) -> None:
    """Warn where ``fit`` was called, ``depth`` frames up."""
    warnings.warn(f"The search {name!r} will learn little: {why}", stacklevel=depth)


def _ended(run: SearchRun, models: Models, where: UserSpace) -> Found:
    """Train the recommended model, and release its loss once, beside that of the estimator's own parameters."""
    best = run.recommend()
    model = models.fitted(where.user(best))
    if (loss := run.estimated(best)) is None and run.plan.final_mu > 0:
        usual = None if run.default is None else models.losses(models.fitted(where.user(run.default)))
        loss = run.estimate(best, models.losses(model), default=usual)
        if (told := run.recommend()) != best:  # the estimate says that the defaults are better
            best, model = told, models.fitted(where.user(told))
    defaults = where.user(best.defaults) if best.defaults else {}
    return Found(best.told_as(where.user(best), defaults), model, run.estimated(best) or loss)


METHODS: Mapping[str, Strategy] = {
    "centred": partial(propose, dptune.CENTRED),
    "dp-gibo": partial(propose, dptune.GIBO),
    "selection": select,
}


def strategy(method: Any) -> Strategy:
    """Return how a search with this ``method=`` spends its budget.

    Raises:
        InputError: it is neither a name, nor a method, nor a sampler.
    """
    if isinstance(method, dptune.algorithms.Method):
        return partial(propose, method)
    if hasattr(method, "sample_relative"):
        return partial(sample, method)
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"method must be {', '.join(map(repr, METHODS))}, a dptune.algorithms.Method or an Optuna sampler; "
            f"got {method!r}."
        )
    return METHODS[method]
