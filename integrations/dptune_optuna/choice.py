"""A finished, ordinary study proposes, and private people choose once among its best configurations.

Example::

    study = optuna.create_study(direction="maximize")    # public rows: any sampler, pruner, storage, n_jobs
    study.optimize(objective, n_trials=100)


    def train(trial, X, y):
        return SVC(C=trial.suggest_float("C", 1e-3, 1e3, log=True), probability=True, random_state=0).fit(X, y)


    choice = choose(study, train, ledger=ledger, loss="log_loss", data=(X_val, y_val), public=(X_train, y_train))
    print(choice.summary())

Guarantee: as in :class:`dptune.PublicChoice`. The study is public; only released facts are added to it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.trial import FixedTrial, FrozenTrial, TrialState
from tqdm.auto import tqdm

import dptune
from dptune._checks import at_least, boolean
from dptune.choice.crossval import Answers, cross_validated_answers, kept_folds, losses_of, public_folds
from dptune.choice.finalists import KeptModels
from dptune.choice.payer import Payer
from dptune.choice.proposals import (
    Candidate,
    Choice,
    ChoiceOptions,
    Proposals,
    choose_among,
)
from dptune.choice.public_training import PublicTraining, is_estimator
from dptune.errors import BudgetMismatch
from dptune.losses.models import as_model
from dptune.losses.named import NamedLoss, as_loss
from dptune.losses.user_function import Data
from dptune_optuna.spaces import logger
from dptune_optuna.studies import ATTRIBUTE, TITLE, paragraphs, write_note

CHOICE = ATTRIBUTE + "choice/"  # prefix of a study's user attributes: one for each choice, released facts
TUNED = "lightgbm_tuner:lgbm_params"  # trial system attribute of LightGBMTuner: all parameters that it trained with
CONSTRAINTS = "constraints"  # trial system attribute: a list, and with ":<name>" appended one value each
UNNAMED = "no-name-"  # prefix of Optuna's random names for studies without a name
Pair = tuple[Any, Any]
Losses = npt.NDArray[np.float64]


class CandidateTrial(FixedTrial):
    """The trial with which :func:`choose` calls a user's function: a ``FixedTrial`` with all parameters and attributes.

    Args:
        row: number of the study's trial with these parameters; None: the default, which was not searched.
    """

    def __init__(self, params: Mapping[str, Any], study: optuna.Study, row: int | None) -> None:
        trials = study.get_trials(deepcopy=False)
        super().__init__(dict(params), len(trials) if row is None else row)
        self.study = study  # pruning callbacks look at the study's direction
        for name, value in {} if row is None else deepcopy(trials[row].user_attrs).items():
            self.set_user_attr(name, value)
        self._all = dict(params)

    @property
    def params(self) -> dict[str, Any]:
        """All parameters, also before they are suggested."""
        return dict(self._all)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "study": None}  # a model may hold a callback, which holds its trial


class _Handed(BaseException):
    """Raised by :func:`candidate` to end a user's objective; not an ``Exception``, which the objective may catch."""

    def __init__(self, model: Any, pair: Pair, trained: bool) -> None:
        super().__init__()
        self.model, self.pair, self.trained = model, pair, trained  # pair: held-out rows, or training rows


def candidate(trial: Any, model: Any, *, held_out: Pair | None = None, rows: Pair | None = None) -> None:
    """Hand a model over, inside an objective of public rows, for :func:`choose`; in an ordinary trial do nothing.

    Where :func:`choose` calls the objective, this line ends it. So the objective of the study is all that it needs.

    Args:
        trial: the objective's trial.
        model: with ``held_out`` the trained model, which may be a native booster or a PyTorch module; with ``rows`` an
            estimator that scikit-learn can clone and fit.
        held_out: (X, y), public rows that the model was not trained on, the same for all trials.
        rows: (X, y), public rows: the estimator is cross-validated and trained on them.

    Raises:
        InputError: not exactly one of ``held_out`` and ``rows`` is given.

    Example, one added line::

        model = LGBMClassifier(num_leaves=trial.suggest_int("leaves", 2, 64)).fit(X_train, y_train)
        dptune_optuna.candidate(trial, model, held_out=(X_valid, y_valid))
        return accuracy_score(y_valid, model.predict(X_valid))
    """
    pair = rows if held_out is None else held_out
    if pair is None or (held_out is not None and rows is not None):
        raise dptune.InputError("candidate(trial, model, ...) needs held_out=(X, y) or rows=(X, y), public rows.")
    if isinstance(trial, CandidateTrial):
        raise _Handed(model, pair, trained=held_out is not None)


