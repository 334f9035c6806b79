"""A released number with its noise, and its verdict in words: better, worse, or not distinguishable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import ndtr, ndtri

from dptune._checks import shown
from dptune.errors import InputError
from dptune.privacy.query import Interval

SEEDED = "NOT PRIVATE: the noise was seeded."
AT_THE_CLIP = (
    ", which reaches the upper clip: it is too tight for most losses, or they are no numbers, as a NaN or the loss of "
    "a label that the model has not seen ('1' for 1)"
)


@dataclass(frozen=True)
class NoiseLaw:
    """The law of a released number's privacy noise: Gaussian or Laplace.

    Attributes:
        sigma: standard deviation, in units of the number.
        laplace: whether it is a Laplace law.
    """

    sigma: float
    laplace: bool = False

    def quantile(self, p: float) -> float:
        """Return the number that the noise is below with probability ``p``."""
        if not self.laplace:
            return float(ndtri(p)) * self.sigma
        size = -math.log(2 * min(p, 1 - p)) * self.sigma / math.sqrt(2)
        return size if p > 0.5 else -size

    def below(self, x: float) -> float:
        """Return the probability that the noise is below ``x``."""
        if not self.laplace:
            return float(ndtr(x / self.sigma))
        tail = math.exp(-math.sqrt(2) * abs(x) / self.sigma) / 2
        return tail if x < 0 else 1 - tail


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
        cut: of an improvement, the upper clip: each person's larger loss counts as this much.
        within: of a loss, the clip, in which the mean lies whatever the noise: what is printed is cut to it.
        laplace: whether the noise has a Laplace law; else it is Gaussian.
    """

    value: float
    sigma: float
    private: bool
    improvement: Estimate | None = None
    at_clip: bool = False
    cut: float | None = None
    within: tuple[float, float] | None = None
    laplace: bool = False

    @classmethod
    def of_loss(
        cls, value: float, sigma: float, clip: Interval, *, private: bool, improvement: Estimate | None = None
    ) -> Estimate:
        """Return the estimate of a mean loss clipped to ``clip``."""
        estimate = cls(value, sigma, private, improvement, within=(clip.low, clip.high))
        low, high = estimate.interval()
        return replace(estimate, at_clip=high >= clip.high and low > (clip.low + clip.high) / 2)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds these people's mean clipped loss with the given confidence.

        It covers the privacy noise only, not how far these people are from a population.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie between 0 and 1; got {shown(confidence)}.")
        half = -NoiseLaw(self.sigma, self.laplace).quantile((1 - confidence) / 2)
        return self.value - half, self.value + half

    @property
    def verdict(self) -> str:
        """Return the verdict of an improvement's 95% interval: "better", "worse" or "not distinguishable"."""
        low, high = self.interval()
        return "better" if low > 0 else "worse" if high < 0 else "not distinguishable"

    def compared(self, defaults: str) -> str:
        """Return in words what an improvement over ``defaults`` says; these words stand wherever one is shown."""
        low, high = self.interval()
        than = f"{self.verdict} {'from' if self.verdict.startswith('not') else 'than'} {defaults}"
        seeded = "" if self.private else " NOT PRIVATE"
        cut = "" if self.cut is None else f" of mean losses that are cut at {self.cut:.4g}"
        return (
            f"{than}: improvement {self.value:.4g} (95%: {low:.4g} to {high:.4g}){cut}, by one release and no "
            f"model{seeded}"
        )

    def shown(self) -> tuple[float, float, float]:
        """Return value and ends of the 95% interval for people to read: of a loss, cut to its clip."""
        least, most = (-math.inf, math.inf) if self.within is None else self.within
        low, high = (min(max(end, least), most) for end in self.interval())
        return min(max(self.value, least), most), low, high

    def __str__(self) -> str:
        value, low, high = self.shown()
        seeded = "" if self.private else " NOT PRIVATE"
        at_clip = AT_THE_CLIP if self.at_clip else ""
        text = f"{value:.4g} (95% interval of the privacy noise: {low:.4g} to {high:.4g}{at_clip}){seeded}"
        return text if self.improvement is None else f"{text}, {self.improvement.compared('the defaults')}"


def improvement_in_words(gain: Estimate, than: str) -> str:
    """Return the verdict of a released improvement over ``than``, with its 95% interval."""
    grows = gain.value < 0
    low, high = gain.interval()
    value, low, high = (-gain.value, -high, -low) if grows else (gain.value, low, high)
    verdict = f"{gain.verdict.capitalize()} {'from' if gain.verdict.startswith('not') else 'than'} {than}"
    cut = "" if gain.cut is None else f" Larger losses count as {gain.cut:.3g}."
    return (
        f"{verdict}: the mean loss {'rises' if grows else 'improves'} by {value:.3g} (95% interval of the noise: "
        f"{low:.3g} to {high:.3g}).{cut}"
    )


def next_step(verdict: str, people: int | None) -> str:
    """Return advice on the next step after a verdict about this many people."""
    these = "" if people is None else f" It holds for these {people} people; another {people} may differ."
    steps = {"better": "take the model, and publish the statement.", "worse": "keep the default."}
    return f"Next: {steps.get(verdict, 'keep the default, or ask more people.')}{these}"


def parameters_in_words(parameters: Mapping[str, Any], quote: str = "") -> str:
    """Return parameters for people to read, numbers in four digits."""
    shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in parameters.items()}
    return ", ".join(f"{name} = {quote}{value}{quote}" for name, value in shown.items())
