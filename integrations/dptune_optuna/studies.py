"""The private runs of studies, and their facts for Optuna's pages.

The ledger's mark binds each run to its study's storage. All else written there is a function of released values and
public facts: each value's meaning and noise, and a note with budget and answer. Plots, data frames and optuna-dashboard
show it.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from inspect import unwrap
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.search_space import IntersectionSearchSpace
from optuna.storages import BaseStorage
from optuna.trial import Trial, TrialState

import dptune
from dptune._store import ForkSafeLock
from dptune.results import parameters_in_words
from dptune.search import VALUES
from dptune.search.asked_loss import UNNAMED
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune_optuna.spaces import (
    differing,
    logger,
    numbers_of,
    refuse_other_space,
    to_distributions,
    to_space,
)

ATTRIBUTE = "dptune:"  # prefix of every user attribute that is written here: released facts only
MARK = ATTRIBUTE + "ledger"  # a study's ledger, and its last charge
VALUE_IS = ATTRIBUTE + "value_is"  # the meaning of a study's values
LOSS = ATTRIBUTE + "loss"  # the name of the loss of a study's trials
SIGMA = ATTRIBUTE + "sigma"  # the standard deviation of the noise in a trial's released value
_BAR = 30  # cells of the budget's bar
TITLE = "## Private"  # first line of every note that is written here
_TITLE = f"{TITLE} search"
_NOTE = "dashboard:note_"  # prefix of optuna-dashboard's attributes for a note (save_note)
_PART = 2045  # longest part of a note
RESUME = "To continue, call study.optimize(objective) without n_trials: the study stops when its plan is complete."
_KEPT = "A run keeps its space and its plan: with another space= give the study a new name, and mu=."


class StudyRuns:
    """The runs of a request, one for each study; ``mixed`` allows studies with completed trials without charges.

    Without a space, the first finished trial of a study determines the searched parameters.
    """

    def __init__(self, request: SearchRequest, *, mixed: bool = False) -> None:
        self.request, self._mixed = request, mixed
        self.lock = ForkSafeLock()
        self._ends: weakref.WeakKeyDictionary[optuna.Study, weakref.finalize[Any, Any]] = weakref.WeakKeyDictionary()
        self.known: dict[str, SearchRun] = {}  # by the name of the study
        self._suggested: dict[str, IntersectionSearchSpace] = {}  # the space that each study's trials imply
        self._warned = set[str]()  # warnings given: trials that lack searched parameters or have other ranges

    def of(self, study: optuna.Study) -> SearchRun | None:
        """Return the study's run, begun or resumed; None while its search space is unknown."""
        name, request = study.study_name, self.request
        if name in self.known:
            return self.known[name]
        if request.method == VALUES:
            return self._begin(study, None)
        space = request.space or request.stored_space(name)
        if space is None:
            suggested = self._suggested.setdefault(name, IntersectionSearchSpace()).calculate(study)
            space = to_space(suggested)
        return None if space is None else self._begin(study, space)

    def begin(self, study: optuna.Study, distributions: Mapping[str, BaseDistribution]) -> SearchRun:
        """Begin the study's run with the parameters of ``distributions``, unless it has begun."""
        with self.lock:  # only one of two first trials with different parameters begins
            if (run := self.of(study)) is not None:
                return run
            space = numbers_of(distributions, whose="the first trial had")
            try:
                return self._begin(study, space)
            except dptune.errors.BudgetMismatch:
                stored = self.request.stored_space(study.study_name)
                if stored is None or self.request.space is not None or stored == space:
                    raise
                return self._begin(study, stored)  # another process was first

    def _begin(self, study: optuna.Study, space: dptune.Space | None) -> SearchRun:
        with self.lock:
            name = study.study_name
            if name not in self.known:
                self._check_ledger(study)
                run = self.request.begin(name, space)
                _announce(self.request, run)
                study.set_user_attr(MARK, self.request.ledger.mark())
                self.known[name] = run
            return self.known[name]

    def expect_end(self, study: optuna.Study, counted: tuple[TrialState, ...]) -> None:
        """Log how many of the planned trials were made, if the study ends before its plan is complete.

        A study ends when nothing refers to it any more, or when the process exits. Optuna has no hook that runs after
        ``optimize``.
        """
        if study not in self._ends:
            where = study.study_name, study._storage, study._study_id
            self._ends[study] = weakref.finalize(study, self._say_how_far, *where, counted)

    def say_end(self, study: optuna.Study, counted: tuple[TrialState, ...]) -> None:
        """Log now instead, with a recommendation."""
        self.cancel_end(study)
        self._say_how_far(study.study_name, study._storage, study._study_id, counted)

    def cancel_end(self, study: optuna.Study) -> None:
        """Log nothing at the study's end."""
        if study in self._ends:
            self._ends[study].detach()

    def _say_how_far(self, name: str, storage: BaseStorage, study: int, counted: tuple[TrialState, ...]) -> None:
        with suppress(Exception):  # the storage may be gone at the end of a process
            if (run := self.known.get(name)) is None or not (missing := run.missing()):
                return
            ended = storage.get_n_trials(study, state=counted)
            if ended < run.plan.trials:
                logger.warning(
                    f"{ended} of {run.plan.trials} planned trials of the study {name!r} have ended, and the budget is "
                    f"divided among all of them. {RESUME}"
                )
            elif run.space is not None:
                logger.warning(
                    f"{ended} trials of the study {name!r} have ended and {run.plan.trials} were planned. {missing} "
                    f"{RESUME}"
                )

    def check_start(self, study: optuna.Study) -> None:
        """Refuse, before training, a study whose run could not begin."""
        self._check_ledger(study)
        name = study.study_name
        self.request.check_start(name)

    def _check_ledger(self, study: optuna.Study) -> None:
        ledger = self.request.ledger
        mark = study.user_attrs.get(MARK)
        if mark is not None:
            ledger.check_mark(mark)
        elif not self._mixed and not self.request.begun(study.study_name) and _has_completed(study):
            raise dptune.LedgerError(
                f"the study {study.study_name!r} has completed trials, but the ledger has no run of that name: another "
                "ledger paid for them, or none did. Nothing was trained or spent. Open the ledger that paid (a path "
                "like 'ledger.db' depends on the working directory), or give a new study a new name. If the values "
                'are public and belong to this search, make the sampler with unprotected="allow".'
            )

    def compare(self, run: SearchRun, trial: Trial) -> None:
        """Compare a function's suggestions with the run's search space."""
        if run.space is None:
            return
        if self.request.space is not None:
            refuse_other_space(run.space, trial.distributions, kept=_KEPT)
            return
        self._warn_of_other_ranges(run, run.space, trial)
        if not run.space.contains(trial.params):
            self._warn_once(
                "parameters",
                f"trial {trial.number} did not suggest all that the trial did that began the search: "
                f"{', '.join(map(repr, run.space))}. Such trials cost what they cost and have no part in the search. "
                "Begin a new study with space=, the parameters that are suggested in every trial, or use "
                "PrivateObjective.",
            )

    def _warn_of_other_ranges(self, run: SearchRun, space: dptune.Space, trial: Trial) -> None:
        if not (other := differing(space, trial.distributions)):
            return
        searched = to_distributions(space)
        what = ", ".join(f"{name!r} as {trial.distributions[name]} and not as {searched[name]}" for name in other)
        self._warn_once(
            "ranges",
            f"trial {trial.number} suggested {what}, as the run {run.scope!r} searches it. The run keeps its space: "
            "what lies outside of either range is drawn, and has no part in the search. If the function has changed, "
            "give the study a new name.",
        )

    def _warn_once(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, stacklevel=4)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "known": {}, "_suggested": {}, "_ends": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _ends=weakref.WeakKeyDictionary())


