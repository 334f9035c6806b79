"""A finished, ordinary study proposes; private people choose once among its best configurations.

Example::

    study = optuna.create_study(direction="maximize")    # of public rows: any sampler, pruner, storage, n_jobs
    study.optimize(objective, n_trials=100)


    def train(trial, X, y):
        return SVC(C=trial.suggest_float("C", 1e-3, 1e3, log=True), probability=True).fit(X, y)


    choice = choose(study, train, ledger=ledger, loss="log_loss", data=(X_val, y_val), public=(X_train, y_train))
    print(choice.summary())

Guarantee: that of :class:`dptune.PublicChoice`. The study is public; what is added to it is released.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import optuna
from optuna.trial import FixedTrial, FrozenTrial, TrialState
from tqdm.auto import tqdm

import dptune
from dptune._checks import at_least, boolean
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
from dptune_optuna.spaces import logger
from dptune_optuna.studies import ATTRIBUTE, TITLE, write_note

CHOICE = ATTRIBUTE + "choice"  # study user attribute: the choice, released facts
T = TypeVar("T")
R = TypeVar("R")
Pair = tuple[Any, Any]
Vector = npt.NDArray[np.float64]


class Candidate(FixedTrial):
    """The trial with which :func:`choose` calls a user's function: a ``FixedTrial`` that knows all its parameters."""

    def __init__(self, params: Mapping[str, Any], study: optuna.Study, number: int) -> None:
        super().__init__(dict(params), number)
        self.study, self._all = study, dict(params)  # pruning callbacks look at the study's direction

    @property
    def params(self) -> dict[str, Any]:
        """All parameters, also before they are suggested."""
        return dict(self._all)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "study": None}  # a model may hold a callback, and that its trial


class _Handed(BaseException):
    """What :func:`candidate` ends a user's objective with; not an ``Exception``, which the objective may catch."""

    def __init__(self, model: Any, held_out: Pair | None, rows: Pair | None) -> None:
        super().__init__()
        self.model, self.held_out, self.rows = model, held_out, rows


def candidate(trial: Any, model: Any, *, held_out: Pair | None = None, rows: Pair | None = None) -> None:
    """Hand a model over, inside an objective of public rows, for :func:`choose`; in an ordinary trial do nothing.

    Where :func:`choose` calls the objective, this line ends it. So the objective of the study is all that it needs.

    Args:
        trial: the objective's trial.
        model: with ``held_out`` the trained model, which may be a native booster of LightGBM or XGBoost; with ``rows``
            an estimator that scikit-learn can clone and fit.
        held_out: (X, y), public rows that the model was not trained on, the same for all trials.
        rows: (X, y), public rows: the estimator is cross-validated and trained on them.

    Raises:
        InputError: not exactly one of ``held_out`` and ``rows`` is given.

    Example, one added line::

        model = LGBMClassifier(num_leaves=trial.suggest_int("leaves", 2, 64)).fit(X_train, y_train)
        dptune_optuna.candidate(trial, model, held_out=(X_valid, y_valid))
        return accuracy_score(y_valid, model.predict(X_valid))
    """
    if (held_out is None) == (rows is None):
        raise dptune.InputError("candidate(trial, model, ...) needs held_out=(X, y) or rows=(X, y), public rows.")
    if isinstance(trial, Candidate):
        raise _Handed(model, held_out, rows)