def choose(
    study: optuna.Study,
    train: Any,
    *,
    data: Data | Callable[[], Data] | dptune.Places,
    loss: str | NamedLoss,
    ledger: Payer,
    public: tuple[Any, Any] | None = None,
    default: Mapping[str, Any] | None = None,
    groups: npt.ArrayLike | None = None,
    n: int | None = None,
    budget: dptune.Budget | None = None,
    name: str | None = None,
    cv: Any = 5,
    public_losses: npt.ArrayLike | None = None,
    candidates: int = 200,
    mu: float | None = None,
    public_weight: float = 1.0,
    estimate_share: float | None = None,
    finalists: int | None = None,
    report_share: float | None = None,
    even_if_hopeless: bool = False,
    dry_run: bool = False,
    averages: bool = False,
    n_jobs: int = 1,
    progress: bool = True,
) -> Choice:
    """Let private people choose among the best configurations of a study that has seen public rows only.

    The best trials are cross-validated on the public rows, the finalists are trained on all of them, and one private
    choice is made. Public rows vote in it. The study's attributes and note keep each choice, by day, ledger and name.

    Args:
        study: any sampler, pruner, storage and ``n_jobs``; of several objectives the Pareto front comes first. A trial
            that breaks a constraint is not a candidate. The study of a ``LightGBMTuner`` proposes all parameters with
            which each of its trials was trained.
        train: (trial, X, y) -> model, trained on these public rows; ``trial`` has the parameters, as a ``FixedTrial``
            and as ``trial.params``, and the trial's ``user_attrs``. Or an estimator of scikit-learn's kind whose
            parameters the study has searched. Or the study's objective, with one argument, which calls
            :func:`candidate` and hands the public rows over.
        data: (X, y) or ``dptune.Rows`` of the private rows, a function that loads them, or :class:`dptune.Places`.
        loss: the per-example loss, a name or a ``NamedLoss``.
        ledger: a ``PrivacyLedger`` to charge, its path or URL, or a ``LossPrivatizer`` where people have weights.
        public: (X, y), the public rows that train; not where an objective hands them over.
        default: your configuration of today: a candidate, and what the verdict compares with.
        groups: whose each private row is; default one person for each row.
        n: number of private rows, where ``data`` is a function.
        budget: of a ledger that does not exist yet.
        name: of the choice in the ledger; default ``"<study> (choice)"``, or a digest of what is proposed.
        cv: folds of the public rows: a number, or a scikit-learn splitter.
        public_losses: instead of ``cv``: losses of N public rows, one row for each configuration that was searched.
        candidates: how many configurations are cross-validated at most.
        mu, public_weight, estimate_share, finalists, report_share, even_if_hopeless: see :class:`dptune.PublicChoice`.
        dry_run: only make the plan, and return a ``Choice`` that prints it. No private row is read (``data`` may be
            None, with ``n``); nothing is stored or charged.
        averages: whether averages of the best 3, 10, 30 and half are candidates, too; see
            :class:`dptune.choice.proposals.ChoiceOptions`.
        n_jobs: threads that train; -1: as many as there are CPUs.
        progress: show progress bars.

    Returns:
        A :class:`dptune.choice.proposals.Choice`: ``params``, ``selection`` and ``model``.

    Raises:
        InputError, UnsupportedMetric, BudgetExhausted, BudgetMismatch: as in
            :func:`dptune.choice.proposals.choose_among`.
    """
    if not isinstance(study, optuna.Study):
        raise dptune.InputError(f"study must be an optuna.Study; got {type(study).__name__}. Nothing was charged.")
    workers = os.cpu_count() or 1 if n_jobs == -1 else at_least("n_jobs", n_jobs, 1)
    trials = ranked(study)
    allowed = [trial for trial in trials if not _breaks_a_constraint(trial)]
    broken = f"{len(trials) - len(allowed)} finished trials break a constraint and are not candidates. "
    proposals = Proposals(
        [Candidate(parameters_of(trial), trial.number) for trial in allowed],
        searched=len(study.trials),
        name=None if study.study_name.startswith(UNNAMED) else study.study_name,
        excluded=broken if len(allowed) < len(trials) else "",
    )
    options = ChoiceOptions(
        data=data, loss=loss, ledger=ledger, public=public, default=default, groups=groups, n=n,
        budget=budget, name=name, cv=cv, public_losses=public_losses, candidates=candidates, mu=mu,
        public_weight=public_weight, estimate_share=estimate_share, finalists=finalists,
        report_share=report_share, even_if_hopeless=even_if_hopeless, dry_run=dry_run,
        averages=averages,
    )  # fmt: skip
    inputs = (train, public)
    shows = boolean("progress", progress)
    threads = _Threads(study, _training(train, options), inputs, workers=workers, progress=shows)
    try:
        choice = choose_among(proposals, threads, options, logger.info, logger.warning)
    except BudgetMismatch as error:
        if kept := choices_of(study):
            error.add_note(f"The study's answers are in its user_attrs: {', '.join(map(repr, kept))}.")
        raise
    if dry_run:
        return choice
    key = "/".join([choice.kept["charged"], choice.kept["identity"][:12], choice.name])
    told = {**choice.kept, "name": choice.name, "params": dict(choice.params), "summary": choice.summary()}
    study.set_user_attr(CHOICE + key, {**told, **choice.selection.to_dict()})
    write_note(study, "\n\n".join(map(_in_words, choices_of(study).values())))
    return choice


