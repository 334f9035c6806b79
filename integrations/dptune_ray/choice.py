"""The results of a finished, ordinary Tune experiment propose; private people choose once among its best ones.

Example::

    results = tune.Tuner(trainable, param_space=space, tune_config=tuning).fit()  # of public rows, any searcher


    def train(config, X, y):
        return SVC(C=config["C"], probability=True).fit(X, y)


    choice = choose(results, train, ledger=ledger, loss="log_loss", data=(X_val, y_val), public=(X_train, y_train))
    print(choice.summary())

Guarantee: that of :class:`dptune.PublicChoice`. Ray's tasks train on public rows. Private rows are read in this process
only, and are in no argument, object store or file of Ray.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import ray
from ray import cloudpickle, tune

import dptune
from dptune._checks import at_least
from dptune.choice.proposals import (
    Choice,
    as_model,
    choose_among,
    distinct,
    is_estimator,
    key,
    privatizer_of,
    trained_at,
)
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data

_logger = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
Pair = tuple[Any, Any]


def choose(
    results: tune.ResultGrid,
    train: Any,
    *,
    ledger: dptune.PrivacyLedger | None = None,
    privatizer: dptune.LossPrivatizer | None = None,
    n: int | None = None,
    loss: str | NamedLoss,
    data: Data | Callable[[], Data],
    public: Pair,
    cv: Any = 5,
    public_losses: npt.ArrayLike | None = None,
    default: Mapping[str, Any] | None = None,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    candidates: int = 100,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Choice:
    """Let private people choose among the best configurations of an experiment that has seen public rows only.

    The best results are cross-validated on the public rows, and the finalists are trained on all of them, each in a
    Ray task. One private choice is made in this process. Public rows vote in it.

    Args:
        results: what ``Tuner.fit`` returned, of any searcher and scheduler.
        train: (config, X, y) -> model, trained on these public rows, or an estimator of scikit-learn's kind whose
            parameters were searched. The model is sent back: it must pickle.
        ledger: pays; one person for each private row.
        privatizer: instead of ``ledger``, where people have several rows or weights.
        n: number of private people, with ``ledger``, where ``data`` is a function.
        loss: the per-example loss, a name or a ``NamedLoss``.
        data: (X, y) or ``dptune.Rows`` of the private rows, or a function that loads them, here.
        public: (X, y), the public rows.
        cv: folds of the public rows: a number, or a scikit-learn splitter.
        public_losses: instead of ``cv``: losses of the public rows (results, N), one row for each result.
        default: your configuration of today: a candidate, and what the verdict compares with.
        name: of the choice in the ledger; default ``"<experiment> (choice)"``.
        metric, mode: by which results are ranked; default the experiment's.
        candidates: how many results are cross-validated at most.
        options: Ray's options of a task, such as ``num_gpus``.
        settings: ``mu``, ``public_weight``, ``estimate_share``, ``finalists``, ``report_share`` of
            :class:`dptune.PublicChoice`.

    Returns:
        The chosen ``params``, the ``selection`` with verdict and estimate, and the ``model``, never asked about
        private rows.

    Raises:
        InputError: fewer than two results have a finite metric, or a setting is not usable; nothing was charged.
        UnsupportedMetric: the loss is not a mean over people.
        BudgetExhausted: the ledger has not the price left; before a model is trained.
        BudgetMismatch: the results, the public rows or the settings have changed under an old ``name``.
    """
    if is_estimator(train):
        train = functools.partial(_at, train)
    if not callable(train):
        raise dptune.InputError(f"train must be a function (config, X, y) -> model; got {type(train).__name__}.")
    if not isinstance(public, tuple | list) or len(public) != 2:
        raise dptune.InputError("public= must be (X, y), the public rows that train.")
    people = privatizer_of(privatizer, ledger, n, data)
    best = _ranked(results, metric, mode)[: at_least("candidates", candidates, 2)]
    configs, place = distinct([results[i].config for i in best], default)
    folds = None if public_losses is not None else _folds(public, cv, loss)
    shared = _Shared((tuple(public), folds, loss, train))
    made = functools.partial(_Task, shared, options or {})
    return choose_among(
        configs,
        public_losses=_given(public_losses, results, best, configs) or made(_losses, configs),
        train=made(_model, configs),
        user_function=functools.partial(tuple, (public, train)),
        privatizer=people,
        name=name or f"{Path(results.experiment_path).name} (choice)",
        loss=loss,
        data=data,
        default=place,
        each=_each,
        say=_logger.info,
        warn=_logger.warning,
        **settings,
    )


def _ranked(results: tune.ResultGrid, metric: str | None, mode: str | None) -> list[int]:
    """Return the places of the results with a finite metric, the best first."""
    if not isinstance(results, tune.ResultGrid):
        raise dptune.InputError(f"results must be what Tuner.fit() returned; got {type(results).__name__}.")
    analysis = results._experiment_analysis
    metric, mode = metric or analysis.default_metric, mode or analysis.default_mode
    if metric is None or mode not in ("min", "max"):
        raise dptune.InputError('give metric= and mode="min" or "max": the experiment was run without them.')
    values = {i: float((one.metrics or {}).get(metric, math.nan)) for i, one in enumerate(results)}
    finite = [i for i, value in values.items() if math.isfinite(value) and results[i].error is None]
    if not finite:
        raise dptune.InputError(f"no result of the experiment has a finite {metric!r}. Nothing was charged.")
    return sorted(finite, key=lambda i: values[i] if mode == "min" else -values[i])


def _folds(public: Pair, cv: Any, loss: str | NamedLoss) -> Any:
    try:
        from dptune_sklearn.crossval import public_folds
    except ImportError:
        raise dptune.MissingExtra('cross-validation needs scikit-learn: pip install "dptune[sklearn]".') from None
    return public_folds(*public, cv=cv, loss=loss)


def _given(
    public_losses: npt.ArrayLike | None,
    results: tune.ResultGrid,
    best: Sequence[int],
    configs: Sequence[Mapping[str, Any]],
) -> Callable[[int], Any] | None:
    if public_losses is None:
        return None
    losses, places = np.asarray(public_losses, dtype=np.float64), {key(results[i].config): i for i in reversed(best)}
    if losses.ndim != 2 or len(losses) != len(results) or any(key(one) not in places for one in configs):
        raise dptune.InputError(
            f"public_losses= must be ({len(results)}, N), one row for each result, the default= among them; got "
            f"{losses.shape}. Nothing was charged."
        )
    return lambda i: losses[places[key(configs[i])]]


class _Shared:
    """What all tasks read, public; it is put into Ray's object store when the first task needs it."""

    def __init__(self, what: Any) -> None:
        self._what = what

    @functools.cached_property
    def reference(self) -> Any:
        return ray.put(cloudpickle.dumps(self._what))


