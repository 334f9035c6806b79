"""Centred joint releases in a space with categories and conditions.

Candidates are random configurations and mutations of the best ones so far; each proposal is the best candidate under a
function drawn from the surrogate's posterior (Thompson sampling), and the answer is the evaluated point whose
posterior mean is smallest. The surrogate sees a configuration as its point in the cube (:mod:`dptune.space`).
"""

from __future__ import annotations

import math

import numpy as np

from dptune.algorithms.centred import PROPOSALS, Centred, CentredCMASettings, Matrix, Vector, best_of_each
from dptune.errors import InputError
from dptune.parameters import Categorical
from dptune.space import Space

BEST = 5  # points of which mutations are made
DRAWN = 1 / 3  # share of random configurations among the candidates
SMALLEST_STEP, LARGEST_STEP = 0.03, 0.4  # of a mutated number, in sides of the cube
SWITCHED = 0.3  # chance that a mutated category is drawn anew


class CentredMixed(Centred):
    """The search for any space; see :class:`dptune.algorithms.centred.Centred`.

    Raises:
        InputError: the settings have no space.
    """

    def __init__(self, settings: CentredCMASettings) -> None:
        super().__init__(settings)
        if settings.space is None:
            raise InputError("a search among categories needs space= in its settings.")
        self.space = settings.space

    @property
    def centre(self) -> Vector:
        """Of every number the middle, of every category the first choice."""
        return self.space.encode(self.space.centre())

    def _propose(self) -> Matrix:
        s = self.settings
        rng = np.random.default_rng([s.seed, self.t])
        count = PROPOSALS * s.population
        if not self.generations:
            return np.array([drawn(self.space, rng) for _ in range(count)])
        total = max(s.candidates * s.population, 2 * count)
        fresh = round(DRAWN * total)
        best = self._seen()[:BEST]
        candidates = np.array(
            [drawn(self.space, rng) for _ in range(fresh)]
            + [mutated(self.space, best[rng.integers(len(best))], rng) for _ in range(total - fresh)]
        )
        return candidates[best_of_each(self.surrogate.samples(candidates, count, rng, spread=s.spread))]

    def _seen(self) -> Matrix:
        """The evaluated points, best first."""
        X = np.unique(np.concatenate([generation.points for generation in self.generations]), axis=0)
        return np.asarray(X[np.argsort(self.surrogate.mean(X), kind="stable")])

    def recommend(self) -> Vector:
        """Return the evaluated point whose posterior mean is smallest, (d,): never the argmin of noisy values."""
        return self._seen()[0] if self.generations else self.centre


def drawn(space: Space, rng: np.random.Generator) -> Vector:
    """Return a random configuration's point, (d,)."""
    return space.encode(space.decode(rng.random(space.d)))


def mutated(space: Space, u: Vector, rng: np.random.Generator) -> Vector:
    """Return a point near u (d,): some of its parameters moved by a random step; what gets active is drawn."""
    share = math.exp(rng.uniform(math.log(1 / len(space)), 0.0))
    step = math.exp(rng.uniform(math.log(SMALLEST_STEP), math.log(LARGEST_STEP)))
    known = space.decode(u)
    v = rng.random(space.d)
    for name, p in space.items():
        where, moves = space.columns[name], rng.random() < share
        if name not in known or (moves and isinstance(p, Categorical) and rng.random() < SWITCHED):
            continue  # drawn
        v[where] = u[where] + (step * rng.standard_normal() if moves and not isinstance(p, Categorical) else 0.0)
    return space.encode(space.decode(v))
