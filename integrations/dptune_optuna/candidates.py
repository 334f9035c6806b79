"""The candidates of a study: the trial that a user's function gets, the model that it returns, and its training."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.trial import FixedTrial, FrozenTrial
from tqdm.auto import tqdm

import dptune
from dptune._store import ForkSafeLock
from dptune.choice.configurations import Candidate
from dptune.choice.crossval import Answers, cross_validated_answers, kept_folds, losses_of, public_folds
from dptune.choice.kept_losses import unkept
from dptune.choice.kept_models import KeptModels
from dptune.choice.proposals import ChoiceOptions
from dptune.choice.public_training import PublicTraining, held_out_losses, is_estimator, required
from dptune.choice.workers import NoCheckpoint, in_order, workers_of
from dptune.losses.models import as_model
from dptune.losses.named import as_loss

Pair = tuple[Any, Any]
Losses = npt.NDArray[np.float64]


class CandidateTrial(FixedTrial):
    """The trial with which :func:`choose` calls a user's function: a ``FixedTrial`` with all parameters and attributes.

    Args:
        number: of the study's trial with these parameters; one more than all for a default that was not searched.
        user_attrs: of that trial.
    """

    def __init__(
        self, params: Mapping[str, Any], number: int, user_attrs: Mapping[str, Any], study: optuna.Study
    ) -> None:
        super().__init__(dict(params), number)
        self.study = study  # pruning callbacks look at the study's direction
        for name, value in user_attrs.items():
            self.set_user_attr(name, value)
        self._all = dict(params)

    @property
    def params(self) -> dict[str, Any]:
        """All parameters, also before they are suggested."""
        return dict(self._all)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "study": None}  # a model may hold a callback, which holds its trial


class Handed(BaseException):
    """Raised by :func:`candidate` to end a user's objective; not an ``Exception``, which the objective may catch."""

    def __init__(self, model: Any, pair: Pair, trained: bool, loaded: bool) -> None:
        super().__init__()
        self.model, self.pair = model, pair  # pair: held-out rows, or training rows
        self.trained, self.loaded = trained, loaded


def candidate(
    trial: Any,
    model: Any,
    *,
    held_out: Pair | None = None,
    rows: Pair | None = None,
    load: Callable[[Any], Any] | None = None,
) -> None:
    """Hand a model over, inside an objective of public rows, for :func:`choose`; in an ordinary trial do nothing.

    Where :func:`choose` calls the objective, this line ends it. So the objective of the study is all that it needs.

    Args:
        trial: the objective's trial.
        model: with ``held_out`` the trained model, which may be a native booster or a PyTorch module; with ``rows`` an
            estimator that scikit-learn can clone and fit.
        held_out: (X, y), public rows that the model was not trained on, the same for all trials.
        rows: (X, y), public rows: the estimator is cross-validated and trained on them.
        load: with ``held_out``: ``model`` is the path of a checkpoint, and ``load(model)`` returns the trained model.
            Write the line before the training, so that :func:`choose` trains nothing.

    Raises:
        InputError: not exactly one of ``held_out`` and ``rows`` is given, a path comes without ``load``, or a
            checkpoint that is loaded was written in this trial.

    Example, one added line::

        model = LGBMClassifier(num_leaves=trial.suggest_int("leaves", 2, 64)).fit(X_train, y_train)
        dptune_optuna.candidate(trial, model, held_out=(X_valid, y_valid))
        return accuracy_score(y_valid, model.predict(X_valid))
    """
    pair = rows if held_out is None else held_out
    if pair is None or (held_out is not None and rows is not None):
        raise dptune.InputError("candidate(trial, model, ...) needs held_out=(X, y) or rows=(X, y), public rows.")
    if load is None and isinstance(model, str | os.PathLike):
        raise dptune.InputError("candidate(trial, path, ...) needs load=, the function that loads a model from a path.")
    if load is not None and held_out is None:
        raise dptune.InputError("candidate(trial, path, load=...) needs held_out=(X, y): a loaded model is trained.")
    if load is not None and _written_since(getattr(trial, "datetime_start", None), model):
        raise dptune.InputError(
            "candidate(trial, path, load=...) comes after the training, which has just written the checkpoint: choose "
            "would train again. Write this line before the training. Nothing was charged."
        )
    if isinstance(trial, CandidateTrial):
        raise Handed(model if load is None else _loaded(load, model), pair, held_out is not None, load is not None)


def _written_since(begun: datetime | None, path: Any) -> bool:
    """Return whether a file, or one in a folder, was written since then; False for what is not a path."""
    if begun is None or not isinstance(path, str | os.PathLike):
        return False
    files = [path, *(os.path.join(folder, name) for folder, _, names in os.walk(os.fspath(path)) for name in names)]
    return any(os.path.isfile(file) and os.path.getmtime(file) > begun.timestamp() for file in files)


def _loaded(load: Callable[[Any], Any], path: Any) -> Any:
    try:
        return load(path)
    except Exception as error:
        if isinstance(path, str | os.PathLike) and not os.path.exists(path):
            raise NoCheckpoint(f"{type(error).__name__}: {error}") from None
        raise


@dataclass(frozen=True)
class _Evaluated:
    """The public losses of a candidate of an objective, and its model.

    Attributes:
        rows: digest of the public answers on which candidates are compared.
        losses: of the public rows (N,), or the model's answers.
        model: if the objective has trained it; else None.
        lasting: whether the model is trained, so that it is the same when it is asked for again.
    """

    rows: str
    losses: Losses | Answers
    model: Any
    lasting: bool


