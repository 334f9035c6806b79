"""How a search spends its budget: a run that proposes points, another library's sampler, or one choice among all."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import dptune
from dptune.errors import AllTrialsFailed, InputError
from dptune.search import drive
from dptune.search.agreement import check_start, newest_name, parts, stored_plan, usual_share
from dptune.search.names import VALUE
from dptune.search.recommendation import Recommendation
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune.search.values import VALUES
from dptune.selection.methods import lead
from dptune_sklearn.fitting import Failed, Models, usable
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
class Asked:
    """What a user asks of a search."""

    distributions: Distributions
    usual: Mapping[str, Any]  # the estimator's own parameters
    n_trials: int | None
    mu: float | None
    seed: int
    settings: Mapping[str, Any]
    name: str
    goes_on: bool  # with a search of fewer trials under this name


class Strategy(Protocol):
    """Spends a budget on models."""

    def __call__(self, asked: Asked, privatizer: dptune.LossPrivatizer, models: Models) -> Found:
        """Search, and return what was found.

        Raises:
            InputError: a setting is not usable, or no model could be trained.
            BudgetExhausted: the ledger has not that much left; before a model is trained.
        """
        ...


def select(asked: Asked, privatizer: dptune.LossPrivatizer, models: Models) -> Found:
    """Train all candidates in parallel, choose one, and pay once."""
    if asked.goes_on:
        raise InputError('a choice is made once, among all candidates: warm_start= cannot go with method="selection".')
    tried: list[dict[str, Any]] = []

    def losses() -> Any:
        for parameters, model in zip(points, models.trained(points), strict=True):
            if not isinstance(model, Failed):  # that it failed is public, so it costs nothing
                tried.append(parameters)
                yield models.losses(model)
        if not tried:
            usable(model)

    points = candidates(asked.distributions, asked.n_trials, asked.seed)
    settings, mu = {"estimate_share": 0.1, **asked.settings}, _mu(asked, privatizer.ledger)
    if (needed := lead(privatizer.n, mu, len(points))) > 1:
        _warn(asked.name, f"the best is found surely only if it leads by {needed:.2g} times the clip's width.", depth=4)
    chosen = dptune.select(losses(), privatizer, mu=mu, name=asked.name, **settings)
    best = tried[chosen.index]
    return Found(Recommendation(best, defaults={}), models.fitted(best), chosen.estimate)


class Run:
    """A run of a method that proposes points, a round at a time; the models of a round are trained in parallel."""

    def __init__(self, method: dptune.algorithms.Method) -> None:
        self._method = method

    def __call__(self, asked: Asked, privatizer: dptune.LossPrivatizer, models: Models) -> Found:
        """Search round by round until the run is complete."""
        where = UserSpace(asked.distributions)
        for run in _runs(asked, self._method, privatizer, where):
            _drive(run, models, where)
        return _ended(run, models, where)


class Sampler:
    """Any Optuna sampler, told the noisy value of each trial."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __call__(self, asked: Asked, privatizer: dptune.LossPrivatizer, models: Models) -> Found:
        """Search trial by trial until all values are released; a search that was stopped goes on with those it has."""
        import optuna
        from optuna.trial import TrialState

        from dptune_optuna.spaces import to_distributions

        where = UserSpace(asked.distributions)
        distributions = to_distributions(where.space)
        study = optuna.create_study(study_name=asked.name, sampler=self._sampler)
        for run in _runs(asked, VALUES, privatizer, where):
            if not study.trials:
                for charge in charges_of(privatizer.ledger, asked.name, prefix=VALUE):
                    known, value = dict(charge.note["parameters"]), charge.value
                    if value is not None:
                        told = optuna.trial.create_trial(params=known, distributions=distributions, value=value[0])
                        study.add_trial(told)
            trials: dict[str, Any] = {}

            def ask(name: str, trials: dict[str, Any] = trials) -> dict[str, Any]:
                trials[name] = study.ask(distributions)
                return dict(trials[name].params)

            def tell(name: str, value: float | None, trials: dict[str, Any] = trials) -> None:
                study.tell(trials.pop(name), value, state=None if value is not None else TrialState.FAIL)

            _drive(run, models, where, ask=ask, tell=tell)
        return _ended(run, models, where)


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


def _mu(asked: Asked, ledger: dptune.PrivacyLedger) -> float:
    """The budget of a choice: given, the one that it was begun with, or what other runs leave."""
    check_start(ledger, asked.name, asked.mu)
    begun = stored_plan(ledger, asked.name)
    return usual_share(ledger, asked.mu) if begun is None or asked.mu is not None else float(begun["mu"])


def _runs(
    asked: Asked, method: dptune.algorithms.Method, privatizer: dptune.LossPrivatizer, where: UserSpace
) -> Iterator[SearchRun]:
    """Yield the run, begun or continued; when it is complete, what extends it, if it is to go on and has fewer trials.

    Noise that leaves a run little to learn is warned of.
    """
    space = None if method is VALUES else where.space
    wanted = _request(asked, method, privatizer, where, asked.n_trials, asked.mu)
    begun = stored_plan(privatizer.ledger, asked.name) if asked.goes_on else None
    first = wanted if begun is None else _request(asked, method, privatizer, where, begun["trials"], begun["mu"])
    first.check_start(asked.name)
    run = first.begin(asked.name, space)
    if warning := first.warning(run):
        _warn(asked.name, warning, depth=5)
    yield run
    planned = wanted.plan(space).trials
    if begun is not None and planned > run.trials:
        yield run.extend(trials=asked.n_trials or planned, mu=asked.mu)


def _request(
    asked: Asked,
    method: dptune.algorithms.Method,
    privatizer: dptune.LossPrivatizer,
    where: UserSpace,
    trials: int | None,
    mu: float | None,
) -> SearchRequest:
    settings = {"trials": trials or (USUAL_TRIALS if method is VALUES else None), **asked.settings}
    usual = where.ours(asked.usual)
    return SearchRequest(method, privatizer, mu, asked.seed, settings, usual, "PrivateSearch", where.space)


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


METHODS: Mapping[str, Strategy] = {"centred": Run(dptune.CENTRED), "dp-gibo": Run(dptune.GIBO), "selection": select}


def strategy(method: Any) -> Strategy:
    """Return how a search with this ``method=`` spends its budget.

    Raises:
        InputError: it is neither a name, nor a method, nor a sampler.
    """
    if isinstance(method, dptune.algorithms.Method):
        return Run(method)
    if hasattr(method, "sample_relative"):
        return Sampler(method)
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"method must be {', '.join(map(repr, METHODS))}, a dptune.algorithms.Method or an Optuna sampler; "
            f"got {method!r}."
        )
    return METHODS[method]
