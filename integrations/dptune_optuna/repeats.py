"""Private trainings repeated a secret number of times, of which the best becomes a trial of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler

from dptune.privacy.noise import NoiseSource
from dptune.training import TrainingLedger
from dptune.training.repeats import Selected, one_of
from dptune.training.repeats import repeat_and_select as _repeat_and_select
from dptune_optuna.shield import ShieldedTrial


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
        own = optuna.create_study(sampler=RandomSampler())  # repeats are independent
        own.enqueue_trial(one_of(candidates, odds))
        trial = own.ask()
        model, losses = objective(ShieldedTrial(trial))
        spaces.append((trial.params, trial.distributions))
        return trial.params, model, losses

    began = datetime.now()
    one_of(candidates, odds)  # refuses invalid values before the secret part
    best = _repeat_and_select(once, ledgers, clip=clip, secure=secure, noise=noise)
    _add(study, best, began, dict(next((space for params, space in spaces if params == best.parameters), {})))
    return best


def _add(study: optuna.Study, best: Selected, began: datetime, distributions: dict[str, BaseDistribution]) -> None:
    """Add the best, dated at the beginning: the end would reveal the number of repeats."""
    if best.model is not None and best.parameters is not None:
        params = dict(best.parameters)
        trial = optuna.trial.create_trial(params=params, distributions=distributions, value=best.score)
        trial.datetime_start = trial.datetime_complete = began
        study.add_trial(trial)
