"""Public rows propose, private people decide: the strategy of a search with ``cv=``.

Every model that is asked about private rows is thrown away; the model that is handed out is trained anew.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring

import dptune
from dptune.errors import InputError
from dptune.losses.named import as_loss
from dptune.results.budget import left_in_words
from dptune.results.estimate import parameters_in_words
from dptune.results.start import check_start
from dptune.search.answer import Recommendation
from dptune_sklearn import public_search
from dptune_sklearn.models import Failed, Models
from dptune_sklearn.naming import keep
from dptune_sklearn.settings import SearchSettings
from dptune_sklearn.strategies import SearchResult, announce

SETTINGS = {"public_weight", "estimate_share", "finalists"}


class Decided(Recommendation):
    """The parameters that private people chose, with the choice's own summary."""

    def __init__(self, parameters: Mapping[str, Any], defaults: Mapping[str, Any], selection: Any, left: str) -> None:
        super().__init__(parameters, defaults=defaults, improvement=selection.improvement)
        self._summary = selection.summary(parameters_in_words(parameters) or "the estimator as it was given", left=left)

    def summary(self) -> str:
        return str(self._summary)


def decide(search: SearchSettings, privatizer: dptune.LossPrivatizer, models: Models) -> SearchResult:
    """Let public rows propose candidates, and ask the private people once which of the finalists is best."""
    settings = dict(search.settings or {})
    if unknown := settings.keys() - SETTINGS:
        named = ", ".join(map(repr, sorted(unknown)))
        raise InputError(f"a search with cv= has no setting {named}; allowed: {', '.join(sorted(SETTINGS))}.")
    if search.warm_start:
        raise InputError("a choice is made once, among all candidates: warm_start= needs cv=None.")
    check_start(privatizer.ledger, search.name_, search.mu)
    proposed = _proposed(search, models)
    choice = dptune.PublicChoice(
        proposed.losses,
        privatizer,
        name=search.name_,
        default_place=proposed.default,
        loss=search.loss,
        mu=search.mu,
        report_share=search.report_share,
        **settings,
    )
    keep(privatizer.ledger, search.name_, search._means)
    announce(search, privatizer, choice.announcement)
    selection = choice.recorded()
    if selection is None:
        places = choice.to_train
        trained = models.trained([proposed.parameters[j] for j in places])
        losses = (_losses(models, model, privatizer.rows) for model in trained)
        selection = choice.choose(dict(zip(places, losses, strict=True)))
    search.selection_ = selection
    return _found(search, proposed, models, selection, left_in_words(privatizer.ledger))


def _losses(models: Models, model: Any, rows: int) -> Any:
    """Return private losses; None of a model that could not be trained, which is public and drops out.

    A model that fails on private rows has no number for any of them, and stays: that it failed may be one person's
    doing.
    """
    if isinstance(model, Failed):
        return None
    losses = models.losses(model)
    return np.full(rows, np.nan) if losses is None else losses


def _proposed(search: SearchSettings, models: Models) -> public_search.Proposed:
    """Let public rows propose; say so if nothing can be compared with."""
    wrapped = search.wraps_search
    seed = search.random_state
    default = search.default or {}
    settings = search.estimator if wrapped else search
    jobs = search.n_jobs if search.n_jobs is not None or not wrapped else settings.n_jobs
    scorer = None if wrapped or search.scoring is None else check_scoring(models.estimator, search.scoring)
    how: dict[str, Any] = {"cv": settings.cv, "loss": as_loss(search.loss), "seed": seed, "n_jobs": jobs}
    rows = public_search.PublicRows.of(models.estimator, models.training, **how, scorer=scorer)
    if wrapped:
        search.search_ = public_search.run(search.estimator, models.training, seed)
        proposed = public_search.found_by(search.search_, rows, default)
    else:
        proposed = public_search.drawn(rows, search.space, search.n_trials, seed=seed, default=default)
    if proposed.default is None:
        warnings.warn(
            "The estimator as it was given could not be cross-validated, so the choice is compared with nothing. Give "
            "default=, the parameters that you use today.",
            stacklevel=5,
        )
    return proposed


def _found(
    search: SearchSettings, proposed: public_search.Proposed, models: Models, selection: Any, left: str
) -> SearchResult:
    best, place = proposed.parameters[selection.index], proposed.places[selection.index]
    score = proposed.scores[selection.index]
    public = {"best_index_": place, "best_score_": score if math.isfinite(score) else None, **proposed.shown}
    refit = getattr(search.estimator, "refit", True) if search.wraps_search else search.refit
    model = models.fitted(best) if refit else None
    defaults: dict[str, Any] = {}
    if proposed.default is not None:
        default = proposed.parameters[proposed.default]
        used = {**models.estimator.get_params(), **default}
        defaults = {name: used.get(name) for name in best or default}
    return SearchResult(Decided(best, defaults, selection, left), model, selection.estimate, public)
