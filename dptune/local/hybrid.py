"""The hybrid mechanism on the user's device: clamp a value, and reply exactly from a bounded interval.

Wang et al., *Collecting and Analyzing Multidimensional Data with Local Differential Privacy* (ICDE 2019), section 3.
With probability 1 - e^(-epsilon/2) their piecewise mechanism replies, else Duchi's; below epsilon = .61 only Duchi's
(Duchi, Jordan, Wainwright 2018). Replies are unbiased for the clamped value and bounded. On [-1, 1] their largest
variance is 16.7, 4.3 and 1.0 at epsilon = .5, 1 and 2, where Laplace noise has 32, 8 and 2.

Both are one :class:`dptune.local.windows.Window`. A reply is one of m cells: each of the k cells that begin at i has
the probability a/total, each other one b/total. Here total = k a + (m - k) b is the same for every i::

    E[cell] - (m - 1)/2 = g (i - (m - k)/2),    g = k (a - b) / total
    reply = (cell - (m - 1)/2) / (g (m - k)/2), unbiased for t = (i - (m - k)/2) / ((m - k)/2) in [-1, 1]

Duchi's mechanism is m = 2, k = 1; the piecewise one has many cells and k/m = 1 / (e^(epsilon/2) + 1). A value between
two beginnings takes one of them at random, which keeps the mean.

**Promise.** For any two values y, y' of the user, infinite and not-a-number included, and any set S of replies,
P(reply(y) in S) <= e^epsilon P(reply(y') in S): one reply is epsilon-LDP.

*Proof.* Given i, every cell has probability a/total or b/total, and a/b <= e^epsilon, as a and b are whole numbers and
a is rounded down. The value decides only i, at random or not: mixing over i keeps the ratio. One of two mechanisms is
drawn independently of the value. The reply is a function of mechanism and cell. Numbers are drawn from the operating
system (`secrets.randbelow`), uniform and exact; no floating-point number is noise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from secrets import randbelow
from typing import SupportsFloat

from dptune._checks import between
from dptune.local.randomizer import Clamped, Ends
from dptune.local.windows import LARGEST_EPSILON, PARTS, SMALLEST_EPSILON, largest_reply, windows


class HybridRandomizer(Clamped):
    """The epsilon-LDP reply of one user by the hybrid mechanism: half of the variance of :class:`LocalRandomizer`.

    Args:
        epsilon: price of one reply, from 1e-6 to 30.
        bound: the public interval: a number b > 0 for [-b, b], or (low, high).
        invalid: public stand-in for a value that is not a number (NaN, None, text); default ``low``. Where small values
            are good, give ``high``: by default what fails counts as the best.

    Example:
        >>> randomizer = HybridRandomizer(epsilon=1.0, bound=(0.0, 10.0))
        >>> abs(randomizer.randomize(7.0) - 5.0) <= 5.0 * randomizer.largest
        True
    """

    mechanism = "hybrid"
    _below: Callable[[int], int] = staticmethod(randbelow)

    def __init__(self, epsilon: float, bound: float | Ends, *, invalid: float | None = None) -> None:
        super().__init__(between("epsilon", epsilon, SMALLEST_EPSILON, LARGEST_EPSILON), bound, invalid=invalid)
        self._share, self._piecewise, self._duchi = windows(self.epsilon)

    @property
    def largest(self) -> float:
        """Return the farthest that a reply lies from the middle, in half widths of the interval."""
        return largest_reply(self.epsilon)

    def randomize(self, value: SupportsFloat | None) -> float:
        """Return the public reply to a private value. Never raises because of the value."""
        half = self.high / 2 - self.low / 2
        t = (self.clamp(value) / 2 - self.middle / 2) / (half / 2)
        window = self._piecewise if self._below(PARTS) < int(self._share * PARTS) else self._duchi
        return window.reply(t, self._below) * half + self.middle


class InsecureHybrid(HybridRandomizer):
    """NOT PRIVATE. The same replies from a known seed, for tests and figures only."""

    private = False

    def __init__(
        self, epsilon: float, bound: float | Ends, *, insecure_seed: int, invalid: float | None = None
    ) -> None:
        super().__init__(epsilon, bound, invalid=invalid)
        self._below = random.Random(insecure_seed).randrange
