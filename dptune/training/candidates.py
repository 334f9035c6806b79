"""A public list of configurations from which every repeat of repeat and select draws one, with replacement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import SystemRandom
from typing import Any

from dptune.errors import InputError
from dptune.gp.points import sobol_candidates
from dptune.space import Space, Value


def quasi_random(space: Space, count: int, *, seed: int = 0) -> list[dict[str, Value]]:
    """Return ``count`` configurations that fill the space evenly: a scrambled Sobol sequence, best of length 2^m.

    The list is public. A repeat draws one of them at random, whatever others drew: the bound of repeat and select needs
    repeats of one law, which a sequence that is tried in order does not have, as its n-th point tells of n repeats.

    Raises:
        InputError: count is not an integer of at least 1.
    """
    return [space.decode(u) for u in sobol_candidates(space.d, count, seed=seed)]


def one_of(candidates: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Return one of the candidates, drawn from the operating system's randomness; {} if there is no list.

    Raises:
        InputError: the list is empty.
    """
    if candidates is None:
        return {}
    if not candidates:
        raise InputError("candidates is empty: give configurations, or leave it out to draw from the whole space.")
    return dict(SystemRandom().choice(candidates))
