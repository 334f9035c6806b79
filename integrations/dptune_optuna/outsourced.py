"""PO-GP-UCB in Optuna, for the modeler: the row number of a released table is the parameter.

Use::

    exchange = Exchange("shared")  # the curator runs in another process
    table = exchange.table()
    sampler = POGPUCBSampler(table, RBF(8.0, variance=4.0), noise_variance=0.01)
    study = optuna.create_study(sampler=sampler, direction=sampler.direction)
    study.optimize(lambda trial: exchange.evaluate(trial.suggest_int("row", 0, len(table.values) - 1)), n_trials=50)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune.outsourced.formats import Table
from dptune.search.gp import RBF
from dptune.space import Value
from dptune_optuna.spaces import Distributions, SpaceSampler, logger

_ROW = "row"  # name of the parameter with the row's number, from 0
_DEAD = 1000  # a trial this much older than the newest one is considered lost


class POGPUCBSampler(SpaceSampler):
    """Proposes rows of a released table by GP-UCB on its noisy features; see :mod:`dptune.outsourced.modeler`.

    The table is released and the outputs are what the curator answers, so study, values and parameters may be shown to
    anybody who may see those. The sampler's state is a function of the study's finished trials: any process resumes.

    Args:
        kernel: prior covariance of the outputs on the rows before noise.
        settings: of the :class:`~dptune.outsourced.OutsourcedModeler`: ``noise_variance``, and optionally ``mean``,
            ``delta``, ``exploration``.

    Raises:
        InputError: a setting is out of range; later, a study whose direction is not the table's, or a row that was
            suggested from another range.
    """

    def __init__(self, table: Table, kernel: RBF, **settings: Any) -> None:
        super().__init__(warn_independent_sampling=False)
        self._table, self._kernel, self._settings = table, kernel, settings
        self._rows = IntDistribution(0, len(table.values) - 1)
        self._start()

    def _start(self) -> None:
        self.modeler = dptune.outsourced.OutsourcedModeler(self._table, self._kernel, **self._settings)
        self._told: dict[int, tuple[int, float | None]] = {}  # id -> row and value of the trials that it has learned

    @property
    def direction(self) -> str:
        """Return the direction that a study must have."""
        return "maximize" if self._table.facts.maximise else "minimize"

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {_ROW: self._rows}

    def _propose(self, study: optuna.Study, number: int, suggested: Distributions) -> Mapping[str, Value]:
        if study.direction.name.lower() != self.direction:
            raise dptune.InputError(f'this table goes with direction="{self.direction}"; the study has another.')
        trials = study.get_trials(deepcopy=False)
        self._follow(trials)
        recent = (t for t in trials[-_DEAD:] if t.state == TrialState.RUNNING)
        return {_ROW: self.modeler.ask({t.params[_ROW] for t in recent if self._fits(t)})}

    def _follow(self, trials: list[FrozenTrial]) -> None:
        learned = [t for t in trials if t.state == TrialState.COMPLETE and self._fits(t)]
        done = {t._trial_id: (t.params[_ROW], t.value) for t in learned}
        if not self._told.items() <= done.items():
            self._start()  # another study, whose trials may have the same ids
        for identity in sorted(done.keys() - self._told.keys()):
            row, value = done[identity]
            if value is not None and math.isfinite(value):
                self.modeler.tell(row, value)
            self._told[identity] = row, value

    def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        """Refuse a trial whose row has another range, and warn of one without a row: neither is learned from.

        Raises:
            InputError: the row was suggested from another range, so that all trials would get the same row.
        """
        if state != TrialState.COMPLETE or self._fits(trial):
            return
        wanted = f'the objective must call trial.suggest_int("{_ROW}", {self._rows.low}, {self._rows.high})'
        if _ROW in trial.params:
            raise dptune.InputError(
                f"trial {trial.number} suggested its row from another range. Nothing is learned from it: {wanted}, "
                "for the rows of this table."
            )
        logger.warning(f"Trial {trial.number} suggested no row of the table, so nothing is learned from it: {wanted}.")

    def _fits(self, trial: FrozenTrial) -> bool:
        return trial.distributions.get(_ROW) == self._rows

    def recommend(self, study: optuna.Study) -> dict[str, int]:
        """Return the evaluated row with the best posterior mean: never the best noisy output.

        Raises:
            InputError: no trial has finished yet.
        """
        self._follow(study.get_trials(deepcopy=False))
        return {_ROW: self.modeler.recommend()}
