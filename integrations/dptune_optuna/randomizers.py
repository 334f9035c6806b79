"""What a study says of the randomiser that made its replies.

Each randomiser has an attribute of its own, which nobody overwrites: a study that once was NOT PRIVATE says so for
good, whatever ran at the same time. Where two processes begin a study with different randomisers, at least one of
them is refused before anything is measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import optuna
from optuna.study import StudyDirection

import dptune
from dptune.bandits.replies import refuse_winning_failure

RANDOMIZER = "dptune:local:"  # begins the names of the study user attributes that say what protects the users


def randomizers_of(study: optuna.Study) -> list[Mapping[str, Any]]:
    """Return the settings of the randomisers of the study's replies: none, one, or several of refused attempts."""
    attributes = study._storage.get_study_user_attrs(study._study_id)
    return [value for name, value in sorted(attributes.items()) if name.startswith(RANDOMIZER)]


def state_randomizer(
    study: optuna.Study, settings: Mapping[str, Any], agree: Iterable[Callable[[Mapping[str, Any]], object]]
) -> None:
    """Write a randomiser's settings to the study.

    Args:
        study: of the replies.
        settings: of the randomiser.
        agree: what raises if the study's sampler has settings for other replies.

    Raises:
        InputError: a failed measurement would count as the best value, the study has another randomiser, or its sampler
            has settings for other replies.
    """
    if len(study.directions) != 1:
        raise dptune.InputError("a reply is one value: create the study with one direction.")
    refuse_winning_failure(settings, maximize=study.direction == StudyDirection.MAXIMIZE)
    known = _is_stated(study, settings)
    for sampler_agrees in agree:
        sampler_agrees(settings)
    if not known:
        text = json.dumps(settings, sort_keys=True)
        study.set_user_attr(RANDOMIZER + hashlib.sha256(text.encode()).hexdigest()[:16], dict(settings))
        _is_stated(study, settings)  # two processes may have begun together


def _is_stated(study: optuna.Study, settings: Mapping[str, Any]) -> bool:
    """Tell whether the study states these settings.

    Raises:
        InputError: it states others.
    """
    stated = randomizers_of(study)
    if any(others != settings for others in stated):
        raise another_randomizer(study)
    return bool(stated)


def another_randomizer(study: optuna.Study) -> dptune.InputError:
    """Return the refusal of a second randomiser."""
    return dptune.InputError(
        f"the study {study.study_name!r} was begun with another randomiser; its attributes {RANDOMIZER}... have the "
        "settings. A study has one randomiser: give the same epsilon, bound and invalid, or begin a new study."
    )
