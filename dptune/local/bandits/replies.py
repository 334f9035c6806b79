"""The curator's assumptions about replies: their moments, and the thresholds at which TGP cuts them.

Zhou, Tan, *Local Differential Privacy for Bayesian Optimization* (2020), with finite variance (alpha = 1). Notation::

    B        bound of |f|; the RKHS norm of f in the theorems, max|f| in the papers' experiments
    R        bound of the noise of one value; values lie in [-(B + R), B + R], or are clamped to it
    L        scale of the Laplace noise of CTL, 2 (B + R) / epsilon
    V        largest variance that the hybrid mechanism adds, in units of (B + R)^2
    v        bound of E[reply^2]
    b_t      TGP sets reply number t to 0 if it is larger than b_t in absolute value
    bias(t)  bound of the sum over the first t replies of (mean cut off at b_s)^2

Everything is public: these are settings, not data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from dptune._checks import Checked, between, check, positive
from dptune.errors import InputError
from dptune.local.windows import LARGEST_EPSILON, SMALLEST_EPSILON, largest_reply, largest_variance

MECHANISMS = {"CTL": "a LocalRandomizer", "hybrid": "a HybridRandomizer"}


@runtime_checkable
class Replies(Protocol):
    """Public facts about replies."""

    @property
    def B(self) -> float:
        """Return the bound of |f|."""

    @property
    def second_moment(self) -> float:
        """Return v, the bound of E[reply^2]."""

    def truncation(self, t: int) -> float:
        """Return b_t of reply number t = 1, 2, ..."""

    def bias(self, t: int) -> float:
        """Return a bound of the sum of the squared biases of the first t truncated replies."""


@dataclass(frozen=True)
class LaplaceReplies(Checked):
    """Replies of CTL(epsilon): clamped to [-(B + R), B + R], plus Laplace(L). Each setting is positive and finite."""

    mechanism: ClassVar[str] = "CTL"
    epsilon: float = field(metadata=check(positive))
    B: float = field(metadata=check(positive))
    R: float = field(metadata=check(positive))

    @property
    def L(self) -> float:
        """Laplace scale, 2 (B + R) / epsilon."""
        return 2 * (self.B + self.R) / self.epsilon

    @property
    def second_moment(self) -> float:
        """Return B^2 + R^2 + 2 L^2."""
        return self.B**2 + self.R**2 + 2 * self.L**2

    def truncation(self, t: int) -> float:
        """Return b_t = B + R + L ln t: exceeded with probability at most 1/t."""
        return self.B + self.R + self.L * math.log(t)

    def bias(self, t: int) -> float:
        """Return v (ln t + 1) >= sum_s v/s, by Cauchy-Schwarz; 0 for t = 0, where the paper has ln 0."""
        return self.second_moment * (math.log(t) + 1) if t else 0.0


@dataclass(frozen=True)
class HybridReplies(Checked):
    """Replies of the hybrid mechanism, :class:`dptune.local.HybridRandomizer`: bounded, so none is ever cut.

    Values are clamped to [-(B + R), B + R]; each setting is positive and finite. At epsilon = .5, 1 and 2 the variance
    is about half of :class:`LaplaceReplies`'.
    """

    mechanism: ClassVar[str] = "hybrid"
    epsilon: float = field(metadata=check(between, SMALLEST_EPSILON, LARGEST_EPSILON))
    B: float = field(metadata=check(positive))
    R: float = field(metadata=check(positive))

    @property
    def second_moment(self) -> float:
        """Return B^2 + R^2 + V (B + R)^2."""
        return self.B**2 + self.R**2 + largest_variance(self.epsilon) * (self.B + self.R) ** 2

    def truncation(self, t: int) -> float:
        """Return the largest reply there is."""
        return (self.B + self.R) * largest_reply(self.epsilon)

    def bias(self, t: int) -> float:
        """Return 0: nothing is cut."""
        return 0.0


def check_randomizer(replies: Replies, stated: Mapping[str, Any]) -> None:
    """Refuse settings for other replies than the randomiser's ``stated`` ones: users' budget would be wasted."""
    if not isinstance(replies, LaplaceReplies | HybridReplies):
        return
    ours = type(replies).__name__
    theirs = stated.get("mechanism", replies.mechanism)
    if theirs in MECHANISMS and theirs != replies.mechanism:
        raise InputError(
            f"the settings are {ours}, but the randomiser is {MECHANISMS[theirs]}. Give the algorithm "
            f"{'HybridReplies' if theirs == 'hybrid' else 'LaplaceReplies'}, or the users another randomiser."
        )
    expected = replies.epsilon, replies.B + replies.R
    half = (stated["high"] - stated["low"]) / 2 if {"low", "high"} <= stated.keys() else expected[1]
    epsilon = stated.get("epsilon", replies.epsilon)
    if not all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip((epsilon, half), expected, strict=True)):
        raise InputError(
            f"the settings are for replies with epsilon={replies.epsilon!r} and B + R = {replies.B + replies.R!r}, but "
            f"the randomiser has epsilon={epsilon!r} and an interval of half-width {half!r}. Give the algorithm "
            f"{ours}(epsilon={epsilon!r}, B=..., R=...) with B + R = {half!r}, or the users another randomiser."
        )


def agreed_centre(replies: Replies, centre: float | None, stated: Mapping[str, Any]) -> float:
    """Return the middle of the replies' interval: the randomiser's, else the user's ``centre``, else 0."""
    check_randomizer(replies, stated)
    if not {"low", "high"} <= stated.keys():
        return centre or 0.0
    middle = float(stated["low"] + (stated["high"] - stated["low"]) / 2)
    if centre is None:
        return middle
    if not math.isclose(middle, centre, rel_tol=1e-9, abs_tol=1e-9 * replies.B):
        raise InputError(
            f"centre={centre!r}, but the randomiser's interval has the middle {middle!r}. Leave centre= out: it is "
            "read from the randomiser."
        )
    return middle


def refuse_winning_failure(stated: Mapping[str, Any], *, maximize: bool) -> None:
    """Raise `InputError` if the randomiser replaces a failed measurement by the best value."""
    best, worst = ("high", "low") if maximize else ("low", "high")
    invalid = stated.get("invalid")
    if invalid is not None and invalid == stated.get(best):
        raise InputError(
            f"a setting that fails would win: its value counts as invalid={invalid!r}, the best in the interval when "
            f"{'large' if maximize else 'small'} replies are good. Give the randomiser "
            f"invalid={stated.get(worst)!r}, the worst."
        )
