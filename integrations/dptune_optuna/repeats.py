"""Private trainings repeated a secret number of times, of which the best becomes a trial of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler
from optuna.study import StudyDirection

from dptune._checks import json_data, kind
from dptune.errors import InputError
from dptune.privacy.noise import NoiseSource
from dptune.training import TrainingLedger
from dptune.training.repeats import Selected, one_of
from dptune.training.repeats import repeat_and_select as _repeat_and_select
from dptune_optuna.shield import ShieldedTrial
from dptune_optuna.spaces import logger


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

    If the study cannot take that trial, the best is returned nevertheless, and a warning says so.

    Hyperparameters are drawn independently, without a seed, and uniformly over what ``trial.suggest_...`` says or over
    ``candidates``, whatever the study's sampler is. The bound does not hold for points that know of earlier ones. The
    other repeats are never stored, and their number is nowhere to be seen; what that is worth, and the other arguments,
    are in :func:`dptune.training.repeats.repeat_and_select`.

    Args:
        objective: trial -> (model, losses (n,) of the scoring people); the trial suggests and takes nothing back.
        candidates: a public list of parameters, such as :func:`dptune.training.quasi_random` makes: each repeat draws
            one of them, with replacement. What a candidate does not name is drawn as without the list, and a name that
            the objective does not suggest has no effect.
        odds: of each candidate, public numbers above 0, such as those that a study of public proxy rows suggests.

    Raises:
        InputError: the study does not minimise one value, or what the selection refuses; nothing is charged.

    Example: ``best = repeat_and_select(study, objective, [train_ledger, val_ledger], clip=(0.0, 1.0))``
    """
    _refuse_other_study(study)
    made: list[tuple[object, Mapping[str, Any], Mapping[str, BaseDistribution]]] = []

    def once() -> tuple[Mapping[str, Any], Any, Any]:
        own = optuna.create_study(sampler=RandomSampler())  # repeats are independent
        own.enqueue_trial(one_of(candidates, odds))
        trial = own.ask()
        model, losses = objective(ShieldedTrial(trial))
        parameters = json_data("hyperparameters", trial.params)  # tuples become lists; the ledger has them too
        made.append((parameters, trial.params, trial.distributions))
        return parameters, model, losses

    began = datetime.now()
    one_of(candidates, odds)  # refuses invalid values before the secret part
    best = _repeat_and_select(once, ledgers, clip=clip, secure=secure, noise=noise)
    if best.model is not None:  # None: no repeat has made one, or an earlier call has added it
        params, distributions = next((own, of) for parameters, own, of in made if parameters == best.parameters)
        try:
            _add(study, best.score, began, params, distributions)
        except Exception as error:  # noqa: BLE001 - the selection is paid for and its model is kept nowhere else
            logger.warning(  # a warning may be an error
                "The best is returned and in the ledger, but the study could not take it as a trial "
                f"({type(error).__name__}). Does a candidate have a value outside of what the objective suggests, or "
                "can the study's storage not be written?"
            )
    return best


def _refuse_other_study(study: object) -> None:
    """Refuse, before anything is charged, a study that could not take the best as a trial."""
    if not isinstance(study, optuna.Study):
        raise InputError(f"the first argument must be an Optuna study; got {kind(study)}. Nothing was charged.")
    if study.directions != [StudyDirection.MINIMIZE]:
        raise InputError(
            "the best becomes a trial whose one value is its score, a mean loss, so the study must minimise it: "
            'optuna.create_study(direction="minimize"). Nothing was charged.'
        )


def _add(
    study: optuna.Study,
    score: float,
    began: datetime,
    params: Mapping[str, Any],
    distributions: Mapping[str, BaseDistribution],
) -> None:
    """Add the best, dated at the beginning: the end would reveal the number of repeats."""
    trial = optuna.trial.create_trial(params=dict(params), distributions=dict(distributions), value=score)
    trial.datetime_start = trial.datetime_complete = began
    study.add_trial(trial)