def choices_of(study: optuna.Study) -> dict[str, dict[str, Any]]:
    """Return what choices have stored in the study, the newest first: one for each ledger, day and name."""
    stored = {name: value for name, value in study.user_attrs.items() if name.startswith(CHOICE)}
    return dict(sorted(stored.items(), reverse=True))


def _in_words(kept: Mapping[str, Any]) -> str:
    head = f"{TITLE} choice of {kept['charged']}: {kept['name']}, ledger of {kept['ledger']}"
    return f"{head}\n\n{paragraphs(kept['summary'])}"


def parameters_of(trial: FrozenTrial) -> dict[str, Any]:
    """Return a trial's training parameters; a trial of LightGBMTuner suggests only one or two of them."""
    tuned = trial.system_attrs.get(TUNED)
    return dict(trial.params if tuned is None else json.loads(tuned))


def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """Return the completed trials with finite values, the best (or the Pareto front) first."""
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


def _breaks_a_constraint(trial: FrozenTrial) -> bool:
    """Return whether a value of ``constraints_func``, or of Optuna 5's ``trial.set_constraint``, is above 0."""
    stored = trial.system_attrs
    values = [value for name, value in stored.items() if name.startswith(CONSTRAINTS + ":")]
    return any(value > 0 for value in (*(stored.get(CONSTRAINTS) or ()), *values))


