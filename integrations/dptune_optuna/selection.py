"""One of many: trials trained in any order, one of them chosen at the end and paid once; or private trainings repeated.

Example::

    objective = SelectionObjective(model, privatizer, mu=0.5, loss="log_loss", data=(X_val, y_val))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler())
    study.optimize(objective, n_trials=400)     # every trial's value is inf: nothing is released
    parameters = objective.select(study)

Guarantee: a study stores and logs a constant until :meth:`SelectionObjective.select`, which is :func:`dptune.select`.

Where the trainings themselves are private, :func:`repeat_and_select` makes a secret number of them.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import CmaEsSampler, GPSampler, NSGAIIISampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import FixedTrial, FrozenTrial, Trial, TrialState

import dptune
from dptune.choice.choosing import ChoiceSettings, check_choice, select_points
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data, Function, losses_function
from dptune.privacy import NoiseSource
from dptune.search.asked_loss import AskedLoss
from dptune.training import TrainingLedger
from dptune.training.repeats import Selected, one_of
from dptune.training.repeats import repeat_and_select as _repeat_and_select
from dptune_optuna.ending import Ending
from dptune_optuna.shield import ShieldedTrial, samplers_of, shielded, try_out, wrapped
from dptune_optuna.spaces import logger

SELECTED = "dptune:selected"  # study user attribute: the choice, a released fact
WITHHELD = math.inf  # every trial's value: nothing is known, and no trial looks good
_LEARN = (TPESampler, CmaEsSampler, GPSampler, NSGAIISampler, NSGAIIISampler)


class SelectionObjective:
    """Keeps every trial's losses and shows a constant; at the end one trial is chosen, for ``mu`` however many.

    For samplers that do not look at values: random, quasi-random, grid, brute force. Losses live in this process, n
    numbers a trial. A trial whose losses it does not have, after a restart or of another process, is trained again by
    :meth:`select`: a restart costs time, never budget.

    Args:
        function: trial -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        mu: GDP price of the choice, and of the estimate; default as in :func:`dptune.select`.
        default: every parameter that the function suggests, as you would take it without a choice; one trial must have
            them (``study.enqueue_trial(default)``). It is kept unless others are better: see :func:`dptune.select`.
        estimate_share: share of mu^2 with which the mean loss of the chosen trial is released, too.
        loss, data: see :class:`dptune_optuna.PrivateObjective`.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        InputError: a setting is out of range, or only one of ``loss`` and ``data`` is given.
    """

    def __init__(
        self,
        function: Function,
        privatizer: dptune.LossPrivatizer,
        *,
        mu: float | None = None,
        default: Mapping[str, Any] | None = None,
        estimate_share: float = 0.0,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
    ) -> None:
        if not isinstance(privatizer, dptune.LossPrivatizer):
            raise dptune.InputError(f"a LossPrivatizer must come after the function; got {type(privatizer).__name__}.")
        self._function = losses_function(function, loss, data, rows=privatizer.rows)
        AskedLoss.agreed(loss, privatizer, logger.warning)
        _ = privatizer.interval  # refuses a clip that nobody has chosen yet, before a model is trained
        if default is not None and not isinstance(default, Mapping):
            raise dptune.InputError(f"default must be a dict, of names and values; got {type(default).__name__}.")
        self._privatizer = privatizer
        self._default = None if default is None else dict(default)
        self._settings = ChoiceSettings(mu, None if default is None else 0, estimate_share)
        self._ending = Ending()
        functools.update_wrapper(self, function, updated=())

    def __call__(self, trial: Trial) -> float:
        """Train, keep the losses, return a constant.

        Raises:
            InputError: the sampler learns from values, or what came back is not a vector of losses; nothing is spent.
        """
        with self._ending.watch(trial.study):
            for sampler in samplers_of(trial.study):
                if isinstance(sampler, _LEARN):
                    raise dptune.InputError(
                        f"{type(sampler).__name__} learns from values, and here every value is {WITHHELD:g} until the "
                        "end. Create the study with sampler= RandomSampler(), QMCSampler(), GridSampler() or "
                        "BruteForceSampler()."
                    )
            losses = shielded(self._function, ShieldedTrial(trial), wrapped)
            self._privatizer.submit(_point(trial.study, trial), losses)
        return WITHHELD

    def select(self, study: optuna.Study, *, name: str | None = None) -> dict[str, Any]:
        """Choose among the study's completed trials; return the parameters of the chosen one.

        The study may also be one that another objective has optimised: its trials are then trained again, and chosen
        among, at the price of one choice. What is chosen stays: trials that are added later need another ``name``, of
        the choice in the ledger. With ``estimate_share`` the estimate is in ``study.user_attrs["dptune:selected"]``.

        Raises:
            InputError: fewer than two trials are complete, or none has the ``default`` parameters; nothing is trained.
            BudgetExhausted: the ledger has not ``mu`` left; before anything is trained.
            BudgetMismatch: the choice was made among other trials, or with other settings.
        """
        name = name or f"{study.study_name} (selection)"
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        default = self._place_of_default(study, trials)
        stored = study.user_attrs.get(SELECTED, {})
        asked = {"name": name, "candidates": len(trials), "default": default}
        if any(stored.get(key) != value for key, value in asked.items()):
            stored = {**asked, **self._select(study, name, trials, default)}
            study.set_user_attr(SELECTED, stored)
        return dict(next(trial.params for trial in trials if trial.number == stored["trial"]))

    def _select(self, study: optuna.Study, name: str, trials: list[FrozenTrial], default: int | None) -> dict[str, Any]:
        settings = replace(self._settings, default=default)
        check_choice(self._privatizer, name, settings)  # before a model is trained
        points = [_point(study, trial) for trial in trials]
        held = set(self._privatizer.points())
        for point, trial in zip(points, trials, strict=True):
            if point not in held:
                shield = ShieldedTrial(FixedTrial(trial.params, trial.number))
                self._privatizer.submit(point, shielded(self._function, shield, wrapped))
        chosen = select_points(points, self._privatizer, name, settings)
        loss = chosen.estimate and {"value": chosen.estimate.value, "sigma": chosen.estimate.sigma}
        return {"trial": trials[chosen.index].number, "loss": loss, "mu": chosen.mu, "private": chosen.private}

    def _place_of_default(self, study: optuna.Study, trials: Sequence[FrozenTrial]) -> int | None:
        """Return which completed trial has the default's values; a default may name inactive parameters, too."""
        if (default := self._default) is None:
            return None
        places = [place for place, trial in enumerate(trials) if _is_of(trial, default)]
        if places:
            return places[0]
        begins = f"no completed trial has the parameters of default= ({default}): "
        if failed := [trial.number for trial in study.get_trials(deepcopy=False) if _is_of(trial, default)]:
            raise dptune.InputError(
                f"{begins}trial {failed[0]} has them and did not complete. See why: try_out(default)."
            )
        suggested = set.intersection(*(set(trial.params) for trial in trials)) if trials else set[str]()
        if missing := sorted(suggested - default.keys()):
            raise dptune.InputError(f"{begins}it has no {', '.join(map(repr, missing))}, which every trial has.")
        raise dptune.InputError(
            f"{begins}add one with study.enqueue_trial(default) and study.optimize(objective, n_trials=1)."
        )

    def try_out(self, parameters: dict[str, Any]) -> str:
        """Call the function once outside any study and let its exceptions through, to find bugs; nothing is spent."""
        return try_out(self._function, parameters, self._privatizer, ShieldedTrial)