class _Task:
    """Makes a call for one configuration in a Ray task."""

    def __init__(
        self,
        shared: _Shared,
        options: Mapping[str, Any],
        function: Callable[..., Any],
        configs: Sequence[Mapping[str, Any]],
    ) -> None:
        self._shared, self._configs = shared, configs
        self._remote = ray.remote(function).options(**{"num_cpus": 1, "max_retries": 3, **options})

    def start(self, place: int) -> Any:
        return self._remote.remote(self._shared.reference, dict(self._configs[place]))

    def __call__(self, place: int) -> Any:
        return ray.get(self.start(place))


def _at(estimator: Any, config: dict[str, Any], X: Any, y: Any) -> Any:
    return trained_at(estimator, config, X, y)


def _losses(rows: bytes, config: dict[str, Any]) -> npt.NDArray[np.float64]:
    from dptune_sklearn.crossval import cross_validated_losses

    public, folds, loss, train = cloudpickle.loads(rows)
    return cross_validated_losses(lambda X, y: as_model(train(config, X, y), loss, X), *public, cv=folds, loss=loss)


def _model(rows: bytes, config: dict[str, Any]) -> Any:
    public, _, loss, train = cloudpickle.loads(rows)
    return as_model(train(config, *public), loss, public[0])


def _each(function: Callable[[T], R], items: Sequence[T], what: str) -> list[R | Exception]:
    """Call a function on every item, tasks side by side; what one raises is its result."""
    start: Any = getattr(function, "start", None)  # of a task
    calls = [None if start is None else start(item) for item in items]
    done: list[R | Exception] = []
    for place, (item, call) in enumerate(zip(items, calls, strict=True), 1):
        try:
            done.append(function(item) if call is None else ray.get(call))
        except ray.exceptions.RayTaskError as error:
            done.append(error.cause if isinstance(error.cause, Exception) else error)
        except Exception as error:  # noqa: BLE001 - public: the candidate drops out
            done.append(error)
        if place in (len(items) // 4, len(items) // 2, 3 * len(items) // 4, len(items)):
            _logger.info(f"{what}: {place} of {len(items)}")
    return done
