"""Sources of noise for tests, given as ``noise=``. A release with such noise is stamped NOT PRIVATE."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class NoNoise:
    """Noise off: adds nothing, and keeps each (statistic, scale) that it was asked about."""

    def __init__(self) -> None:
        self.seen: list[tuple[Array, float]] = []

    def add_gaussian(self, statistic: Array, sigma: float) -> Array:
        self.seen.append((np.array(statistic), sigma))
        return np.array(statistic)

    def add_laplace(self, statistic: float, scale: float) -> float:
        self.seen.append((np.array([statistic]), scale))
        return statistic

    def noisy_argmin(self, statistic: Array, scale: float) -> int:
        self.seen.append((np.array(statistic), scale))
        return int(np.argmin(statistic))

    def permute_and_flip(self, statistic: Array, scale: float) -> int:
        return self.noisy_argmin(statistic, scale)

    @property
    def statistic(self) -> Array:
        """The last one."""
        return self.seen[-1][0]

    @property
    def sigma(self) -> float:
        """The last scale."""
        return self.seen[-1][1]


class CannedNoise:
    """Answers that do not depend on the statistic: what an ideal release would let an adversary see.

    They are standard normal, or ``answer`` plus noise of the size that was asked for.
    """

    def __init__(self, seed: int = 0, *, answer: float | None = None) -> None:
        self._generator = np.random.default_rng(seed)
        self._answer = answer

    def add_gaussian(self, statistic: Array, sigma: float) -> Array:
        noise = self._generator.normal(size=len(statistic))
        return noise if self._answer is None else self._answer + sigma * noise

    def add_laplace(self, statistic: float, scale: float) -> float:
        noise = float(self._generator.laplace())
        return noise if self._answer is None else self._answer + scale * noise

    def noisy_argmin(self, statistic: Array, scale: float) -> int:
        return int(self._generator.integers(len(statistic)))

    def permute_and_flip(self, statistic: Array, scale: float) -> int:
        return self.noisy_argmin(statistic, scale)