def _announce(request: SearchRequest, run: SearchRun) -> None:
    say = logger.info if request.privatizer.private else logger.warning
    say(request.announcement(run))
    if warning := request.warning(run):
        logger.warning(f"The run {run.scope!r} will learn little: {warning}")


def _has_completed(study: optuna.Study) -> bool:
    """Return whether a trial has a value; inf is a placeholder for a withheld one."""
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return any(math.isfinite(value) for trial in completed for value in trial.values)


def show(study: optuna.Study, run: SearchRun, loss: str, trial: Trial | None = None) -> None:
    """Write changed facts to the study, one short attribute for each fact: dashboards truncate long ones."""
    if trial is not None and (charge := run.charge_of(str(trial.number))) is not None:
        trial.set_user_attr(SIGMA, float(charge.description["sigma"]))
    stored = study.user_attrs
    progress = run.progress()
    facts = {ATTRIBUTE + fact: value for fact, value in progress.items()}
    facts |= {} if loss == UNNAMED else {LOSS: loss}
    for name, value in {**facts, VALUE_IS: run.value_is(loss), MARK: run.ledger.mark()}.items():
        if name not in stored or stored[name] != value:
            study.set_user_attr(name, value)
            if name == VALUE_IS and study.metric_names is None:
                unwrap(optuna.Study.set_metric_names)(study, [str(value)])
    write_note(study, _note(run, progress, run.value_is(loss)))