class _Objective:
    """The study's own objective, which passes a model on by :func:`candidate`."""

    def __init__(self, objective: Callable[..., Any], options: ChoiceOptions) -> None:
        self._objective = objective
        self._cv = kept_folds(options.cv)
        self._loss, self._averages = as_loss(options.loss), options.averages

    @property
    def evidence(self) -> object:
        """Return what all losses depend on."""
        return self._objective, self._cv, self._averages

    def _handed(self, trial: CandidateTrial) -> Handed:
        try:
            self._objective(trial)
        except Handed as handed:
            return handed
        raise dptune.InputError(
            "the objective returned and did not hand a model over. Add dptune_optuna.candidate(trial, model, "
            "held_out=(X_valid, y_valid)) where the model is trained, or give a function train(trial, X, y)."
        )

    def losses(self, trial: CandidateTrial) -> _Evaluated:
        handed = self._handed(trial)
        X, y = handed.pair
        digest = hashlib.sha256(repr(np.asarray(y).tolist()).encode()).hexdigest()
        if handed.trained:
            model = as_model(handed.model, self._loss, X, y)
            losses = held_out_losses(model, X, y, self._loss, self._averages)
            if handed.loaded:
                losses, model = unkept(losses), None
            return _Evaluated(digest, losses, model, lasting=True)
        folds = public_folds(X, y, cv=self._cv, loss=self._loss)
        answers = cross_validated_answers(_fitted(handed.model), X, y, folds, self._loss, {})
        return _Evaluated(digest, answers if self._averages else losses_of(answers, self._loss), None, lasting=False)

    def model(self, trial: CandidateTrial) -> Any:
        handed = self._handed(trial)
        X, y = handed.pair
        return as_model(handed.model, self._loss, X, y) if handed.trained else _fitted(handed.model)(X, y)


def _training(train: Any, options: ChoiceOptions) -> PublicTraining | _Objective:
    if callable(train) and not is_estimator(train) and (wanted := required(train)) != 3:
        if wanted != 1:
            raise dptune.InputError(f"train must take (trial, X, y), or be the study's objective; it takes {wanted}.")
        if options.public is not None:
            raise dptune.InputError(
                "an objective of one argument hands its public rows over itself, by dptune_optuna.candidate: leave "
                "public= out, or give a function train(trial, X, y)."
            )
        return _Objective(train, options)
    return PublicTraining(train, options, parameters=lambda trial: trial.params)


def _fitted(estimator: Any) -> Callable[[Any, Any], Any]:
    from sklearn.base import clone

    return lambda X, y: clone(estimator).fit(X, y)


class Workers:
    """Trains candidates in workers of joblib; a training's error is its result."""

    def __init__(
        self, study: optuna.Study, train: Any, options: ChoiceOptions, n_jobs: int | None, progress: bool
    ) -> None:
        self.inputs: object = (train, options.public)
        self.lasting = False
        self._study, self._training = study, _training(train, options)
        self._n_jobs, self._progress = n_jobs, progress
        self._models = KeptModels()  # by the trial's number, those that an objective has trained
        self._rows = set[str]()  # digests of the public answers on which candidates were compared

    def evidence(self, candidates: Sequence[Candidate]) -> tuple[object, list[object]]:
        trials = self._study.get_trials(deepcopy=False)
        own: list[object] = [(one.row, one.parameters, _attributes(trials, one.row)) for one in candidates]
        return self._training.evidence, own

    def losses(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        found = self._each("losses", candidates, "cross-validate on public rows")
        for one, each in zip(candidates, found, strict=True):
            if not isinstance(each, _Evaluated):
                yield each
                continue
            self._rows.add(each.rows)
            if len(self._rows) > 1:
                raise dptune.InputError(
                    "two candidates came with different public rows: candidates are compared on the same rows. "
                    "Give train_test_split a random_state. Nothing was charged."
                )
            self.lasting |= each.lasting
            if each.model is not None:
                self._models.put(self._number(one), each.model)
            yield each.losses

    def models(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        kept = [self._number(one) for one in candidates]
        if all(number in self._models for number in kept):
            return map(self._models.get, kept)
        return self._each("model", candidates, "train finalists on all public rows", few=True)

    def _number(self, one: Candidate) -> int:
        return len(self._study.get_trials(deepcopy=False)) if one.row is None else one.row

    def _each(self, method: str, candidates: Sequence[Candidate], what: str, *, few: bool = False) -> Iterator[Any]:
        trials = self._study.get_trials(deepcopy=False)
        study = self._study if workers_of(self._n_jobs) == 1 else _facts_of(self._study)
        calls = [
            (method, self._training, study, one.parameters, self._number(one), _attributes(trials, one.row))
            for one in candidates
        ]
        shown = self._progress and len(candidates) > 1  # averages load checkpoints one by one
        with tqdm(total=len(candidates), desc=what, disable=not shown) as bar:
            yield from in_order(_called, calls, self._n_jobs, few=few, tick=bar.update)


_QUIET = ForkSafeLock()  # Optuna's verbosity belongs to the process


def _facts_of(study: optuna.Study) -> optuna.Study:
    """Return a study in memory with the facts that objectives and callbacks may read: workers get copies of it."""
    with _QUIET:
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # the user has not created a study
        try:
            facts = optuna.create_study(study_name=study.study_name, directions=study.directions)
        finally:
            optuna.logging.set_verbosity(verbosity)
    for name, value in study.user_attrs.items():
        facts.set_user_attr(name, value)
    return facts


def _attributes(trials: Sequence[FrozenTrial], row: int | None) -> dict[str, Any]:
    return {} if row is None else deepcopy(trials[row].user_attrs)


def _called(method: str, training: Any, study: optuna.Study, params: Any, number: int, attrs: Any) -> Any:
    return getattr(training, method)(CandidateTrial(params, number, attrs, study))
