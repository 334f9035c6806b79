"""Made-up losses: some in which nothing can be gained, and one in which a minority loses much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.frontier.tasks import FrontierTask
from benchmarks.mixed_space import Space
from dptune import Float

Parameters = Mapping[str, Any]


_CUBE = Space({f"u{j}": Float(0.0, 1.0) for j in range(3)})
_JUDGES = 4000


def _made_up(
    name: str,
    people: Callable[[np.random.Generator, int], Callable[[Array], Array]],
    clip: tuple[float, float],
    default: tuple[float, ...],
) -> Callable[[int, int], FrontierTask]:
    def task(n: int, split: int) -> FrontierTask:
        private = people(np.random.default_rng([73, split]), n)
        judges = people(np.random.default_rng([74, split]), _JUDGES)

        def at(losses: Callable[[Array], Array], p: Parameters) -> Array:
            return np.clip(losses(np.array([p[name] for name in _CUBE])), *clip)

        start = dict(zip(_CUBE, default, strict=True))
        return FrontierTask(
            _CUBE, start, n, clip, lambda p: at(private, p), lambda p: float(at(judges, p).mean()), name
        )

    return task


def _nothing(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """The loss does not depend on the parameters."""
    level = rng.beta(1, 4, n)
    return lambda x: level.copy()


def _nearly_flat(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """Each person prefers another place."""
    level, places = 0.5 * rng.beta(1, 4, n), rng.random((n, 3))
    return lambda x: level + 0.3 * ((x - places) ** 2).mean(axis=1)


def _minority(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """Where 85 of 100 gain a little, 15 lose much."""
    bad, level, size = rng.random(n) < 0.15, 0.3 * rng.beta(1, 4, n), rng.gamma(2, 0.5, n)

    def losses(x: Array) -> Array:
        share = np.where(bad, 2.2 * x[0] * size, 0.3 * size * (1 - x[0]))
        return np.asarray(level + share + 0.1 * ((x[1:] - 0.5) ** 2).sum())

    return losses


def _bowl(rng: np.random.Generator, n: int) -> Callable[[Array], Array]:
    """Everybody's best place is near .7."""
    level, weight, places = 0.3 * rng.beta(1, 4, n), rng.gamma(2, 0.5, n), 0.7 + 0.1 * rng.standard_normal((n, 3))
    return lambda x: level + 0.5 * weight * ((x - places) ** 2).mean(axis=1)


MADE_UP = {
    "nothing to gain": _made_up("nothing to gain", _nothing, (0.0, 1.0), (0.3, 0.3, 0.3)),
    "nearly flat": _made_up("nearly flat", _nearly_flat, (0.0, 1.0), (0.5, 0.5, 0.5)),
    "minority loses": _made_up("minority loses", _minority, (0.0, 5.0), (0.1, 0.5, 0.5)),
    "bowl": _made_up("bowl", _bowl, (0.0, 1.0), (0.3, 0.3, 0.3)),
}
