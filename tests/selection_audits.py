"""The audits of the exponential mechanism, for the package (tests/selection) and for planted bugs in it.

Everything goes through ``LossPrivatizer.release``; the reference is worked out here, from the definition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from audit_tools import MISTAKE, answers, lower_bound
from scipy.stats import chi2, norm

from dptune.privacy import Box, MeanQuery
from dptune.privacy.mechanism import Mechanism, NoisyMin
from dptune.privacy.noise import NoiseSource

Array = npt.NDArray[np.float64]
Making = Callable[[NoiseSource], Mechanism]


def released(losses: Array, mu: float, count: int, clip: tuple[float, float], making: Making = NoisyMin) -> Array:
    """Return ``count`` releases about the same people, (count, p); losses are (m, n)."""
    m = len(losses)
    query = MeanQuery(tuple(f"x{j}" for j in range(m)), np.eye(m), Box(*clip, m), mu)
    return answers(query, losses, count, clip, making)


def softmax(losses: Array, mu: float, clip: tuple[float, float]) -> Array:
    """Return the probabilities (m,) of the definition: exp(-eta u_j / (2 Delta)), Delta = (high - low) / n."""
    eta = 2 * (norm.logcdf(mu / 2) - norm.logcdf(-mu / 2))
    score = -eta * np.clip(losses, *clip).mean(axis=1) * losses.shape[1] / (2 * (clip[1] - clip[0]))
    weights = np.exp(score - score.max())
    return np.asarray(weights / weights.sum())


def audit_law(
    making: Making = NoisyMin, *, count: int = 600, mu: float = 1.0, seed: int = 0, prior: tuple[float, ...] = (1,) * 6
) -> None:
    """The index has the exact law, with the public prior that ``making`` has, and nothing but the index is released."""
    rng, clip = np.random.default_rng(seed), (0.5, 2.5)
    losses = np.clip(rng.uniform(0.4, 1.0, (6, 1)) + rng.normal(0, 0.3, (6, 20)), 0, 3)
    found = released(losses, mu, count, clip, making)
    assert found.shape == (count, 1), f"released {found.shape[1]} numbers, not one index"
    assert set(found.ravel().tolist()) <= set(range(6)), "released something that is no index"
    weights = softmax(losses, mu, clip) * np.array(prior)
    expected = count * weights / weights.sum()
    seen = np.bincount(found.ravel().astype(int), minlength=6)
    distance = float(np.sum((seen - expected) ** 2 / expected))
    assert chi2.sf(distance, 5) > MISTAKE, f"chi-square {distance:.1f}: not the law of the exponential mechanism"


def audit_worst_pair(making: Making = NoisyMin, *, mu: float = 3.0, count: int = 1200, least: float = 0.7) -> float:
    """What an adversary proves about the worst pair is at most the claimed mu, and more than ``least`` of it.

    Two candidates; person 0 likes the first and hates the second, the neighbour does the opposite.
    """
    people = np.full((2, 5), 0.5)
    people[:, 0] = -np.inf, np.inf
    a, b = (released(pair, mu, count, (0.0, 1.0), making)[:, 0] for pair in (people, people[::-1]))
    bound = lower_bound(a, b, 0.5)
    assert bound <= mu, f"an adversary proves mu >= {bound:.3f}, but only {mu:.3f} was paid"
    assert bound > least * mu, (
        f"the audit proves only mu >= {bound:.3f} of {mu:.3f}: it is blind or the noise too large"
    )
    return bound
