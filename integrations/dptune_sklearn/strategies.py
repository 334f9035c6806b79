"""How a search spends its budget: a run that proposes points, another library's sampler, or one choice among all."""

from __future__ import annotations

import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import dptune
from dptune.choice.choosing import ChoiceSettings, lead, select_named
from dptune.errors import AllTrialsFailed, BudgetMismatch, InputError
from dptune.losses.named import as_loss
from dptune.results.budget import left_in_words, risk_in_words, share_in_words
from dptune.results.start import check_start, usual_share
from dptune.search import VALUES, drive
from dptune.search.agreement import lineage, newest_name, stored_plan
from dptune.search.answer import Recommendation, RunFacts
from dptune.search.asked_loss import AskedLoss
from dptune.search.replay import VALUE
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune.search.unfinished import FIRST_TRIALS
from dptune_sklearn.digest import of_parameters
from dptune_sklearn.models import Failed, Models, usable
from dptune_sklearn.naming import keep
from dptune_sklearn.settings import SearchSettings
from dptune_sklearn.spaces import USUAL_TRIALS, UserSpace, candidates

_logger = logging.getLogger("dptune_sklearn")


@dataclass(frozen=True)
class SearchResult:
    """What a search ends with; public."""

    best: Recommendation  # parameters as the estimator is given them
    model: Any  # the estimator, fitted with them
    loss: dptune.results.Estimate | None  # released; None if no budget was kept for it
    public: Mapping[str, Any] | None = None  # attributes that scikit-learn's searches have, of the public rows


Strategy = Callable[[SearchSettings, dptune.LossPrivatizer, Models], SearchResult]
# may raise InputError, or BudgetExhausted before a model is trained


def select(search: SearchSettings, privatizer: dptune.LossPrivatizer, models: Models) -> SearchResult:
    """Train all candidates in parallel, choose one, and pay once."""
    if search.warm_start:
        raise InputError('a choice is made once, among all candidates: warm_start= cannot go with method="selection".')

    def named_losses() -> Iterator[tuple[str, Any]]:
        for place, model in chain(begun_fits, fits):
            ended.append(model)
            if not isinstance(model, Failed):  # that it failed is public, so it costs nothing
                tried.append(points[place])
                yield json.dumps([name, place, of_parameters(points[place])]), models.losses(model)
        if len(tried) < 2:
            raise InputError(_fewer_than_two(ended))

    asked: dict[str, Any] = {"estimate_share": 0.1, **(search.settings or {})}
    tried: list[dict[str, Any]] = []
    begun_fits: list[tuple[int, Any]] = []
    ended: list[Any] = []
    if unknown := asked.keys() - {"estimate_share"}:
        raise InputError(f'method="selection" has no setting {", ".join(map(repr, sorted(unknown)))}.')
    keeps = (first := search.default) is not None
    settings = ChoiceSettings(search.mu, 0 if keeps else None, **asked)
    points = candidates(search.space, search.n_trials, search.random_state, first=first)
    if len(points) < 2:
        raise InputError(f"a choice needs at least two candidates; got {len(points)}. One costs nothing.")
    ledger, name = privatizer.ledger, search.name_
    check_start(ledger, name, search.mu)
    begun = stored_plan(ledger, name)
    if begun is not None and not privatizer.knows_clip:
        raise BudgetMismatch(f"the name {name!r} belongs to a search with a clip; give that, or another name.")
    choice = settings.choice_share(privatizer) if begun is None else 0.0
    usual = [models.fitted(parameters) for parameters in points[:keeps]]  # raises what keeps it from being trained
    fits = enumerate(chain(usual, models.trained(points[keeps:])))
    if not privatizer.knows_clip:  # a space whose models cannot be trained pays for none
        while sum(not isinstance(model, Failed) for _, model in begun_fits) < 2:
            if (fit := next(fits, None)) is None:
                raise InputError(_fewer_than_two([model for _, model in begun_fits]))
            begun_fits.append(fit)
    loss = as_loss(search.loss)
    most = None if loss.most == math.inf else loss.most
    privatizer.choose_clip(
        lambda: models.losses(models.fitted(first or {})), loss=loss.name, most=most, mu=search.mu, choice_share=choice
    )
    mu = usual_share(ledger, search.mu, choice_share=choice) if begun is None else float(begun["mu"])
    if (needed := lead(privatizer.n, mu, len(points), default=keeps)) > 1:
        why = f"the best is found surely only if it leads by {needed:.2g} times the clip's width."
        _warn(name, why, depth=5)
    limits = ledger.filter_for(name, plan={"mu": mu, "shares": {"choice": choice}}).limits
    share = share_in_words(ledger.budget, limits, mu)
    clip = privatizer.interval
    shows = _shown_by_a_choice(privatizer, mu, needed, settings.estimate_share)
    said = [
        f"Plan: the search {name!r} makes one choice among {len(points)} models.",
        f"Spends: {share}. Each loss is clipped to ({clip.low:g}, {clip.high:.4g}).",
        f"Shows: {shows}",
        risk_in_words(privatizer),
        "Stop: now, and nothing is charged. A rerun under the same name resumes; a recorded answer is free.",
    ]
    announce(search, privatizer, "\n".join(filter(None, said)))
    chosen = select_named(named_losses(), privatizer, name, settings)
    keep(ledger, name, search._means)
    best = tried[chosen.index]
    recommendation = Recommendation(
        best,
        defaults=first or {},
        reason="a choice without public rows releases no difference of losses",
        remedy='to compare, let public rows propose: leave out cv=None and method="selection".',
        kept=keeps and chosen.index == 0,
        run=RunFacts(
            f"one choice among {len(points)} candidates", privatizer.n, chosen.estimate, left_in_words(ledger)
        ),
    )
    return SearchResult(recommendation, models.fitted(best), chosen.estimate)


