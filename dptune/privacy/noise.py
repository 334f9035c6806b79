"""The only privacy randomness of the package: OpenDP's discrete noise and secret samples, unseeded.

A statistic s in R^p with L2 sensitivity Delta is scaled to unit noise, s/sigma, and rounded to OpenDP's grid of 2^-40.
It gets exact discrete Gaussian noise of standard deviation 1, and is scaled back, which is post-processing. At unit
scale the grid is 2^-40 standard deviations wide for every statistic. So the distance to the ideal rounded Gaussian
stays below 1e-20 (docs/privacy.md).

A larger sigma covers what rounding adds to the sensitivity::

    sigma = Delta (1 + SLACK) / (mu - sqrt(p) 2^-40)

where SLACK covers floating-point error in clipping, summation and float32 storage. One number with Laplace noise has
the scale Delta (1 + SLACK) / (epsilon - 2^-40), on the same grid.

A Poisson sample draws each agent independently with probability q, from the operating system's randomness. q is rounded
down to a multiple of 2^-53. The sample must stay secret: subsampling adds no privacy against an attacker who knows it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np
from opendp.domains import atom_domain, vector_domain  # opendp.prelude would import scikit-learn, which takes seconds
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import max_divergence, zero_concentrated_divergence
from opendp.metrics import absolute_distance, l2_distance, linf_distance
from opendp.mod import enable_features

from dptune._arrays import Mask, Vector
from dptune._checks import at_least, shown
from dptune.errors import InputError
from dptune.privacy.query import GRID_EXPONENT, smallest_price

SLACK = 1e-6
_BITS = 53  # bits of a uniform number
_DRAWS = ("add_gaussian", "add_laplace", "noisy_argmin", "permute_and_flip")  # methods of a NoiseSource
enable_features("contrib")


class NoiseSource(Protocol):
    """Draws noise. Releases with any source but :class:`OpenDPNoise` are reported as NOT PRIVATE."""

    def add_gaussian(self, statistic: Vector, sigma: float) -> Vector:
        """Return ``statistic`` (p,) plus N(0, sigma^2 I)."""

    def add_laplace(self, statistic: float, scale: float) -> float:
        """Return ``statistic`` plus Laplace noise of scale b: density e^(-|x|/b) / (2 b)."""

    def noisy_argmin(self, statistic: Vector, scale: float) -> int:
        """Return j with probability proportional to exp(-statistic_j / scale)."""

    def permute_and_flip(self, statistic: Vector, scale: float) -> int:
        """Return j at which statistic_j less exponential noise of mean ``scale`` is smallest."""


def noise_scale(*, sensitivity: float, mu: float, dimension: int) -> float:
    """Return sigma that makes the release mu-GDP, rounding included.

    Raises:
        InputError: mu is so small that rounding would dominate (below about 1e-9 sqrt(p)).
    """
    rounding = math.sqrt(dimension) * 2.0**GRID_EXPONENT
    if mu < smallest_price(dimension):
        raise InputError(f"mu={shown(mu)} per release is too small for {dimension} coordinates; plan fewer releases.")
    return sensitivity * (1 + SLACK) / (mu - rounding)


def laplace_scale(*, sensitivity: float, epsilon: float) -> float:
    """Return b that makes the release of one number epsilon-DP, rounding included.

    Raises:
        InputError: epsilon is so small that rounding would dominate.
    """
    if epsilon < smallest_price(1):
        raise InputError(f"epsilon={epsilon!r} is too small for a release.")
    return sensitivity * (1 + SLACK) / (epsilon - 2.0**GRID_EXPONENT)


@lru_cache(maxsize=64)
def _unit_gaussian(dimension: int, grid: int) -> Callable[[list[float]], list[float]]:
    """Return OpenDP's mechanism for a vector, which draws at each call; its construction takes longer than a draw."""
    domain = vector_domain(atom_domain(T=float, nan=False), size=dimension)
    mechanism: Callable[[list[float]], list[float]]
    mechanism = make_gaussian(domain, l2_distance(T=float), scale=1.0, k=grid)
    return mechanism


