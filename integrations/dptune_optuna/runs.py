"""The runs that pay for studies, each bound to its study's storage."""

from __future__ import annotations

import math
from typing import Any

import optuna
from optuna.trial import TrialState

import dptune
from dptune._locks import ForkSafeLock
from dptune.search.request import SearchRequest
from dptune.search.run import SearchRun
from dptune_optuna.pages import MARK

_logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity


class StudyRuns:
    """The runs of a request, one for each study; each is bound to the study's storage.

    Args:
        request: what the user asks for.
        mixed: whether a run may begin in a study with completed trials that no run has paid for.
    """

    def __init__(self, request: SearchRequest, *, mixed: bool = False) -> None:
        self.request, self._mixed = request, mixed
        self._runs: dict[str, SearchRun] = {}
        self.lock = ForkSafeLock()

    def of(self, study: optuna.Study) -> SearchRun | None:
        """Return the study's run, or None if this process has not begun it."""
        return self._runs.get(study.study_name)

    def any(self) -> SearchRun | None:
        """Return one of the runs, or None."""
        return next(iter(self._runs.values()), None)

    def begin(self, study: optuna.Study, space: dptune.Space | None) -> SearchRun:
        """Begin the study's run, or continue it from the ledger; a run that this process has begun is returned.

        Raises:
            LedgerError: the study was paid for by another ledger, or by a later state of this one.
            BudgetMismatch: the run was begun with other settings or another privatizer.
            BudgetExhausted: the ledger has not that much left for a new run.
        """
        with self.lock:
            name = study.study_name
            if name not in self._runs:
                self._check_ledger(study)
                run = self.request.begin(name, space)
                _announce(self.request, run)
                study.set_user_attr(MARK, self.request.ledger.mark())
                self._runs[name] = run
            return self._runs[name]

    def extend(self, study: optuna.Study, run: SearchRun, n_trials: int, mu: float | None) -> None:
        """Let the study go on with what extends its run; see :meth:`dptune.SearchRun.extend`."""
        with self.lock:
            self._runs[study.study_name] = extension = run.extend(trials=n_trials, mu=mu)
        _announce(self.request, extension)

    def check_start(self, study: optuna.Study) -> None:
        """Refuse, before a model is trained, a study whose run could not begin.

        Raises:
            LedgerError: the study was paid for by another ledger, or by a later state of this one.
            BudgetExhausted: the ledger has not the budget left.
        """
        self._check_ledger(study)
        self.request.check_start(study.study_name)

    def _check_ledger(self, study: optuna.Study) -> None:
        ledger, mark = self.request.ledger, study.user_attrs.get(MARK)
        if mark is not None:
            ledger.check_mark(mark)
        elif not self._mixed and not self.request.begun(study.study_name) and _has_completed(study):
            raise dptune.LedgerError(
                f"the study {study.study_name!r} has completed trials, but the ledger has no run of that name: another "
                "ledger paid for them, or none did. Nothing was trained or spent. Open the ledger that paid (a path "
                "like 'ledger.db' depends on the working directory), or give a new study a new name. If the values "
                'are public and belong to this search, make the sampler with unprotected="allow".'
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": {}}


def _announce(request: SearchRequest, run: SearchRun) -> None:
    say = _logger.info if request.privatizer.private else _logger.warning
    say(request.announcement(run))
    if warning := request.warning(run):
        _logger.warning(f"The run {run.scope!r} will learn little: {warning}")


def _has_completed(study: optuna.Study) -> bool:
    """Tell whether a trial has a value; inf is what Optuna was given instead of one."""
    completed = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return any(math.isfinite(value) for trial in completed for value in trial.values)