def choose(
    study: optuna.Study,
    train: Any,
    *,
    ledger: dptune.PrivacyLedger | None = None,
    privatizer: dptune.LossPrivatizer | None = None,
    n: int | None = None,
    loss: str | NamedLoss,
    data: Data | Callable[[], Data],
    public: Pair | None = None,
    cv: Any = 5,
    public_losses: npt.ArrayLike | None = None,
    default: Mapping[str, Any] | None = None,
    name: str | None = None,
    candidates: int = 100,
    n_jobs: int = 1,
    progress: bool = True,
    **settings: Any,
) -> Choice:
    """Let private people choose among the best configurations of a study that has seen public rows only.

    The best trials are cross-validated on the public rows, the finalists are trained on all of them, and one private
    choice is made. Public rows vote in it. The result is stored in the study's attributes and note.

    Args:
        study: any sampler, pruner, storage and ``n_jobs``; of several objectives the Pareto front comes first.
        train: (trial, X, y) -> model, trained on these public rows; ``trial`` has the parameters, as a ``FixedTrial``
            and as ``trial.params``. Or an estimator of scikit-learn's kind whose parameters the study has searched. Or
            the study's objective, with one argument, which calls :func:`candidate`.
        ledger: pays; one person for each private row.
        privatizer: instead of ``ledger``, where people have several rows or weights.
        n: number of private people, with ``ledger``, where ``data`` is a function.
        loss: the per-example loss, a name or a ``NamedLoss``.
        data: (X, y) or ``dptune.Rows`` of the private rows, or a function that loads them.
        public: (X, y), the public rows; an objective hands them over itself.
        cv: folds of the public rows: a number, or a scikit-learn splitter.
        public_losses: instead of ``cv``: losses of the public rows (trials, N), one row for each trial of the study.
        default: your configuration of today: a candidate, and what the verdict compares with.
        name: of the choice in the ledger; default ``"<study> (choice)"``.
        candidates: how many trials are cross-validated at most.
        n_jobs: threads that train; -1: as many as there are CPUs.
        progress: show progress bars.
        settings: ``mu``, ``public_weight``, ``estimate_share``, ``finalists``, ``report_share`` of
            :class:`dptune.PublicChoice`.

    Returns:
        The chosen ``params``, the ``selection`` with verdict and estimate, and the ``model``, never asked about
        private rows.

    Raises:
        InputError: the study has fewer than two completed trials, or a setting is not usable; nothing was charged.
        UnsupportedMetric: the loss is not a mean over people.
        BudgetExhausted: the ledger has not the price left; before a model is trained.
        BudgetMismatch: the study, the public rows or the settings have changed under an old ``name``.
    """
    most, workers = at_least("candidates", candidates, 2), _workers(n_jobs)
    people = privatizer_of(privatizer, ledger, n, data)
    trials = ranked(study)[:most]
    configurations, place = distinct([trial.params for trial in trials], default)
    numbers = {key(trial.params): trial.number for trial in reversed(trials)}
    made = [Candidate(one, study, numbers.get(key(one), len(study.trials))) for one in configurations]
    way = _way(train, public, cv if public_losses is None else None, loss)
    each = functools.partial(_each, workers=workers, progress=boolean("progress", progress))
    choice = choose_among(
        configurations,
        public_losses=_given(public_losses, study, made) or (lambda i: way.losses(made[i])),
        train=lambda i: way.model(made[i]),
        user_function=functools.partial(tuple, (train, public)),
        privatizer=people,
        name=name or f"{study.study_name} (choice)",
        loss=loss,
        data=data,
        default=place,
        each=each,
        say=logger.info,
        warn=logger.warning,
        **settings,
    )
    study.set_user_attr(CHOICE, {"params": dict(choice.params), **choice.selection.to_dict()})
    write_note(study, f"{TITLE} choice\n\n{choice.summary()}".replace("\n", "\n\n"))
    return choice


def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """Return the completed trials with finite values, the best first; of several objectives the Pareto front first.

    Raises:
        InputError: there is none.
    """
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    finite = [trial for trial in completed if all(map(math.isfinite, trial.values))]
    if not finite:
        raise dptune.InputError(
            f"the study {study.study_name!r} has no completed trial with a finite value: call study.optimize on public "
            "rows first. Nothing was charged."
        )
    signs = np.array([1.0 if way == optuna.study.StudyDirection.MINIMIZE else -1.0 for way in study.directions])
    values = np.array([trial.values for trial in finite]) * signs  # (trials, objectives), smaller is better
    ranks = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0).sum(axis=1)
    front = {trial.number for trial in study.best_trials} if len(signs) > 1 else set[int]()
    order = sorted(range(len(finite)), key=lambda i: (finite[i].number not in front, ranks[i], finite[i].number))
    return [finite[i] for i in order]


class _Train:
    """A function (trial, X, y) -> model."""

    def __init__(self, train: Callable[..., Any], public: Pair, cv: Any, loss: str | NamedLoss) -> None:
        self._train, self._public, self._loss = train, public, loss
        self._cv = None if cv is None else _crossval().public_folds(*public, cv=cv, loss=loss)

    def losses(self, trial: Candidate) -> Vector:
        fit = functools.partial(self._trained, trial)
        losses: Vector = _crossval().cross_validated_losses(fit, *self._public, cv=self._cv, loss=self._loss)
        return losses

    def model(self, trial: Candidate) -> Any:
        return self._trained(trial, *self._public)

    def _trained(self, trial: Candidate, X: Any, y: Any) -> Any:
        return as_model(self._train(trial, X, y), self._loss, X)


