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
        improvement: the user's defaults' loss less this one, released together with it, which no model has a part in;
            None without defaults.
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

    @property
    def verdict(self) -> str:
        """What the 95% interval of an improvement says: "better", "worse" or "not distinguishable"."""
        low, high = self.interval()
        return "better" if low > 0 else "worse" if high < 0 else "not distinguishable"

    def compared(self, defaults: str) -> str:
        """Return in words what an improvement over ``defaults`` says; these words stand wherever one is shown."""
        low, high = self.interval()
        than = f"{self.verdict} {'from' if self.verdict.startswith('not') else 'than'} {defaults}"
        seeded = "" if self.private else " NOT PRIVATE"
        return (
            f"{than}: improvement {self.value:.4g} (95%: {low:.4g} to {high:.4g}), by one release and no model{seeded}"
        )

    def __str__(self) -> str:
        low, high = self.interval()
        seeded = "" if self.private else " NOT PRIVATE"
        at_clip = AT_THE_CLIP if self.at_clip else ""
        text = f"{self.value:.4g} (95% interval of the privacy noise: {low:.4g} to {high:.4g}{at_clip}){seeded}"
        return text if self.improvement is None else f"{text}, {self.improvement.compared('the defaults')}"