def _fewer_than_two(fits: Sequence[Any]) -> str:
    failed = [model for model in fits if isinstance(model, Failed)]
    count = "none was" if len(failed) == len(fits) else "one was"
    return (
        f"a choice needs at least two trained candidates, and of {len(fits)} {count}. Nothing was charged. What the "
        f"first training that failed raised:\n{failed[0].traceback}"
    )


def _shown_by_a_choice(privatizer: dptune.LossPrivatizer, mu: float, needed: float, share: float) -> str:
    """Return which lead a choice finds, and how large the noise of its estimate is."""
    width = privatizer.loss_range
    shown = f"the best model in 95% of runs, if its mean loss is lower than the others' by {needed * width:.3g}."
    if share == 0:
        return shown
    sigma = width / (privatizer.n * mu * math.sqrt(share))
    return f"{shown} The released loss has noise of standard deviation {sigma:.3g}."


def propose(
    method: dptune.search.Method, search: SearchSettings, privatizer: dptune.LossPrivatizer, models: Models
) -> SearchResult:
    """Search with a method that proposes points, a round at a time; the models of a round are trained in parallel."""
    where = UserSpace(search.space)
    for run in _runs(search, privatizer, models, method, where):
        _drive(run, models, where)
    return _ended(run, models, where)


def sample(sampler: Any, search: SearchSettings, privatizer: dptune.LossPrivatizer, models: Models) -> SearchResult:
    """Search with any Optuna sampler, told the noisy value of each trial; one that was stopped goes on with those.

    Beside a value the trial has its noise's standard deviation, as in studies of :mod:`dptune_optuna`.
    """
    import optuna

    from dptune_optuna.spaces import to_distributions
    from dptune_optuna.studies import SIGMA

    where = UserSpace(search.space)
    asked = dict[str, Any]()
    distributions = to_distributions(where.space)
    study = optuna.create_study(study_name=search.name_, sampler=deepcopy(sampler))  # the user's stays as it was given

    def ask(name: str) -> dict[str, Any]:
        asked[name] = study.ask(distributions)
        return dict(asked[name].params)

    def tell(name: str, value: float | None) -> None:
        if value is None:
            study.tell(asked.pop(name), state=optuna.trial.TrialState.FAIL)
            return
        asked[name].set_user_attr(SIGMA, run.sigma(name))
        study.tell(asked.pop(name), value)

    for run in _runs(search, privatizer, models, VALUES, where):
        charges = [] if study.trials else charges_of(privatizer.ledger, search.name_, prefix=VALUE)
        for charge in charges:
            if charge.value is not None:
                trial = optuna.trial.create_trial(
                    params=dict(charge.note["parameters"]),
                    distributions=distributions,
                    value=charge.value[0],
                    user_attrs={SIGMA: charge.description["sigma"]},
                )
                study.add_trial(trial)
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
            usable(failed[0], but=run.unfinished.clip_words())
        raise


def charges_of(ledger: dptune.PrivacyLedger, name: str, *, prefix: str = "") -> list[Any]:
    """Return the charges of a search and of what extends it, in the ledger's order."""
    scopes = reversed(lineage(ledger, newest_name(ledger, name), extended=True))
    return [charge for scope in scopes for charge in ledger.charges(scope, prefix=prefix)]


