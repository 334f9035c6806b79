"""Centred joint releases in a space of numbers.

Each proposal is the point where a function drawn from the surrogate's posterior is smallest (Thompson sampling): a
search by gradient, begun at the best point tried so far under that function, and kept near it. The surrogate knows
nothing before it has values, so the first points are random. The answer is where the posterior mean is smallest near
the tried point at which it is smallest.
"""

from __future__ import annotations

import numpy as np

from dptune.algorithms.centred import Centred, Matrix, Vector

DRAWS = 4  # functions drawn before a known point is proposed again, each with twice the spread and leap of the last


class CentredNumbers(Centred):
    """The search for numbers; see :class:`dptune.algorithms.centred.Centred`."""

    @property
    def centre(self) -> Vector:
        """The centre of the cube."""
        return np.full(self.settings.d, 0.5)

    def _propose(self, key: list[int], drawn: list[Vector]) -> Matrix:
        """One that is neither tried nor proposed yet, if that is soon found."""
        rng, tried = np.random.default_rng([*key, len(drawn)]), self._tried()
        known = np.vstack([tried, *drawn])
        for draw in range(DRAWS):
            x = self._on_cells(self._drawn(rng, tried, 2**draw))
            if not (known == x).all(axis=1).any():
                break
        return x[None, :]

    def _drawn(self, rng: np.random.Generator, tried: Matrix, times: int) -> Vector:
        s = self.settings
        if len(tried) < s.random_points:
            return np.asarray(np.clip(0.5 + s.sigma * rng.standard_normal(s.d), 0.0, 1.0))
        function = self.surrogate.function(rng, spread=times * s.spread)
        return function.minimiser(tried[int(np.argmin(function(tried)))], reach=times * s.leap)

    def _on_cells(self, x: Vector) -> Vector:
        """The middle of the cell in each coordinate that has cells."""
        widths = np.array(self.settings.steps or np.zeros(len(x)))
        cells = np.where(widths > 0, widths, 1.0)
        middles = (np.minimum(np.floor(x / cells), np.round(1 / cells) - 1) + 0.5) * cells
        return np.where(widths > 0, middles, x)

    def _tried(self) -> Matrix:
        """The points of all generations, (k, d)."""
        none = np.zeros((0, self.settings.d))
        return np.vstack([none, *(generation.points[: generation.new] for generation in self.generations)])

    def recommend(self) -> Vector:
        """Return where the surrogate is smallest near the best tried point, (d,): never the argmin of noisy values."""
        tried = self._tried()
        if not len(tried):
            return self.centre
        return self.surrogate.minimiser(tried[int(np.argmin(self.surrogate.mean(tried)))], reach=self.settings.reach)
