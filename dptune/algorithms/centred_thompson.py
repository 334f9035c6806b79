"""Thompson sampling on centred joint releases, in any search space.

The first points are random. From then on each proposal is the bottom of a function drawn from the surrogate's
posterior (:mod:`dptune.gp.paths`): of the points tried so far, mutations of the best ones and, with categories or
conditions, random draws the one where the function is smallest, and from there a descent in its numbers. The answer is
found from the tried points with the posterior mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dptune.algorithms.centred import Centred, CentredSettings, Mask, Matrix, Vector
from dptune.parameters import Categorical, Float
from dptune.space import Space

BEST = 5  # points of which mutations are made
CANDIDATES = 300  # beside the tried points
DRAWN = 1 / 3  # share of random configurations among them, with categories or conditions
SMALLEST_STEP, LARGEST_STEP = 0.03, 0.4  # of a mutated number, in sides of the cube
SWITCHED = 0.3  # chance that a mutated category is drawn anew
DRAWS = 4  # functions drawn before a known point is proposed again, each with twice the spread and reach of the last


class CentredThompson(Centred):
    """The search; see :class:`dptune.algorithms.centred.Centred`.

    Args:
        settings: public; without a ``space`` the unit cube is searched.
    """

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.space = self.began = settings.space or cube(settings.d)
        self._answer: Vector | None = None  # since the last release: asked for at every trial

    def restarted(self) -> CentredThompson:
        """Return the algorithm before its first answer, holding the same points."""
        again = super().restarted()
        again.began = self.began
        return again

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Learn an answer; its points are those of the space of its time, in which later parameters were not active."""
        if "points" in note:
            then = Space.from_description(note["space"]) if "space" in note else self.began
            note = {**note, "points": self.space.recoded(np.array(note["points"]), then)}
        super().learn(key, note, answer, sigma, own=own)
        self._answer = None

    @property
    def centre(self) -> Vector:
        """Of every number the middle, of every category the first choice."""
        return self.space.encode(self.space.centre())

    def _propose(self, rng: np.random.Generator, proposed: Matrix) -> Vector:
        s, tried = self.settings, self._tried()
        if len(tried) < s.first:
            return np.asarray(self.space.snap(near_the_middle(self.space, s.sigma, rng)[None, :])[0])
        known = np.vstack([tried, proposed])
        for times in 2.0 ** np.arange(DRAWS):
            path = self.surrogate.draw(rng, spread=times * s.spread)
            starts = np.vstack([tried, self._candidates(tried, rng)])
            start = starts[int(np.argmin(path.values(starts)))]
            bottom = path.descend(start, reach=times * s.reach, free=self._free(start))
            x = self.space.snap(bottom[None, :])[0]
            if not (known == x).all(axis=1).any():
                break
        return np.asarray(x)

    def _candidates(self, tried: Matrix, rng: np.random.Generator) -> Matrix:
        fresh = 0 if self.space.plain else round(DRAWN * CANDIDATES)
        best = tried[np.argsort(self.surrogate.mean(tried), kind="stable")][:BEST]
        parents = best[rng.integers(len(best), size=CANDIDATES - fresh)]
        return np.vstack([drawn(self.space, fresh, rng), mutated(self.space, parents, rng)])

    def _free(self, x: Vector) -> Mask:
        """Tell which coordinates are those of active numbers, (d,)."""
        free, active = np.zeros(self.space.d, dtype=bool), self.space.activity(x[None, :])
        for name in self.space.numbers:
            free[self.space.columns[name]] = active[name][0] if name in active else True
        return free

    def _tried(self) -> Matrix:
        """The evaluated points, once each, in their order."""
        none = np.zeros((0, self.space.d))
        X = np.vstack([none, *(generation.points[: generation.new] for generation in self.generations)])
        return X[np.sort(np.unique(X, axis=0, return_index=True)[1])]

    def recommend(self) -> Vector:
        """Return where the posterior mean is smallest near the tried point that has the smallest, (d,).

        Never the argmin of noisy values.
        """
        if not self.generations:
            return self.centre
        if self._answer is None:
            tried = self._tried()
            best = tried[int(np.argmin(self.surrogate.mean(tried)))]
            bottom = self.surrogate.minimiser(best, reach=self.settings.reach, free=self._free(best))
            self._answer = self.space.snap(bottom[None, :])[0]
        return np.array(self._answer)


def joined(algorithm: CentredThompson, space: Space, *, now: Space, began: Space) -> CentredThompson:
    """Return the search before its first answer in a wider space, holding the same points.

    Args:
        algorithm: of a smaller space.
        space: which the algorithm's own has joined.
        now: the algorithm's own.
        began: that of the plan.
    """
    settings, default = algorithm.settings, algorithm.settings.default
    point = None if default is None else tuple(space.recoded(np.array([default]), now)[0].tolist())
    again = CentredThompson(replace(settings, d=space.d, space=space, default=point))
    again.began = began
    again.take_points(algorithm, lambda x: space.recoded(x[None, :], now)[0])
    return again


def cube(d: int) -> Space:
    """Return the unit cube as a space."""
    return Space({f"u{j:0{len(str(d))}d}": Float(0.0, 1.0) for j in range(d)})


def near_the_middle(space: Space, sigma: float, rng: np.random.Generator) -> Vector:
    """Return a random point: numbers normal about the middle of their range, categories even."""
    u = rng.random(space.d)
    for name in space.numbers:
        u[space.columns[name]] = 0.5 + sigma * rng.standard_normal()
    return u


def drawn(space: Space, count: int, rng: np.random.Generator) -> Matrix:
    """Return the points of random configurations, (count, d)."""
    return space.snap(rng.random((count, space.d)))


def mutated(space: Space, U: Matrix, rng: np.random.Generator) -> Matrix:
    """Return points near U (k, d): of each some parameters moved by a random step; what becomes active is drawn."""
    k = len(U)
    share = np.exp(rng.uniform(math.log(1 / len(space)), 0.0, k))
    step = np.exp(rng.uniform(math.log(SMALLEST_STEP), math.log(LARGEST_STEP), k))
    known, fresh = space.activity(U), rng.random(U.shape)
    V = np.array(U)
    for name, p in space.items():
        where, moves = space.columns[name], rng.random(k) < share
        drawn_anew = ~known.get(name, np.ones(k, dtype=bool))
        if isinstance(p, Categorical):
            drawn_anew |= moves & (rng.random(k) < SWITCHED)
        else:
            V[:, where] += (moves * step * rng.standard_normal(k))[:, None]
        V[drawn_anew, where] = fresh[drawn_anew, where]
    return space.snap(V)