def _note(run: SearchRun, progress: dict[str, object], value_is: str) -> str:
    """Return a study's note in Markdown: the budget as a bar, the meaning of values, the recommendation."""
    spent, budget = (float(str(progress[name])) for name in ("mu_spent", "mu_budget"))
    share = min((spent / budget) ** 2, 1.0)  # squares add up
    bar = "█" * round(_BAR * share) + "░" * (_BAR - round(_BAR * share))
    noise = f" `{SIGMA}` is the standard deviation of its noise." if run.plan.monitor_mu > 0 else ""
    lines = [
        f"{_TITLE}: {run.method.name}" + ("" if progress["private"] else " — NOT PRIVATE, its noise is seeded"),
        f"**Budget of the ledger** `{bar}` {100 * share:.0f}%: mu = {spent:.3g} of {budget:.3g} is spent",
        f"**A trial's value** is the {value_is}; `inf` as long as nothing is released about it.{noise} "
        "The smallest value is small mostly by its noise: it is not the recommendation.",
        f"**Trials** {run.plan.trials} planned, {progress['trials_failed']} failed in the process that wrote this",
        f"**Recommended** {_recommended(run, progress)}",
    ]
    return "\n\n".join(lines)


def _recommended(run: SearchRun, progress: dict[str, object]) -> str:
    if run.plan.monitor_mu > 0 and not run.complete:  # a model of all values would take too long at every trial
        stored = progress.get("recommended")
        so_far = f"{parameters_in_words(stored, '`')}. " if isinstance(stored, dict) else ""
        return f"so far: {so_far}`recommend(study)` computes it from all released values, with its interval."
    best = run.so_far()
    if best is None:
        return "when something is released that says where to look"
    return f"{'' if run.complete else 'so far: '}{parameters_in_words(best, '`')}\n\n{paragraphs(best.summary())}"


def paragraphs(lines: str) -> str:
    """Return lines as paragraphs of Markdown."""
    return lines.replace("\n", "\n\n")


def write_note(study: optuna.Study, text: str) -> None:
    """Write the study's note for optuna-dashboard, which need not be installed; keep a user's note."""
    storage, identity = study._storage, study._study_id
    stored = storage.get_study_system_attrs(identity)
    parts = {key: part for key, part in stored.items() if key.startswith(f"{_NOTE}str:")}
    before = "".join(str(parts[f"{_NOTE}str:{i}"]) for i in range(len(parts)))
    if before == text or (before and not before.startswith(TITLE)):
        return
    new = {f"{_NOTE}str:{i}": text[i * _PART : (i + 1) * _PART] for i in range(-(-len(text) // _PART))}
    version = {f"{_NOTE}ver": stored.get(f"{_NOTE}ver", 0) + 1}
    for key, part in {**version, **dict.fromkeys(parts, ""), **new}.items():
        storage.set_study_system_attr(identity, key, part)
