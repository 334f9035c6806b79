"""The search by centred releases for any space: candidates are random draws, and mutations of the best points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dptune._arrays import Matrix, Vector
from dptune.errors import InputError
from dptune.parameters import Categorical
from dptune.search.algorithms.centred import PROPOSALS, Centred
from dptune.search.algorithms.centred_settings import CentredSettings
from dptune.space import Space

BEST = 5  # points of which mutations are made
DRAWN = 1 / 3  # share of random configurations among the candidates
SMALLEST_STEP, LARGEST_STEP = 0.03, 0.4  # of a mutated number, in sides of the cube
SWITCHED = 0.3  # chance that a mutated category is drawn anew


class CentredMixed(Centred):
    """The search for any space; it ends with the evaluated point whose posterior mean is smallest.

    The surrogate sees a configuration as its point in the cube (:mod:`dptune.space`).

    Raises:
        InputError: the settings have no space.
    """

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        if settings.space is None:
            raise InputError("a search among categories needs space= in its settings.")
        self.space = self.began = settings.space

    def restarted(self) -> Self:
        again = super().restarted()
        again.began = self.began
        return again

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Learn an answer; its points are those of the space of its time, in which later parameters were not active."""
        if "points" in note:
            then = Space.from_description(note["space"]) if "space" in note else self.began
            note = {**note, "points": self.space.recoded(np.array(note["points"]), then)}
        super().learn(key, note, answer, sigma, own=own)

    @property
    def centre(self) -> Vector:
        """Of every number the middle, of every category the first choice."""
        return self.space.encode(self.space.centre())

    def _propose(self, rng: np.random.Generator) -> Matrix:
        s = self.settings
        count = PROPOSALS * s.population
        if not self.generations:
            return drawn(self.space, count, rng)
        total = max(s.tuning.candidates * s.population, 2 * count)
        fresh = round(DRAWN * total)
        best = self._best_of(self.generations)[:BEST]
        parents = best[rng.integers(len(best), size=total - fresh)]
        candidates = np.vstack([drawn(self.space, fresh, rng), mutated(self.space, parents, rng)])
        return self._best_under_drawn_functions(candidates, rng, spread=s.tuning.spread)

    def recommend(self) -> Vector:
        """Return the evaluated point whose posterior mean is smallest, (d,): never the argmin of noisy values."""
        return self._best_of(self.generations)[0] if self.generations else self.centre


def joined(algorithm: Centred, space: Space, *, now: Space, began: Space) -> CentredMixed:
    """Return the search before its first answer in a wider space, holding the same points.

    ``now`` is the algorithm's own space, which ``space`` has joined, and ``began`` that of the plan.
    """
    settings, default = algorithm.settings, algorithm.settings.default
    point = None if default is None else tuple(space.recoded(np.array([default]), now)[0].tolist())
    tuning = replace(settings.tuning, steps=())
    again = CentredMixed(replace(settings, d=space.d, space=space, default=point, tuning=tuning))
    again.began = began
    again.take_points(algorithm, lambda x: space.recoded(x[None, :], now)[0])
    return again


def drawn(space: Space, count: int, rng: np.random.Generator) -> Matrix:
    """Return the points of random configurations, (count, d)."""
    return space.snap(rng.random((count, space.d)))


def mutated(space: Space, U: Matrix, rng: np.random.Generator) -> Matrix:
    """Return points near U (k, d): of each some parameters moved by a random step; what becomes active is drawn."""
    k = len(U)
    share = np.exp(rng.uniform(math.log(1 / len(space)), 0.0, k))
    step = np.exp(rng.uniform(math.log(SMALLEST_STEP), math.log(LARGEST_STEP), k))
    active = space.activity(U)
    fresh = rng.random(U.shape)
    V = np.array(U)
    for name, p in space.items():
        where = space.columns[name]
        moves = rng.random(k) < share
        drawn_anew = ~active.get(name, np.ones(k, dtype=bool))
        if isinstance(p, Categorical):
            drawn_anew |= moves & (rng.random(k) < SWITCHED)
        else:
            V[:, where] += (moves * step * rng.standard_normal(k))[:, None]
        V[drawn_anew, where] = fresh[drawn_anew, where]
    return space.snap(V)
