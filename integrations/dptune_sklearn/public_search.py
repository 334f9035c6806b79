"""The public half of a search: the user's search proposes candidates, which are cross-validated and trained.

Nothing here sees a private row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv

from dptune.choice.configurations import Candidate, Parameters, key_of, numeric_key
from dptune.choice.crossval import (
    Answers,
    Folds,
    cross_validated_answers,
    indexable,
    kept_folds,
    losses_of,
    public_folds,
)
from dptune.choice.proposals import Proposals
from dptune.choice.workers import in_order
from dptune.errors import InputError
from dptune.losses.named import NamedLoss
from dptune_sklearn.halves import TrainingRows, WrappedEstimator

_HOW = (
    "n_jobs",
    "pre_dispatch",
    "verbose",
    "return_train_score",
    "refit",
    "error_score",
)  # settings of a search that do not change candidates
TRAIN_GROUPS = "give train_groups=, the group of each row of X"
SPACES = {"param_grid", "param_distributions", "search_spaces"}  # the names of a search's argument for its space


def refuse_no_search(estimator: Any) -> None:
    """Refuse an estimator that is not a search, with an estimator, a space and folds; keep the folds of a generator."""
    settings = set() if isinstance(estimator, type) or not hasattr(estimator, "get_params") else _settings(estimator)
    if isinstance(estimator, WrappedEstimator) or not ({"estimator", "cv"} <= settings and SPACES & settings):
        name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise InputError(
            f"PrivateSearch wraps a search, and {name} is not one. Write PrivateSearch(RandomizedSearchCV({name}(...), "
            "space), ledger=..., loss=...), or give a GridSearchCV, halving search, OptunaSearchCV or BayesSearchCV. "
            "Nothing was charged."
        )
    if (cv := kept_folds(estimator.cv)) is not estimator.cv:
        estimator.set_params(cv=cv)  # a generator can be read only once


def _settings(estimator: Any) -> set[str]:
    return set(estimator.get_params(deep=False))


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone with seeds for everything random without one, so that it proposes the same again."""
    copied = clone(estimator)
    settings = dict[str, Any]()
    for name, value in sorted(copied.get_params(deep=True).items()):
        last = name.rpartition("__")[2]
        if last == "random_state" and value is None:
            settings[name] = seed
        elif last == "cv":
            settings[name] = _seeded_folds(value, seed)
    return copied.set_params(**settings)


def _seeded_folds(cv: Any, seed: int) -> Any:
    """Return a splitter; add a seed if it shuffles without one."""
    if not getattr(cv, "shuffle", hasattr(cv, "random_state")) or getattr(cv, "random_state", seed) is not None:
        return cv
    folds = copy(cv)
    folds.random_state = seed
    return folds


def run(search: Any, training: TrainingRows, seed: int) -> Any:
    """Return the user's search, seeded and fitted on the public rows; return a fitted one unchanged."""
    if hasattr(search, "cv_results_") or "study_" in vars(search):  # an OptunaSearchCV
        return search
    groups = {} if training.groups is None else {"groups": training.groups}
    return seeded(search, seed).fit(training.X, training.y, **groups, **training.options)


def results_of(search: Any) -> Mapping[str, Any]:
    """Return a fitted search's ``cv_results_``, or the stored trials of an ``OptunaSearchCV``."""
    if "study_" not in vars(search):
        results: Mapping[str, Any] = search.cv_results_
        return results
    trials = search.study_.trials
    columns: dict[str, Any] = {"params": [dict(trial.params) for trial in trials]}
    for name in sorted({name for trial in trials for name in trial.user_attrs if name.endswith(("_score", "_time"))}):
        columns[name] = np.array([trial.user_attrs.get(name, np.nan) for trial in trials], dtype=np.float64)
    return columns


def settings_of(search: Any) -> dict[str, object]:
    """Return the plain settings of a search that determine its proposals, such as ``n_iter`` and ``random_state``."""
    settings = search.get_params(deep=False)
    plain = {name: value for name, value in settings.items() if isinstance(value, bool | int | float | str)}
    return {"search": type(search).__name__} | {name: plain[name] for name in sorted(plain) if name not in _HOW}


def scores_of(search: Any) -> npt.NDArray[np.float64]:
    """Return the candidates' mean public scores (m,), higher is better; NaN for failed ones."""
    results = results_of(search)
    name = "score" if "mean_test_score" in results else getattr(search, "refit", None)
    if f"mean_test_{name}" not in results:
        raise InputError(
            f"{type(search).__name__} has several scores and no refit= that names one, so its candidates have no "
            'order. Give it refit="..." with the name of a score. Nothing was charged.'
        )
    return np.array(results[f"mean_test_{name}"], dtype=np.float64)