def _runs(
    search: SearchSettings,
    privatizer: dptune.LossPrivatizer,
    models: Models,
    method: dptune.search.Method,
    where: UserSpace,
) -> Iterator[SearchRun]:
    """Yield the run, begun or continued; when it is complete, what extends it, if it is to go on and has fewer trials.

    Noise that leaves a run little to learn is warned of, and an estimator whose own parameters cannot be compared with.
    """

    own = {**search.estimator.get_params(), **(search.default or {})}
    usual, moved = where.nearest(own)
    if usual is not None:
        models.keep(where.user(usual))
    if where.finite:
        models.keep(all_of_them=True)

    def request(trials: int | None, mu: float | None) -> SearchRequest:
        settings = {"trials": trials or (USUAL_TRIALS if method is VALUES else None), **(search.settings or {})}
        arguments = settings, usual, "PrivateSearch", where.space
        return SearchRequest(method, privatizer, mu, search.random_state, *arguments)

    def _default_losses() -> dptune.privacy.PerExampleLosses | None:
        used = where.user(usual) if usual is not None and not moved else search.default or {}
        return models.losses(models.fitted(used))

    space = None if method is VALUES else where.space
    wanted = request(search.n_trials, search.mu)
    begun = stored_plan(privatizer.ledger, search.name_) if search.warm_start else None
    first = wanted if begun is None else request(begun["trials"], begun["mu"])
    first.check_start(search.name_, space)
    if not privatizer.knows_clip:  # a space whose models cannot be trained pays for none
        fits = list[Any]()
        for point in candidates(search.space, FIRST_TRIALS, search.random_state):
            fits += models.trained([point])  # one at a time: the first that can be trained is enough
            if not isinstance(fits[-1], Failed):
                break
        else:
            usable(fits[0])
    loss = as_loss(search.loss)
    clip = first.choose_clip(search.name_, space, _default_losses, AskedLoss(loss.name, loss.most))
    run = first.begin(search.name_, space)
    keep(privatizer.ledger, search.name_, search._means)
    announce(search, privatizer, f"{clip} {first.announcement(run)}".lstrip())
    if usual is None:
        warnings.warn(_nothing_to_compare_with(own, where, space), stacklevel=5)
    elif moved:
        instead = ", ".join(f"{name}={where.user(usual)[name]:.4g} for {own[name]!r}" for name in moved)
        warnings.warn(
            f"the default lies outside the search space, so the answer is compared with its nearest point: {instead}.",
            stacklevel=5,
        )
    if warning := first.warning(run):
        _warn(search.name_, warning, depth=6)
    yield run
    planned = wanted.plan(space).trials
    if begun is not None and planned > run.trials:
        extension = run.extend(trials=search.n_trials or planned, mu=search.mu)
        announce(search, privatizer, wanted.announcement(extension))
        yield extension


def announce(search: SearchSettings, privatizer: dptune.LossPrivatizer, said: str) -> None:
    """Say, before models are compared, what a search costs and can show: printed if it is verbose, else logged."""
    if search.verbose:
        print(said)  # noqa: T201 - as scikit-learn's searches do
    else:
        _logger.log(logging.INFO if privatizer.private else logging.WARNING, said)


def _nothing_to_compare_with(own: Mapping[str, Any], where: UserSpace, space: dptune.Space | None) -> str:
    outside = ", ".join(f"{name}={own.get(name)!r}" for name in where.outside(own))
    which = f" ({outside})" if outside else ""
    instead = "nothing" if space is None else "the middle of the space"
    return (
        f"the estimator's own parameters are no point of the search space{which}: the answer is compared with {instead}"
        ", and no release says whether it is better than what you have. Give default=, parameters within the space."
    )


def _warn(name: str, why: str, *, depth: int) -> None:
    """Warn where ``fit`` was called, ``depth`` frames up."""
    warnings.warn(f"The search {name!r} will learn little: {why}", stacklevel=depth)


def _ended(run: SearchRun, models: Models, where: UserSpace) -> SearchResult:
    """Train the recommended model, and release its loss once, beside that of the estimator's own parameters."""
    best = run.recommend()
    model = models.fitted(where.user(best))
    if (loss := run.estimated(best)) is None and run.plan.final_mu > 0:
        usual = None if run.default is None else models.losses(models.fitted(where.user(run.default)))
        loss = run.estimate(best, models.losses(model), default=usual)
        recommendation = run.recommend()  # with the estimate
        if recommendation != best:  # which says that the defaults are better
            model = models.fitted(where.user(recommendation))
        best = recommendation
    defaults = where.user(best.defaults) if best.defaults else {}
    why = (
        {} if run.default is not None else {"reason": OUTSIDE, "remedy": "give default=, parameters within the space."}
    )
    return SearchResult(best.renamed(where.user(best), defaults, **why), model, run.estimated(best) or loss)


OUTSIDE = "the estimator's own parameters lie outside the search space"
METHODS: Mapping[str, Strategy] = {
    "centred": partial(propose, dptune.CENTRED),
    "dp-gibo": partial(propose, dptune.GIBO),
    "selection": select,
}


def strategy(method: Any) -> Strategy:
    """Return how a search with this ``method=`` spends its budget; refuse what is no name, method or sampler."""
    if isinstance(method, dptune.search.Method):
        return partial(propose, method)
    if hasattr(method, "sample_relative"):
        return partial(sample, method)
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"method must be {', '.join(map(repr, METHODS))}, a dptune.search.Method or an Optuna sampler; "
            f"got {method!r}."
        )
    return METHODS[method]
