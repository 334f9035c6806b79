"""Private studies in MLflow: one run for a study, and nested in it one for each trial.

Example::

    callback = MLflowCallback(model, delta=1e-5)  # model: decorated by @sampler.objective
    study.optimize(model, n_trials=sampler.n_trials, callbacks=[callback])
    model.estimate(study, sampler.recommend(study))
    callback.update(study)  # adds releases after the last trial

Guarantee: as in :mod:`dptune_mlflow`. For a trial it writes parameters, state, and a released value, but no
    intermediate value, no user attribute, and no error of a function.
"""

from __future__ import annotations

import math
from typing import Unpack

import optuna
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune._store import ForkSafeLock
from dptune.search.run import SearchRun
from dptune_mlflow.run import MLflowRun, Where
from dptune_optuna.objective import PrivateFunction
from dptune_optuna.sampler import PrivateSampler
from dptune_optuna.studies import SIGMA, VALUE_IS

_STATUS = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}


class MLflowCallback:
    """Writes each trial, and the answer when the study's run is complete, for ``study.optimize(callbacks=[...])``.

    Curves by trial: ``value``, as far as something was released, with ``sigma`` where that is a release of its own,
    ``mu_spent`` and ``mu_left`` of the ledger. At the end ``loss`` and ``improvement`` with their 95% intervals, the
    recommendation, and as artifacts the ledger's statement and a table of all that it has released.

    Args:
        objective: a decorated objective or a ``PrivateObjective``, or the sampler.
        where: ``delta``, ``tracking_uri``, ``experiment``: see :func:`dptune_mlflow.log_run`.

    Raises:
        InputError: the objective is another one, or delta is missing.
    """

    def __init__(self, objective: PrivateFunction | PrivateSampler, **where: Unpack[Where]) -> None:
        if not isinstance(objective, PrivateFunction | PrivateSampler):
            raise dptune.InputError(
                "MLflowCallback takes a decorated objective, a PrivateObjective or a private sampler; got "
                f"{type(objective).__name__}. For any other run of a ledger, call dptune_mlflow.log_run."
            )
        self._runs = objective._runs
        self._where = where
        self._runs.request.ledger.statement(delta=where.get("delta"))  # refuses a missing delta
        self._lock = ForkSafeLock()
        self._written = dict[str, MLflowRun]()

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Write a trial, unless the study's run has not begun."""
        run = self._runs.known.get(study.study_name)
        if run is None:
            return
        written = self._of(study, run)
        numbers = dict[str, float]()
        if trial.state == TrialState.COMPLETE and run.released(str(trial.number), trial.values[0]):
            numbers = {"value": trial.values[0], "sigma": trial.user_attrs.get(SIGMA, math.inf)}  # inf is not written
        written.trial(trial.number, _STATUS[trial.state], trial.params, numbers)
        if run.complete:
            self.update(study)
        elif isinstance(so_far := run.progress().get("recommended"), dict):
            written.recommend(so_far)

    def update(self, study: optuna.Study) -> None:
        """Write what is known by now, as after ``estimate``, or where a study ends before its run is complete."""
        run = self._runs.of(study)
        if run is None:
            raise dptune.InputError("the study has no finished trial yet; there is nothing to write.")
        best = run.so_far()
        self._of(study, run).answer(best, None if best is None else run.estimated(best))

    def _of(self, study: optuna.Study, run: SearchRun) -> MLflowRun:
        name = study.study_name
        with self._lock:
            if name not in self._written:
                self._written[name] = MLflowRun(run.ledger, name, **self._where)
                self._written[name].tag(method=run.method.name, value_is=study.user_attrs.get(VALUE_IS, ""))
            return self._written[name]