class _Objective:
    """The study's own objective, which passes a model on by :func:`candidate`."""

    def __init__(self, objective: Callable[..., Any], options: ChoiceOptions) -> None:
        self._objective = objective
        self._cv = kept_folds(options.cv)
        self._loss, self._averages = as_loss(options.loss), options.averages
        self._models = KeptModels()  # by the trial's number, those that it has trained
        self._answers: set[str] = set()  # digests of the public answers on which candidates were compared

    @property
    def lasting(self) -> bool:
        """Return whether the objective has trained its models, which are kept."""
        return len(self._models) > 0

    @property
    def evidence(self) -> object:
        """Return what all losses depend on."""
        return self._objective, self._cv, self._averages

    def _handed(self, trial: CandidateTrial) -> _Handed:
        try:
            self._objective(trial)
        except _Handed as handed:
            return handed
        raise dptune.InputError(
            "the objective returned and did not hand a model over. Add dptune_optuna.candidate(trial, model, "
            "held_out=(X_valid, y_valid)) where the model is trained, or give a function train(trial, X, y)."
        )

    def losses(self, trial: CandidateTrial) -> Losses | Answers:
        handed = self._handed(trial)
        X, y = handed.pair
        self._answers.add(hashlib.sha256(repr(np.asarray(y).tolist()).encode()).hexdigest())
        if len(self._answers) > 1:
            raise dptune.InputError(
                "two candidates came with different public rows: candidates are compared on the same rows. "
                "Give train_test_split a random_state. Nothing was charged."
            )
        everything = np.arange(len(y))  # one fold, if the model was trained on none of these rows
        folds: Any = [(everything, everything)] if handed.trained else public_folds(X, y, cv=self._cv, loss=self._loss)
        model = as_model(handed.model, self._loss, X, y) if handed.trained else None
        if model is not None:
            self._models.put(trial.number, model)
        fit = _fitted(handed.model) if model is None else lambda X, y: model
        answers = cross_validated_answers(fit, X, y, folds, self._loss, {})
        return answers if self._averages else losses_of(answers, self._loss)

    def model(self, trial: CandidateTrial) -> Any:
        if trial.number in self._models:
            return self._models.get(trial.number)
        handed = self._handed(trial)
        X, y = handed.pair
        return as_model(handed.model, self._loss, X, y) if handed.trained else _fitted(handed.model)(X, y)


def _training(train: Any, options: ChoiceOptions) -> PublicTraining | _Objective:
    if callable(train) and not is_estimator(train) and (wanted := _required(train)) != 3:
        if wanted != 1:
            raise dptune.InputError(f"train must take (trial, X, y), or be the study's objective; it takes {wanted}.")
        if options.public is not None:
            raise dptune.InputError(
                "an objective of one argument hands its public rows over itself, by dptune_optuna.candidate: leave "
                "public= out, or give a function train(trial, X, y)."
            )
        return _Objective(train, options)
    return PublicTraining(train, options, parameters=lambda trial: trial.params)


def _required(function: Callable[..., Any]) -> int:
    """Return the number of positional arguments without a default."""
    parameters = inspect.signature(function).parameters.values()
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(each.default is each.empty and each.kind in positional for each in parameters)


def _fitted(estimator: Any) -> Callable[[Any, Any], Any]:
    from sklearn.base import clone

    return lambda X, y: clone(estimator).fit(X, y)


@dataclass
class _Threads:
    """Trains candidates in parallel threads; a training's error is its result."""

    study: optuna.Study
    training: PublicTraining | _Objective
    inputs: object
    workers: int
    progress: bool

    @property
    def lasting(self) -> bool:
        return isinstance(self.training, _Objective) and self.training.lasting

    def evidence(self, candidates: Sequence[Candidate]) -> tuple[object, list[object]]:
        trials = self.study.get_trials(deepcopy=False)
        attributes = [None if one.row is None else trials[one.row].user_attrs for one in candidates]
        own: list[object] = [(one.row, one.parameters, each) for one, each in zip(candidates, attributes, strict=True)]
        return self.training.evidence, own

    def losses(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        return self._each(self.training.losses, candidates, "cross-validate on public rows", 8 * self.workers)

    def models(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        return self._each(self.training.model, candidates, "train finalists on all public rows", self.workers)

    def _each(
        self, function: Callable[[Any], Any], candidates: Sequence[Candidate], what: str, at_once: int
    ) -> Iterator[Any]:
        """Yield the results in order; when one is asked for, all threads of its batch have ended."""

        def call(one: Candidate) -> Any:
            try:
                return function(CandidateTrial(one.parameters, self.study, one.row))
            except Exception as error:  # noqa: BLE001 - public: the candidate drops out
                return error

        with tqdm(total=len(candidates), desc=what, disable=not self.progress) as bar:
            for first in range(0, len(candidates), at_once if self.workers > 1 else 1):
                batch = candidates[first : first + at_once] if self.workers > 1 else candidates[first : first + 1]
                if len(batch) == 1:
                    done = [call(batch[0])]
                else:
                    with ThreadPoolExecutor(self.workers) as pool:
                        done = list(pool.map(call, batch))
                bar.update(len(batch))
                while done:
                    yield done.pop(0)  # no name here: a model goes when its reader drops it