def proposals_of(search: Any, estimator: Any, default: Parameters | None) -> Proposals:
    """Return the candidates of a fitted search, best first; a halving search's with the most rows come first.

    The user's present configuration is the estimator's value of each searched parameter, and ``default``.
    """
    results = results_of(search)
    scores = scores_of(search)
    rounds = np.asarray(results.get("iter", np.zeros(len(scores))))
    order = np.lexsort((-np.where(np.isnan(scores), -np.inf, scores), -rounds))
    candidates = [Candidate(results["params"][int(i)], int(i)) for i in order]
    own = estimator.get_params(deep=True)
    given = dict(default or {})
    named = {*given, *(name for each in candidates for name in each.parameters)}
    usual = {name: own[name] for name in sorted(named & own.keys())}
    today = {**usual, **given}
    now = _searched(today, candidates, usual, key_of) or _searched(today, candidates, usual, numeric_key) or today
    kind = type(search).__name__
    return Proposals(candidates, len(candidates), None, kind, usual=now, told=settings_of(search))


def _searched(
    today: Parameters, candidates: Sequence[Candidate], usual: Parameters, key: Callable[[Parameters], str]
) -> Parameters | None:
    """Return today's values of the parameters that a candidate with the same key has; None without a candidate."""
    same = (each.parameters for each in candidates if key({**usual, **each.parameters}) == key(today))
    found = next(same, None)
    return None if found is None else {name: today[name] for name in found}


@dataclass
class PublicModels:
    """Trains candidates on the public rows, in ``n_jobs`` workers of joblib; a training's error is its result.

    Attributes:
        inputs: the user's inputs of the training.
        folds: folds of the public rows, in which candidates are compared.
    """

    estimator: Any
    training: TrainingRows
    folds: Folds
    loss: NamedLoss
    averages: bool
    n_jobs: int | None
    inputs: object

    @classmethod
    def of(
        cls, search: Any, training: TrainingRows, loss: NamedLoss, averages: bool, n_jobs: int | None, seed: int
    ) -> PublicModels:
        """Return the trainer of a search's candidates, in folds like the search's."""
        estimator = seeded(search.estimator, seed)
        X, y = indexable(training.X, training.y)
        training = replace(training, X=X, y=y)
        splitter = _seeded_folds(check_cv(search.cv, training.y, classifier=is_classifier(estimator)), seed)
        folds = public_folds(
            training.X, training.y, cv=splitter, loss=loss, groups=training.groups, remedy=TRAIN_GROUPS
        )
        jobs = getattr(search, "n_jobs", None) if n_jobs is None else n_jobs
        return cls(estimator, training, folds, loss, averages, jobs, (search, vars(training)))

    lasting: ClassVar[bool] = False

    def evidence(self, candidates: Sequence[Candidate]) -> tuple[object, list[object]]:
        """Return what all losses depend on, and what each candidate's depend on."""
        rows = self.training
        return (self.estimator, rows.X, rows.y, rows.options, self.folds, self.averages), [
            o.parameters for o in candidates
        ]

    def losses(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        """Return the losses of the public rows (N,) under each candidate, by models trained without the row."""
        return self._each(_losses, candidates, self.folds, self.loss, self.averages)

    def models(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        """Return the models of the candidates, trained on all public rows; as many at a time as there are jobs."""
        return self._each(_model, candidates, few=True)

    def _each(
        self, function: Callable[..., Any], candidates: Sequence[Candidate], *how: Any, few: bool = False
    ) -> Iterator[Any]:
        calls = [(function, self.estimator, each.parameters, self.training, *how) for each in candidates]
        return in_order(_at, calls, self.n_jobs, few=few)


def _at(function: Callable[..., Any], estimator: Any, parameters: Parameters, *how: Any) -> Any:
    return function(clone(estimator).set_params(**clone(dict(parameters), safe=False)), *how)


def _losses(
    estimator: Any, training: TrainingRows, folds: Folds, loss: NamedLoss, averages: bool
) -> npt.NDArray[np.float64] | Answers:
    def fit(X: Any, y: Any, **options: Any) -> Any:
        return clone(estimator).fit(X, y, **options)

    answers = cross_validated_answers(fit, training.X, training.y, folds, loss, training.options)
    return answers if averages else losses_of(answers, loss)


def _model(estimator: Any, training: TrainingRows) -> Any:
    return estimator.fit(training.X, training.y, **training.options)