class _Objective:
    """The study's own objective, which hands a model over by :func:`candidate`."""

    def __init__(self, objective: Callable[..., Any], cv: Any, loss: str | NamedLoss) -> None:
        self._objective, self._cv, self._loss = objective, cv, loss
        self._answers: set[str] = set()  # digests of the public answers that candidates were compared on

    def _handed(self, trial: Candidate) -> _Handed:
        try:
            self._objective(trial)
        except _Handed as handed:
            return handed
        raise dptune.InputError(
            "the objective returned and did not hand a model over. Add dptune_optuna.candidate(trial, model, "
            "held_out=(X_valid, y_valid)) where the model is trained, or give a function train(trial, X, y)."
        )

    def losses(self, trial: Candidate) -> Vector:
        handed = self._handed(trial)
        X, y = handed.rows or handed.held_out or ((), ())
        self._answers.add(hashlib.sha256(repr(np.asarray(y).tolist()).encode()).hexdigest())
        if len(self._answers) > 1:
            raise dptune.InputError(
                "two candidates were handed over with different public rows: candidates are compared on the same rows. "
                "Give train_test_split a random_state. Nothing was charged."
            )
        fit, cv = _fitted(handed.model), self._cv
        if handed.rows is None:
            everything = np.arange(len(y))  # one fold: the model was trained on none of these rows
            fit, cv = lambda X, y: as_model(handed.model, self._loss, X), [(everything, everything)]
        losses: Vector = _crossval().cross_validated_losses(fit, X, y, cv=cv, loss=self._loss)
        return losses

    def model(self, trial: Candidate) -> Any:
        handed = self._handed(trial)
        if handed.rows is not None:
            return _fitted(handed.model)(*handed.rows)
        X, _ = handed.held_out or ((), ())
        return as_model(handed.model, self._loss, X)


def _way(train: Any, public: Pair | None, cv: Any, loss: str | NamedLoss) -> _Train | _Objective:
    if is_estimator(train):
        estimator, train = train, lambda trial, X, y: trained_at(estimator, trial.params, X, y)
    if not callable(train):
        raise dptune.InputError(f"train must be a function (trial, X, y) -> model; got {type(train).__name__}.")
    empty, positional = inspect.Parameter.empty, (inspect.Parameter.POSITIONAL_ONLY, 1)
    wanted = [
        each
        for each in inspect.signature(train).parameters.values()
        if each.default is empty and each.kind in positional
    ]
    if len(wanted) == 1:
        if public is not None:
            raise dptune.InputError(
                "an objective of one argument hands its public rows over itself, by dptune_optuna.candidate: leave "
                "public= out, or give a function train(trial, X, y)."
            )
        return _Objective(train, cv, loss)
    if len(wanted) != 3:
        raise dptune.InputError(f"train must take (trial, X, y), or be the study's objective; it takes {len(wanted)}.")
    if not isinstance(public, tuple | list) or len(public) != 2:
        raise dptune.InputError("train(trial, X, y) needs public=(X, y), the public rows that it trains on.")
    return _Train(train, (public[0], public[1]), cv, loss)


def _given(
    public_losses: npt.ArrayLike | None, study: optuna.Study, made: Sequence[Candidate]
) -> Callable[[int], Vector] | None:
    if public_losses is None:
        return None
    losses, trials = np.asarray(public_losses, dtype=np.float64), len(study.trials)
    if losses.ndim != 2 or len(losses) != trials or any(one.number >= trials for one in made):
        raise dptune.InputError(
            f"public_losses= must be ({trials}, N), one row for each trial of the study, the default= among them; got "
            f"{losses.shape}. Nothing was charged."
        )
    return lambda i: np.asarray(losses[made[i].number])


def _fitted(estimator: Any) -> Callable[[Any, Any], Any]:
    from sklearn.base import clone

    return lambda X, y: clone(estimator).fit(X, y)


def _crossval() -> Any:
    try:
        from dptune_sklearn import crossval
    except ImportError:
        raise dptune.MissingExtra('cross-validation needs scikit-learn: pip install "dptune[sklearn]".') from None
    return crossval


def _workers(n_jobs: int) -> int:
    return os.cpu_count() or 1 if n_jobs == -1 else at_least("n_jobs", n_jobs, 1)


def _each(
    function: Callable[[T], R], items: Sequence[T], what: str, *, workers: int, progress: bool
) -> list[R | Exception]:
    """Call a function on every item, in threads; what one raises is its result."""
    with tqdm(total=len(items), desc=what, disable=not progress) as bar:

        def call(item: T) -> R | Exception:
            try:
                return function(item)
            except Exception as error:  # noqa: BLE001 - public: the candidate drops out
                return error
            finally:
                bar.update()

        if workers == 1:
            return [call(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(call, items))
