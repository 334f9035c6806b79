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

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune._checks import boolean
from dptune.choice.configurations import Candidate
from dptune.choice.payer import Payer
from dptune.choice.proposals import (
    Choice,
    ChoiceOptions,
    Proposals,
    choose_among,
    not_candidates,
)
from dptune.choice.workers import workers_of
from dptune.errors import BudgetMismatch
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data
from dptune_optuna.candidates import Workers
from dptune_optuna.spaces import logger
from dptune_optuna.studies import ATTRIBUTE, TITLE, paragraphs, write_note

CHOICE = ATTRIBUTE + "choice/"  # prefix of a study's user attributes: one for each choice, released facts
TUNED = "lightgbm_tuner:lgbm_params"  # trial system attribute of LightGBMTuner: all parameters that it trained with
CONSTRAINTS = "constraints"  # trial system attribute: a list, and with ":<name>" appended one value each
UNNAMED = "no-name-"  # prefix of Optuna's random names for studies without a name


def choose(
    study: optuna.Study,
    train: Any = None,
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
    n_jobs: int | None = None,
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
        averages: whether the candidates are averages of what configurations predict; see
            :class:`dptune.choice.proposals.ChoiceOptions`.
        n_jobs: number of processes, or workers of the active joblib backend, that train; -1 all cores, None 1 outside
            ``joblib.parallel_config``. ``train`` must pickle. Private rows stay in this process.
        progress: show progress bars.

    Returns:
        A :class:`dptune.choice.proposals.Choice`: ``params``, ``selection`` and ``model``.

    Raises:
        InputError, UnsupportedMetric, BudgetExhausted, BudgetMismatch: as in
            :func:`dptune.choice.proposals.choose_among`.
    """
    if not isinstance(study, optuna.Study):
        raise dptune.InputError(f"study must be an optuna.Study; got {type(study).__name__}. Nothing was charged.")
    if train is None:
        raise dptune.InputError(
            "choose(study, train, ...) needs train: the study's objective, which calls dptune_optuna.candidate, a "
            "function train(trial, X, y) -> model, or an estimator such as SVC(). Nothing was charged."
        )
    workers_of(n_jobs)
    trials = ranked(study)
    allowed = [trial for trial in trials if not _breaks_a_constraint(trial)]
    proposals = Proposals(
        [Candidate(parameters_of(trial), trial.number) for trial in allowed],
        searched=len(study.trials),
        name=None if study.study_name.startswith(UNNAMED) else study.study_name,
        excluded=_excluded(study, len(trials), len(allowed)),
        earlier=list(choices_of(study).values()),
    )
    options = ChoiceOptions(
        data=data, loss=loss, ledger=ledger, public=public, default=default, groups=groups, n=n,
        budget=budget, name=name, cv=cv, public_losses=public_losses, candidates=candidates, mu=mu,
        public_weight=public_weight, estimate_share=estimate_share, finalists=finalists,
        report_share=report_share, even_if_hopeless=even_if_hopeless, dry_run=dry_run,
        averages=averages,
    )  # fmt: skip
    shows = boolean("progress", progress)
    workers = Workers(study, train, options, n_jobs, shows)
    try:
        choice = choose_among(proposals, workers, options, logger.info, logger.warning)
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


def _excluded(study: optuna.Study, finished: int, allowed: int) -> str:
    """Return in words which trials are not candidates; "" if all are candidates."""
    counted = {
        "were pruned": _count(study, TrialState.PRUNED),
        "failed": _count(study, TrialState.FAIL),
        "did not end": _count(study, TrialState.RUNNING) + _count(study, TrialState.WAITING),
        "have no finite value": _count(study, TrialState.COMPLETE) - finished,
        "break a constraint": finished - allowed,
    }
    return not_candidates(len(study.trials), counted)


def _count(study: optuna.Study, state: TrialState) -> int:
    return len(study.get_trials(deepcopy=False, states=(state,)))


def _breaks_a_constraint(trial: FrozenTrial) -> bool:
    """Return whether a value of ``constraints_func``, or of Optuna 5's ``trial.set_constraint``, is above 0."""
    stored = trial.system_attrs
    values = [value for name, value in stored.items() if name.startswith(CONSTRAINTS + ":")]
    return any(value > 0 for value in (*(stored.get(CONSTRAINTS) or ()), *values))
