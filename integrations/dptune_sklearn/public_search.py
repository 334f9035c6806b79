"""The public half of a search: public rows propose candidates, and cross-validation says what each of them loses.

Either the user's own search runs as it is, on the training rows, or candidates are drawn from distributions. Nothing
here sees a private row.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from dptune.choice.crossval import Folds, fold_losses, of_rows, public_folds
from dptune.choice.proposals import CANDIDATES
from dptune.errors import InputError
from dptune.losses.named import NamedLoss
from dptune_sklearn.digest import of_parameters
from dptune_sklearn.models import Failed, TrainingRows, train, usable
from dptune_sklearn.spaces import Distributions, candidates
from dptune_sklearn.wrappers import WrappedEstimator

Parameters = Mapping[str, Any]
Scorer = Callable[[Any, Any, Any], float]


@dataclass(frozen=True)
class Proposed:
    """What public rows propose; public.

    Attributes:
        parameters: of the candidates (m,), as ``set_params`` takes them.
        losses: of the public rows (m, N), cross-validated; NaN for a candidate that could not be trained.
        default: place of what the user has today; None if that could not be trained.
        shown: what the search shows of it, as scikit-learn's searches do: ``cv_results_``, ``n_splits_`` and so on.
        places: of the candidates in ``cv_results_``, None for what is not in it.
        scores: mean public scores (m,), higher is better; NaN where none is known.
    """

    parameters: Sequence[Parameters]
    losses: npt.NDArray[np.float64]
    default: int | None
    shown: Mapping[str, Any]
    places: Sequence[int | None]
    scores: Sequence[float]


def is_search(estimator: Any) -> bool:
    """Tell whether an estimator is a search, as ``GridSearchCV``: with an estimator in it, a space and folds."""
    if isinstance(estimator, WrappedEstimator) or not hasattr(estimator, "get_params"):
        return False
    names = estimator.get_params(deep=False)
    return {"estimator", "cv"} <= names.keys() and bool(
        {"param_grid", "param_distributions", "search_spaces"} & names.keys()
    )


def has_run(search: Any) -> bool:
    """Tell whether a search is fitted; an ``OptunaSearchCV`` then has a study."""
    return hasattr(search, "cv_results_") or "study_" in vars(search)


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone in which everything random that has no seed gets one, so that it proposes the same again."""
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
    """Return a splitter; one that shuffles without a seed gets one."""
    if not getattr(cv, "shuffle", hasattr(cv, "random_state")) or getattr(cv, "random_state", seed) is not None:
        return cv
    folds = copy(cv)
    folds.random_state = seed
    return folds


@dataclass(frozen=True)
class PublicRows:
    """Public rows, their folds, and how a candidate is cross-validated on them."""

    estimator: Any
    training: TrainingRows
    folds: Folds
    loss: NamedLoss
    n_jobs: int | None = None
    scorer: Scorer | None = None

    @classmethod
    def of(
        cls, estimator: Any, training: TrainingRows, *, cv: Any, loss: NamedLoss, seed: int, **how: Any
    ) -> PublicRows:
        """Divide the rows; a splitter that shuffles without a seed gets one."""
        splitter = _seeded_folds(check_cv(cv, training.y, classifier=is_classifier(estimator)), seed)
        folds = public_folds(training.X, training.y, cv=splitter, loss=loss, groups=training.groups)
        return cls(estimator, training, folds, loss, **how)

    def evaluated(self, candidates: Iterable[Parameters]) -> list[Evaluated]:
        """Return what the candidates lose, in their order; warn of those that could not be trained."""
        parallel = Parallel(n_jobs=self.n_jobs)
        results: list[Evaluated] = list(parallel(delayed(_evaluate)(self, parameters) for parameters in candidates))
        for each in results:
            if each.failed is not None:
                message = f"A candidate could not be cross-validated:\n{each.failed.traceback}"
                warnings.warn(message, FitFailedWarning, stacklevel=7)
        return results


@dataclass(frozen=True)
class Evaluated:
    """What cross-validation says of a candidate: losses of rows (N,), scores and seconds of training of folds (k,)."""

    losses: npt.NDArray[np.float64]
    scores: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]
    failed: Failed | None = field(default=None, repr=False)


class _NotTrained(Exception):
    """A model of one fold could not be trained."""


