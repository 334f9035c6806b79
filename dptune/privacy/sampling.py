"""Secret Poisson samples: each agent is drawn with probability q, on its own, from the operating system's randomness.

The probability is rounded down to a multiple of 2^-53, so it is never above q. Who was drawn must stay secret: the
amplification by subsampling is lost towards anybody who knows it.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

_BITS = 53


class SampleSource(Protocol):
    """Draws Poisson samples. All but :class:`SecretSample` make a server say NOT PRIVATE."""

    def draw(self, n: int, q: float) -> Mask:
        """Return who of n agents is in the sample, (n,)."""
        ...


class SecretSample:
    """Poisson samples from the operating system; safe across fork."""

    def draw(self, n: int, q: float) -> Mask:
        """Return who of n agents is in the sample, (n,)."""
        uniform = np.frombuffer(os.urandom(8 * n), dtype=np.uint64) >> np.uint64(64 - _BITS)
        return np.asarray(uniform < np.uint64(int(q * 2.0**_BITS)))


class SeededSample:
    """NOT PRIVATE. Reproducible samples for tests and figures; every charge made with them says so."""

    def __init__(self, insecure_seed: int) -> None:
        self._generator = np.random.default_rng([insecure_seed, 1])

    def draw(self, n: int, q: float) -> Mask:
        """Return who of n agents is in the sample, (n,)."""
        return np.asarray(self._generator.random(n) < q)


def sample_source(given: SampleSource | None, insecure_seed: int | None) -> SampleSource:
    """Return the source that was given, one with a seed if there is a seed, and else the operating system's."""
    if given is not None:
        return given
    return SecretSample() if insecure_seed is None else SeededSample(insecure_seed)


def is_secret(samples: SampleSource) -> bool:
    """Tell whether nobody knows the samples: those of the operating system, and no others."""
    return type(samples) is SecretSample
