"""The released improvement: the mean over people of the default's loss minus the chosen candidate's.

Person i has D_i = L_i(default) - L_i(chosen), cut to [-r, r]. The mean of the cut D_i has sensitivity 2r/n under
replacing one person. So N(0, (2r / (n mu))^2) makes it mu-GDP, and Laplace noise of scale 2r / (n epsilon) epsilon-DP.
With r well below the range R of a loss this is r/R of the noise of two released levels at the same price. The interval
is one of the mean of the *cut* differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtr

from dptune.ledger.entries import Charge
from dptune.ledger.events import is_laplace
from dptune.results.estimate import Estimate, NoiseLaw

SURPRISING = float(ndtr(3.0))  # probability that a normal variable is below three standard deviations


@dataclass(frozen=True)
class PairedEstimate(Estimate):
    """A released improvement over the default, in units of the loss; above 0 is better.

    Attributes:
        radius: r, at which each person's difference is cut.
        predicted: the same mean over the public rows, by cross-validation; public.
        sampling: standard deviation of the difference of both means, without the noise, if both groups are random
            samples of one population.
        beyond: mean over the public rows of what is cut off; above 0 the cut hides a part of the improvement.

    Example:
        >>> PairedEstimate(0.05, 0.01, private=True, radius=0.4, predicted=0.06, sampling=0.01).verdict
        'better'
    """

    radius: float = 0.0
    predicted: float = 0.0
    sampling: float = 0.0
    beyond: float = 0.0

    @classmethod
    def of(cls, released: Charge) -> PairedEstimate:
        """Return the estimate of a recorded release."""
        (value,) = released.value or (math.nan,)
        description, note = released.description, released.note
        return cls(
            value, float(description["sigma"]), released.private, laplace=is_laplace(description),
            radius=note["radius"], predicted=note["predicted"], sampling=note["sampling"], beyond=note["beyond"],
        )  # fmt: skip

    @property
    def surprising(self) -> bool:
        """Return whether private people and public rows are further apart than noise and sampling of both explain."""
        noise, sampling = NoiseLaw(self.sigma, self.laplace), NoiseLaw(self.sampling)
        far = math.hypot(noise.quantile(SURPRISING), sampling.quantile(SURPRISING))
        return abs(self.value - self.predicted) > far

    @property
    def at_least(self) -> bool:
        """Return whether people gain, and public rows say that the cut hides a part of it."""
        return self.verdict == "better" and self.beyond > 0

    def __str__(self) -> str:
        low, high = self.interval()
        seeded = "" if self.private else " NOT PRIVATE"
        return (
            f"{self.verdict}: the mean loss improves by {self.value:.3g} (95% interval of the privacy noise: {low:.3g} "
            f"to {high:.3g}; each person's difference is cut at +-{self.radius:.3g}){seeded}"
        )
