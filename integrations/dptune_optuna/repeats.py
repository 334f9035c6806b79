"""Repeat and select on an Optuna search space: many private trainings in secret, one trial in the study.

Example::

    def objective(trial):                       # one repeat
        model = train_privately(trial.suggest_float("rate", 1e-3, 1.0, log=True))
        return model, losses_of(model)          # one loss for each scoring person

    best = repeat_and_select(study, objective, [train_ledger, val_ledger], clip=(0.0, 1.0))

Guarantee: the study gets one trial, of the best repeat and with its noisy score. The others are never stored, and their
number is nowhere to be seen (:func:`dptune.training.select.repeat_and_select` says what that is worth).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler

from dptune.training import TrainingLedger
from dptune.training.candidates import one_of
from dptune.training.select import Selected
from dptune.training.select import repeat_and_select as _repeat_and_select
from dptune_optuna.shield import ShieldedTrial

Objective = Callable[[Any], tuple[Any, Any]]


def repeat_and_select(
    study: optuna.Study,
    objective: Objective,
    ledgers: Sequence[TrainingLedger],
    *,
    clip: tuple[float, float],
    candidates: Sequence[Mapping[str, Any]] | None = None,
    secure: bool = True,
    insecure_seed: int | None = None,
) -> Selected:
    """Make a secret number of repeats and add the best to the study as its one new trial.

    Hyperparameters are drawn independently, without a seed, and uniformly over what ``trial.suggest_...`` says or over
    ``candidates``, whatever the study's sampler is: the bound does not hold for points that know of earlier ones.

    Args:
        study: a study that minimises; asked for nothing, and given the best trial.
        objective: trial -> (model, losses (n,) of the scoring people); the trial suggests and takes nothing back.
        ledgers: see :func:`dptune.training.select.repeat_and_select`; so for ``clip``, ``secure``, ``insecure_seed``.
        candidates: a public list of parameters, such as :func:`dptune.training.quasi_random` makes: each repeat draws
            one of them, with replacement. What a candidate does not name is drawn as without the list.

    Returns:
        The best: its parameters, noisy score and model.
    """
    spaces: list[tuple[Mapping[str, Any], Mapping[str, BaseDistribution]]] = []

    def once() -> tuple[Mapping[str, Any], Any, Any]:
        own = optuna.create_study(sampler=RandomSampler())  # no repeat knows of another
        own.enqueue_trial(one_of(candidates))
        trial = own.ask()
        model, losses = objective(ShieldedTrial(trial))
        spaces.append((trial.params, trial.distributions))
        return trial.params, model, losses

    began = datetime.now()
    one_of(candidates)  # refuses an empty list while that can be told
    best = _repeat_and_select(once, ledgers, clip=clip, secure=secure, insecure_seed=insecure_seed)
    _add(study, best, began, dict(next((space for params, space in spaces if params == best.parameters), {})))
    return best


def _add(study: optuna.Study, best: Selected, began: datetime, distributions: dict[str, BaseDistribution]) -> None:
    """Add the best, dated at the beginning for good: the end would tell how many repeats there were."""
    if best.model is not None and best.parameters is not None:
        params = dict(best.parameters)
        trial = optuna.trial.create_trial(params=params, distributions=distributions, value=best.score)
        trial.datetime_start = trial.datetime_complete = began
        study.add_trial(trial)
