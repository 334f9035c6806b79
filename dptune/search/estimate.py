"""A released number for people to read: its value, its noise, and an interval."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scipy.special import ndtri

from dptune.errors import InputError
from dptune.privacy.query import Interval

AT_THE_CLIP = (
    ", which reaches the upper clip: what a NaN counts as, and the loss of a label that the model has not seen, as of "
    "'1' for 1"
)


@dataclass(frozen=True)
class Estimate:
    """A released mean clipped loss and its privacy noise.

    Attributes:
        value: released mean clipped loss, in units of the loss.
        sigma: standard deviation of the privacy noise, same units.
        private: False if the noise was seeded.
        improvement: the user's defaults' loss less this one, released together with it; None without defaults.
        at_clip: whether the 95% interval reaches the upper clip, and not the lower half of its range.
    """

    value: float
    sigma: float
    private: bool
    improvement: Estimate | None = None
    at_clip: bool = False

    @classmethod
    def of_loss(
        cls, value: float, sigma: float, clip: Interval, *, private: bool, improvement: Estimate | None = None
    ) -> Estimate:
        """Return the estimate of a mean loss clipped to ``clip``."""
        found = cls(value, sigma, private, improvement)
        low, high = found.interval()
        return replace(found, at_clip=high >= clip.high and low > (clip.low + clip.high) / 2)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds these people's mean clipped loss with the given confidence.

        It covers the privacy noise only, not how far these people are from a population.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie between 0 and 1; got {confidence!r}.")
        half = float(-ndtri((1 - confidence) / 2)) * self.sigma
        return self.value - half, self.value + half

    def __str__(self) -> str:
        low, high = self.interval()
        seeded = "" if self.private else " NOT PRIVATE"
        at_clip = AT_THE_CLIP if self.at_clip else ""
        text = f"{self.value:.4g} (95% interval of the privacy noise: {low:.4g} to {high:.4g}{at_clip}){seeded}"
        if self.improvement is None:
            return text
        low, high = self.improvement.interval()
        gain = f"{self.improvement.value:.4g} ({low:.4g} to {high:.4g}), by this one release and no model"
        if low > 0:
            return f"{text}, better than the loss of the defaults by {gain}"
        return f"{text}, not distinguishable from the loss of the defaults: improvement {gain}"
