"""The private runs behind studies, and what Optuna's pages show of them.

Each run is bound to its study's storage by the ledger's mark. What is written there beside it is a function of released
values and public facts: what a trial's value is, the noise beside each, a note with the budget and the answer. Plots,
data frames and optuna-dashboard find it.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import unwrap
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.search_space import IntersectionSearchSpace
from optuna.storages import BaseStorage
from optuna.trial import Trial, TrialState

import dptune
from dptune._locks import ForkSafeLock
from dptune.privacy import PerExampleLosses
from dptune.results.estimate import parameters_in_words
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

ATTRIBUTE = "dptune:"  # begins the name of every user attribute that is written here: released facts only
MARK = ATTRIBUTE + "ledger"  # of a study: which ledger paid for it, and up to which charge
VALUE_IS = ATTRIBUTE + "value_is"  # of a study: what a trial's value is
LOSS = ATTRIBUTE + "loss"  # of a study: the name of the loss that its trials were asked for
SIGMA = ATTRIBUTE + "sigma"  # of a trial: the standard deviation of the noise in its released value
_BAR = 30  # cells of the bar of the budget
TITLE = "## Private"  # begins every note that is written here
_TITLE = f"{TITLE} search"
_NOTE = "dashboard:note_"  # where optuna-dashboard keeps a study's note (save_note)
_PART = 2045  # in parts of this length
LossesAt = Callable[[Mapping[str, Any]], PerExampleLosses | None]
RESUME = "To continue, call study.optimize(objective) without n_trials: the study stops when its plan is complete."
_KEPT = "A run keeps its space and its plan: with another space= give the study a new name, and mu=."


class StudyRuns:
    """The runs of a request, one for each study; ``mixed``: also of studies with completed trials that none paid for.

    Without a space the first finished trial of a study decides what is searched.
    """

    def __init__(self, request: SearchRequest, *, mixed: bool = False) -> None:
        self.request, self._mixed = request, mixed
        self.lock = ForkSafeLock()
        self._ends: weakref.WeakKeyDictionary[optuna.Study, weakref.finalize[Any, Any]] = weakref.WeakKeyDictionary()
        self.known: dict[str, SearchRun] = {}  # by the name of the study
        self._suggested: dict[str, IntersectionSearchSpace] = {}  # by the trials of each study
        self._warned = set[str]()  # of trials without parameters that are searched, of other ranges

    def of(self, study: optuna.Study) -> SearchRun | None:
        """Return the study's run, begun or continued; None as long as its search space is not known."""
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
        with self.lock:  # of two first trials with different parameters, one begins
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
        """Log it now instead, with a recommendation."""
        self.cancel_end(study)
        self._say_how_far(study.study_name, study._storage, study._study_id, counted)

    def cancel_end(self, study: optuna.Study) -> None:
        """Log nothing at the study's end."""
        if study in self._ends:
            self._ends[study].detach()

    def _say_how_far(self, name: str, storage: BaseStorage, study: int, counted: tuple[TrialState, ...]) -> None:
        with suppress(Exception):  # at the end of a process the storage may be gone
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
        """Refuse, before a model is trained, a study whose run could not begin."""
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
        """Compare what a function has suggested with the run's search space."""
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
    """Return whether a trial has a value; inf is what Optuna was given instead of one."""
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return any(math.isfinite(value) for trial in completed for value in trial.values)


def show(study: optuna.Study, run: SearchRun, loss: str, trial: Trial | None = None) -> None:
    """Write what has changed to the study, one short attribute for each fact: dashboards cut long ones off."""
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
    """Return what a study's note says, in Markdown: the budget as a bar, what a value is, the recommendation."""
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
    if run.plan.monitor_mu > 0 and not run.complete:  # a model of all values, at every trial, would take too long
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
    """Write the study's note for optuna-dashboard, which need not be installed; a note of the user's stays."""
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