def _is_of(trial: FrozenTrial, parameters: Mapping[str, Any]) -> bool:
    return bool(trial.params) and all(
        name in parameters and np.array_equal(value, parameters[name]) for name, value in trial.params.items()
    )


def _point(study: optuna.Study, trial: Trial | FrozenTrial) -> str:
    """Return a name that no other study and no other parameters share."""
    parameters = json.dumps(trial.params, sort_keys=True, default=str)
    return json.dumps(["selection", study.study_name, trial.number, parameters])


def repeat_and_select(
    study: optuna.Study,
    objective: Callable[[Any], tuple[Any, Any]],
    ledgers: Sequence[TrainingLedger],
    *,
    clip: tuple[float, float],
    candidates: Sequence[Mapping[str, Any]] | None = None,
    odds: Sequence[float] | None = None,
    secure: bool = True,
    noise: NoiseSource | None = None,
) -> Selected:
    """Make a secret number of repeats and add the best to the study, which minimises, as its one new trial.

    Hyperparameters are drawn independently, without a seed, and uniformly over what ``trial.suggest_...`` says or over
    ``candidates``, whatever the study's sampler is. The bound does not hold for points that know of earlier ones. The
    other repeats are never stored, and their number is nowhere to be seen; what that is worth, and the other arguments,
    are in :func:`dptune.training.repeats.repeat_and_select`.

    Args:
        objective: trial -> (model, losses (n,) of the scoring people); the trial suggests and takes nothing back.
        candidates: a public list of parameters, such as :func:`dptune.training.quasi_random` makes: each repeat draws
            one of them, with replacement. What a candidate does not name is drawn as without the list.
        odds: of each candidate, public numbers above 0, such as those that a study of public proxy rows suggests.

    Example: ``best = repeat_and_select(study, objective, [train_ledger, val_ledger], clip=(0.0, 1.0))``
    """
    spaces: list[tuple[Mapping[str, Any], Mapping[str, BaseDistribution]]] = []

    def once() -> tuple[Mapping[str, Any], Any, Any]:
        own = optuna.create_study(sampler=RandomSampler())  # no repeat knows of another
        own.enqueue_trial(one_of(candidates, odds))
        trial = own.ask()
        model, losses = objective(ShieldedTrial(trial))
        spaces.append((trial.params, trial.distributions))
        return trial.params, model, losses

    began = datetime.now()
    one_of(candidates, odds)  # refuses what is not usable while that can be told
    best = _repeat_and_select(once, ledgers, clip=clip, secure=secure, noise=noise)
    _add(study, best, began, dict(next((space for params, space in spaces if params == best.parameters), {})))
    return best


def _add(study: optuna.Study, best: Selected, began: datetime, distributions: dict[str, BaseDistribution]) -> None:
    """Add the best, dated at the beginning for good: the end would tell how many repeats there were."""
    if best.model is not None and best.parameters is not None:
        params = dict(best.parameters)
        trial = optuna.trial.create_trial(params=params, distributions=distributions, value=best.score)
        trial.datetime_start = trial.datetime_complete = began
        study.add_trial(trial)
