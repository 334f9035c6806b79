"""What a study says about the randomiser of its replies: public settings in its user attributes.

Each randomiser has an attribute of its own, ``dptune:local:<digest of its settings>``, which nobody overwrites: a
study that once was NOT PRIVATE says so for good, whatever ran at the same time. A study has one randomiser; where two
processes begin one with different ones, at least one of them is refused before anything is measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import optuna
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection

import dptune
from dptune.bandits.replies import middle_of

PROMISE = "dptune:local"  # begins the name of the study user attributes


def promises(study: optuna.Study) -> list[Mapping[str, Any]]:
    """Return the settings of the randomisers of the study's replies: none, one, or several of refused attempts."""
    attributes = study._storage.get_study_user_attrs(study._study_id)
    return [value for name, value in sorted(attributes.items()) if name.startswith(PROMISE)]


def promise(study: optuna.Study, settings: Mapping[str, Any]) -> None:
    """Write a randomiser's settings to the study, if they are its own.

    Raises:
        InputError: a failed measurement would count as the best value, the study has another randomiser, or its sampler
            has settings for other replies.
    """
    _refuse_rewarded_failure(study, settings)
    known = _is_the_only_one(study, settings)
    for sampler in _samplers(study.sampler):
        if isinstance(sampler, ReadsReplies):
            sampler.check_randomizer(settings)
    if not known:
        text = json.dumps(settings, sort_keys=True)
        study.set_user_attr(f"{PROMISE}:{hashlib.sha256(text.encode()).hexdigest()[:16]}", dict(settings))
        _is_the_only_one(study, settings)  # two processes may have begun together


@runtime_checkable
class ReadsReplies(Protocol):
    """A sampler that assumes something about replies."""

    def check_randomizer(self, settings: Mapping[str, Any]) -> None:
        """Refuse a randomiser that makes other replies.

        Raises:
            InputError: it does.
        """


def _samplers(sampler: BaseSampler) -> Iterator[BaseSampler]:
    """The sampler and those it wraps, as PartialFixedSampler does."""
    yield sampler
    inner = getattr(sampler, "_base_sampler", None)
    if isinstance(inner, BaseSampler):
        yield from _samplers(inner)


def stated_centre(study: optuna.Study, stated: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the middle of the interval of the study's randomiser, or None if the study does not say.

    Raises:
        InputError: randomisers with different intervals began the study.
    """
    middles = {middle for settings in stated if (middle := middle_of(settings)) is not None}
    if len(middles) > 1:
        raise _several(study)
    return middles.pop() if middles else None


def _is_the_only_one(study: optuna.Study, settings: Mapping[str, Any]) -> bool:
    """Tell whether the settings are stored.

    Raises:
        InputError: others are.
    """
    stored = promises(study)
    if any(others != settings for others in stored):
        raise _several(study)
    return bool(stored)


def _several(study: optuna.Study) -> dptune.InputError:
    return dptune.InputError(
        f"the study {study.study_name!r} was begun with another randomiser; its attributes {PROMISE}:... have the "
        "settings. A study has one randomiser: give the same epsilon, bound and invalid, or begin a new study."
    )


def _refuse_rewarded_failure(study: optuna.Study, settings: Mapping[str, Any]) -> None:
    if len(study.directions) != 1:
        raise dptune.InputError("a reply is one value: create the study with one direction.")
    best = "high" if study.direction == StudyDirection.MAXIMIZE else "low"
    invalid = settings.get("invalid")
    if invalid is not None and invalid == settings.get(best):
        worst = settings.get("low" if best == "high" else "high")
        raise dptune.InputError(
            f'with direction="{study.direction.name.lower()}" a setting that fails would win: its value counts as '
            f"invalid={invalid!r}, the best in the interval. Give the randomiser invalid={worst!r}, the worst."
        )