def _evaluate(rows: PublicRows, parameters: Parameters) -> Evaluated:
    training = rows.training
    scores = list[float]()
    seconds = list[float]()
    tested = list[Any]()

    def fit(X: Any, y: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        model = train(rows.estimator, TrainingRows(X, y, options), parameters)
        seconds.append(time.perf_counter() - begun)
        if isinstance(model, Failed):
            raise _NotTrained(model.traceback)
        return model

    try:
        answers = fold_losses(fit, training.X, training.y, rows.folds, rows.loss, training.options)
        for test, model, losses in answers:
            tested.append((test, losses))
            X, y = _safe_indexing(training.X, test), _safe_indexing(training.y, test)
            scores.append(-float(np.nanmean(losses)) if rows.scorer is None else float(rows.scorer(model, X, y)))
    except _NotTrained as error:
        none = np.full(len(rows.folds), np.nan)
        return Evaluated(np.full(len(training.y), np.nan), none, none, Failed(str(error)))
    return Evaluated(of_rows(len(training.y), tested, rows.loss), np.array(scores), np.array(seconds))


# ---- candidates of a search that dptune makes ------------------------------------------------------------------------


def drawn(
    rows: PublicRows, distributions: Distributions, n_trials: int | None, *, seed: int, default: Parameters
) -> Proposed:
    """Draw candidates from a space, or take a grid whole; cross-validate them, and ``default``."""
    points = candidates(distributions, n_trials, seed)
    place, tried, evaluated = _with_default(rows, points, default)
    results = _results(points, evaluated[: len(points)])
    means = [*results["mean_test_score"], *(float(each.scores.mean()) for each in evaluated[len(points) :])]
    shown = {"cv_results_": results, "n_splits_": len(rows.folds), "multimetric_": False, "scorer_": rows.scorer}
    places = [j if j < len(points) else None for j in range(len(tried))]
    return Proposed(tried, np.array([each.losses for each in evaluated]), place, shown, places, means)


def _results(points: Sequence[Parameters], evaluated: Sequence[Evaluated]) -> dict[str, Any]:
    """Return ``cv_results_`` as scikit-learn's searches have it."""
    scores, seconds = (np.array([getattr(each, name) for each in evaluated]) for name in ("scores", "seconds"))
    columns: dict[str, Any] = {"mean_fit_time": seconds.mean(axis=1), "std_fit_time": seconds.std(axis=1)}
    for name in sorted({name for point in points for name in point}):
        column = np.ma.MaskedArray(np.empty(len(points), dtype=object), mask=True)
        for i, point in enumerate(points):
            if name in point:
                column[i] = point[name]
        columns[f"param_{name}"] = column
    columns["params"] = [dict(point) for point in points]
    columns |= {f"split{k}_test_score": scores[:, k] for k in range(scores.shape[1])}
    mean = scores.mean(axis=1)
    columns |= {"mean_test_score": mean, "std_test_score": scores.std(axis=1)}
    worst = np.where(np.isnan(mean), np.nanmin(mean, initial=0.0) - 1, mean)  # a failed candidate ranks last
    return columns | {"rank_test_score": rankdata(-worst, method="min").astype(np.int32)}


# ---- candidates of the user's own search -----------------------------------------------------------------------------


def run(search: Any, training: TrainingRows, seed: int) -> Any:
    """Return the user's search, seeded and fitted on the public rows; one that is fitted, as it is."""
    if has_run(search):
        return search
    groups = {} if training.groups is None else {"groups": training.groups}
    return seeded(search, seed).fit(training.X, training.y, **groups, **training.options)


def found_by(search: Any, rows: PublicRows, default: Parameters) -> Proposed:
    """Take the best candidates of a fitted search, cross-validate them on the same folds, and ``default``."""
    results = results_of(search)
    scores = _scores(search, results)
    unique = dict[str, int]()
    for i in _order(results, scores):
        unique.setdefault(of_parameters(results["params"][i]), i)
    best = list(unique.values())[:CANDIDATES]
    place, tried, evaluated = _with_default(rows, [results["params"][i] for i in best], default)
    added = len(tried) - len(best)
    means = [*(float(scores[i]) for i in best), *[np.nan] * added]
    losses = np.array([each.losses for each in evaluated])
    shown = {name: vars(search)[name] for name in ("n_splits_", "multimetric_", "scorer_") if name in vars(search)}
    return Proposed(tried, losses, place, {"cv_results_": results, **shown}, [*best, *[None] * added], means)


def results_of(search: Any) -> Mapping[str, Any]:
    """Return a fitted search's ``cv_results_``; of an ``OptunaSearchCV`` what its trials have stored."""
    if "study_" not in vars(search):
        results: Mapping[str, Any] = search.cv_results_
        return results
    trials = search.study_.trials
    columns: dict[str, Any] = {"params": [dict(trial.params) for trial in trials]}
    for name in sorted({name for trial in trials for name in trial.user_attrs if name.endswith(("_score", "_time"))}):
        columns[name] = np.array([trial.user_attrs.get(name, np.nan) for trial in trials], dtype=np.float64)
    return columns


def _scores(search: Any, results: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return the candidates' mean scores (m,), higher is better; NaN of one that failed."""
    name = "score" if "mean_test_score" in results else getattr(search, "refit", None)
    if f"mean_test_{name}" not in results:
        raise InputError(
            f"{type(search).__name__} has several scores and no refit= that names one, so its candidates have no "
            'order. Give it refit="..." with the name of a score. Nothing was charged.'
        )
    return np.array(results[f"mean_test_{name}"], dtype=np.float64)


def _order(results: Mapping[str, Any], scores: npt.NDArray[np.float64]) -> list[int]:
    """Return the places of the candidates, best first; of a halving search those with the most resources come first."""
    rounds = np.asarray(results.get("iter", np.zeros(len(scores))))
    filled = np.where(np.isnan(scores), -np.inf, scores)
    return [int(place) for place in np.lexsort((-filled, -rounds))]


def _with_default(
    rows: PublicRows, points: Sequence[Parameters], default: Parameters
) -> tuple[int | None, list[Parameters], list[Evaluated]]:
    """Evaluate the candidates and the user's default, at the end if it is none of them; return its place first.

    The place is None if the default could not be trained; if nothing could, what the training raised is raised.
    """
    own = rows.estimator.get_params()

    def is_default(point: Parameters) -> bool:
        a, b = {**own, **point}, {**own, **default}
        return all(_alike(a.get(name), b.get(name)) for name in {*point, *default})

    place = next((i for i, point in enumerate(points) if is_default(point)), len(points))
    tried = [*points, dict(default)][: max(len(points), place + 1)]
    evaluated = rows.evaluated(tried)
    failed = [each.failed for each in evaluated if each.failed is not None]
    if len(failed) == len(evaluated):
        usable(failed[0])
    return None if np.isnan(evaluated[place].losses).any() else place, tried, evaluated


def _alike(a: Any, b: Any) -> bool:
    numbers = isinstance(a, Real) and isinstance(b, Real) and not isinstance(a, bool) and not isinstance(b, bool)
    return bool(a == b) if numbers else of_parameters({"": a}) == of_parameters({"": b})