class OpenDPNoise:
    """OpenDP's discrete noise for finite statistics, seeded by the operating system; safe across fork.

    Choices are compared exactly.
    """

    __slots__ = ()  # nothing of it can be replaced

    def add_gaussian(self, statistic: Vector, sigma: float) -> Vector:
        _check_finite(statistic)
        mechanism = _unit_gaussian(len(statistic), GRID_EXPONENT)
        return np.asarray(mechanism((statistic / sigma).tolist()), dtype=np.float64) * sigma

    def add_laplace(self, statistic: float, scale: float) -> float:
        _check_finite(statistic)
        domain = atom_domain(T=float, nan=False)
        mechanism = make_laplace(domain, absolute_distance(T=float), scale=1.0, k=GRID_EXPONENT)
        return float(mechanism(statistic / scale)) * scale

    def noisy_argmin(self, statistic: Vector, scale: float) -> int:
        return _noisy_argmin(statistic, scale, pure=False)

    def permute_and_flip(self, statistic: Vector, scale: float) -> int:
        return _noisy_argmin(statistic, scale, pure=True)


@lru_cache(maxsize=2)
def _unit_choice(pure: bool) -> Callable[[list[float]], int]:
    """Return OpenDP's choice of an index: permute-and-flip, or Gumbel noise, which is the exponential mechanism."""
    measure = max_divergence() if pure else zero_concentrated_divergence()
    domain = vector_domain(atom_domain(T=float, nan=False))
    mechanism: Callable[[list[float]], int]
    mechanism = make_noisy_max(domain, linf_distance(T=float), measure, scale=1.0, negate=True)
    return mechanism


def _noisy_argmin(statistic: Vector, scale: float, *, pure: bool) -> int:
    _check_finite(statistic)
    return int(_unit_choice(pure)((statistic / scale).tolist()))


def _check_finite(statistic: Vector | float) -> None:
    if not np.isfinite(statistic).all():  # OpenDP would map NaN to 0 silently
        raise InputError("a statistic must be finite before noise is added; this is a bug in dptune.")


class SeededNoise(NoiseSource):
    """NOT PRIVATE. Reproducible noise for tests and figures; every charge made with it says so.

    A copy, or what is unpickled, starts again from the seed.

    Raises:
        InputError: the seed is not a whole number from 0.

    Example::

        LossPrivatizer(ledger, n=400, clip=(0.0, 3.0), noise=SeededNoise(0))
    """

    def __init__(self, seed: int) -> None:
        self.seed = at_least("seed", seed, 0)
        self._generator = np.random.default_rng(self.seed)

    def __reduce__(self) -> tuple[type[SeededNoise], tuple[int]]:
        return type(self), (self.seed,)

    def add_gaussian(self, statistic: Vector, sigma: float) -> Vector:
        return statistic + self._generator.normal(0.0, sigma, size=statistic.shape)

    def add_laplace(self, statistic: float, scale: float) -> float:
        return statistic + float(self._generator.laplace(0.0, scale))

    def noisy_argmin(self, statistic: Vector, scale: float) -> int:
        return int(np.argmax(self._generator.gumbel(size=statistic.shape) - statistic / scale))

    def permute_and_flip(self, statistic: Vector, scale: float) -> int:
        return int(np.argmax(self._generator.exponential(size=statistic.shape) - statistic / scale))


def noise_source(source: NoiseSource | None) -> NoiseSource:
    """Return the given source, or OpenDP's by default."""
    if source is None:
        return OpenDPNoise()
    if not all(hasattr(source, name) for name in _DRAWS):
        raise InputError(f"noise must draw noise, such as SeededNoise(0) for tests; got {type(source).__name__}.")
    return source


def is_private(noise: NoiseSource) -> bool:
    """Return whether the noise is private: only OpenDP's is."""
    return type(noise) is OpenDPNoise


# ---- secret samples --------------------------------------------------------------------------------


class SampleSource(Protocol):
    """Draws Poisson samples. A server reports NOT PRIVATE for all but :class:`SecretSample`."""

    def draw(self, n: int, q: float) -> Mask:
        """Return which of n agents are in the sample, (n,)."""


class SecretSample:
    """Poisson samples from the operating system; safe across fork."""

    __slots__ = ()  # nothing of it can be replaced

    def draw(self, n: int, q: float) -> Mask:
        uniform = np.frombuffer(os.urandom(8 * n), dtype=np.uint64) >> np.uint64(64 - _BITS)
        return np.asarray(uniform < np.uint64(int(q * 2.0**_BITS)))


class SeededSample:
    """NOT PRIVATE. Reproducible samples for tests and figures; every charge with them records that."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng([at_least("seed", seed, 0), 1])

    def draw(self, n: int, q: float) -> Mask:
        return np.asarray(self._generator.random(n) < q)


def is_secret(samples: SampleSource) -> bool:
    """Return whether the samples are secret: only the operating system's are."""
    return type(samples) is SecretSample
