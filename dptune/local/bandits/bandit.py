"""The base of the three LDP-GP-UCB algorithms: finitely many candidates, ask and tell.

Zhou, Tan, *Local Differential Privacy for Bayesian Optimization* (2020), with the corrections of docs/ldp.md. Each
algorithm's file lists its steps in the paper's order and symbols. Notation::

    X (M, d)   candidates; a point is named by its row      N (M,)  how often each was played
    t          number of replies so far                     T       horizon
    beta_t     width of the confidence bound                 lambda  regulariser
    mu~, s~    posterior mean and deviation at the candidates, (M,)

The curator sees privatised replies only, so everything here may be printed and stored. It maximises: to minimise,
negate the replies. The state depends only on the candidates and on the (point, reply) pairs in the order of ``tell``,
so these suffice to rebuild it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from dptune._checks import Checked, at_least, check, function, plain, positive, share, shown
from dptune.errors import InputError
from dptune.local.bandits.replies import Replies
from dptune.search.gp.kernels import Kernel, Matern52
from dptune.search.gp.nystroem import NystroemVariance
from dptune.search.gp.points import FloatArray, as_points

IntArray = npt.NDArray[np.int64]
Posterior = tuple[FloatArray, FloatArray]  # mu~ and s~, (M,) each

LARGEST_REPLY = 1e100  # beyond it squares would overflow; no honest reply comes near


def _redraw(name: str, value: Any) -> float:
    value = plain(value)
    if not (isinstance(value, float | int) and value >= 0):  # infinite without cutting
        raise InputError(f"{name} must be a number, at least 0; got {shown(value)}.")
    return value


def _probability(name: str, value: Any) -> float:
    return share(name, positive(name, value))


def _replies(name: str, value: Any) -> Replies:
    if not isinstance(value, Replies):
        raise InputError(f"{name} must be HybridReplies(epsilon, B, R) or the like; got {shown(value)}.")
    return value


@dataclass(frozen=True)
class LDPSettings(Checked):
    """Public settings of the three algorithms.

    Attributes:
        replies: what is known about the replies.
        kernel: prior covariance of f; data-independent, or fitted on replies only.
        horizon: T, number of replies planned; more are allowed.
        lam: lambda, the regulariser of the posterior; the papers use 1. Default 4 v k(x, x) / B^2: the noise's variance
            over the prior's, if B is two prior deviations of f. For MoMA it is divided by k, an epoch's replies. The
            theorems hold for every lambda > 0, and 1 trusts a reply as if it had hardly any noise.
        delta: the regret bound fails with at most this probability.
        exploration: multiplies the theorem's beta_t; 1 is the theorem's constant, None the algorithm's default for
            these replies, found by ``benchmarks/ldp/__main__.py multiplier``.
        q, accuracy: a played point enters the Nystroem dictionary with probability min(q s~^2, 1) per play. The
            theorems have q = 6 (1 + a)/(1 - a) ln(4 T/delta)/a^2 for the accuracy a in (0, 1). ATA and MoMA only.
        redraw: the dictionary is drawn again when the variances s~^2/lambda of the points played since the last
            draw add up to more than this. Variances then stay right within a factor of 1 + redraw (Calandriello et
            al. 2020). With 0 it is drawn in every round, as printed in the paper.
        plays: k, replies per epoch of MoMA; the theorem has ceil(24 ln(4 e T/delta)).
        seed: of the dictionaries, public.
    """

    replies: Replies = field(metadata=check(_replies))
    kernel: Kernel = field(default_factory=lambda: Matern52(0.2), metadata=check(function))
    horizon: int = field(default=10_000, metadata=check(at_least, 1))
    lam: float | None = field(default=None, metadata=check(positive))
    delta: float = field(default=0.1, metadata=check(_probability))
    exploration: float | None = field(default=None, metadata=check(positive))
    q: float = field(default=2.0, metadata=check(positive))
    accuracy: float = field(default=0.5, metadata=check(_probability))
    redraw: float = field(default=0.25, metadata=check(_redraw))
    plays: int = field(default=5, metadata=check(at_least, 1))
    seed: int = field(default=0, metadata=check(at_least, 0))


class LocalBandit(ABC):
    """Proposes a point and learns from a privatised reply; the cost of a round does not depend on t.

    The candidates ``points`` are finite, (M, d), M >= 1; else `InputError`.
    """

    EXPLORATION: ClassVar[float]

    def __init__(self, points: ArrayLike, settings: LDPSettings) -> None:
        self.settings = settings
        self.exploration = settings.exploration or self.default_exploration(settings.replies)
        self.points = as_points(points).copy()  # X
        if not len(self.points):
            raise InputError("there must be at least one candidate.")
        self.counts: IntArray = np.zeros(len(self.points), dtype=np.int64)
        self.t = 0  # number of replies so far
        self._K = settings.kernel(self.points, self.points)  # (M, M)
        self._prior = np.diag(self._K).copy()  # (M,)
        self.lam = settings.lam or self._regulariser()
        self._start()

    @classmethod
    def default_exploration(cls, replies: Replies) -> float:
        """Return the multiplier of beta_t if the settings have none."""
        return cls.EXPLORATION

    def ask(self, pending: Iterable[int] = ()) -> int:
        """Return the candidate with the largest upper confidence bound, the first of equals.

        ``pending`` are rows that users are trying now. They reduce the deviation as if they had been played, but keep
        the mean (Desautels, Krause, Burdick 2014, GP-BUCB), so users try different candidates.
        """
        return self._largest_bound(self._plays(pending))

    def _largest_bound(self, plays: IntArray) -> int:
        mean, deviation = self._posterior()
        if plays.any():
            deviation = np.sqrt(np.maximum(self.variance_after(plays), 0.0))
        return int((mean + self.beta() * deviation).argmax())

    def _plays(self, rows: Iterable[int]) -> IntArray:
        return np.bincount(np.array([self._row(row) for row in rows], dtype=np.int64), minlength=len(self.points))

    def tell(self, point: int, reply: float, *, number: int | None = None) -> None:
        """Learn from a privatised reply at the candidate in row ``point``. Replies may come in any order.

        ``number`` is the reply's number, 1, 2, ...; default the order of arrival. Give a trial's number, so that the
        order of arrival does not change thresholds. A reply that is not a finite number raises `InputError`.
        """
        point = self._row(point)
        if not (isinstance(reply, Real) and -LARGEST_REPLY < reply < LARGEST_REPLY):
            raise InputError("a reply must be a finite number below 1e100: it comes from a randomiser.")
        number = self.t + 1 if number is None else at_least("number", number, 1)
        self.t += 1
        self.counts[point] += 1
        self._take(point, float(reply), number)

    def _row(self, point: int) -> int:
        whole = isinstance(point, int | np.integer) and not isinstance(point, bool)
        if not (whole and 0 <= point < len(self.points)):
            raise InputError(f"point must be one of the {len(self.points)} candidates' rows; got {shown(point)}.")
        return int(point)

    @property
    def T(self) -> int:
        """Return the horizon, or t if t is larger."""
        return max(self.settings.horizon, self.t)

    def mean(self) -> FloatArray:
        """Return mu~ at the candidates, (M,)."""
        return self._posterior()[0].copy()

    def deviation(self) -> FloatArray:
        """Return s~ at the candidates, (M,), >= 0."""
        return self._posterior()[1].copy()

    def beta(self) -> float:
        """Return exploration times the theorem's beta_{t+1}."""
        return self.exploration * self._theorem_beta()

    def recommend(self) -> int:
        """Return the played candidate with the largest posterior mean; before any reply, the first."""
        return int(np.where(self.counts > 0, self._posterior()[0], -np.inf).argmax())

    def copy(self) -> Self:
        """Return an independent copy; its cost does not depend on t."""
        shared = (self.settings, self.points, self._K, self._prior)  # never changed in place
        return copy.deepcopy(self, {id(thing): thing for thing in shared})

    def _regulariser(self) -> float:
        replies = self.settings.replies
        return 4 * replies.second_moment * float(self._prior.mean()) / replies.B**2

    @abstractmethod
    def _start(self) -> None:
        """Reset to no replies."""

    @abstractmethod
    def _take(self, point: int, reply: float, number: int) -> None:
        """Learn from one reply that ``t`` and ``counts`` already include."""

    @abstractmethod
    def _posterior(self) -> Posterior:
        """Return mu~ and s~, (M,) each."""

    @abstractmethod
    def variance_after(self, plays: IntArray) -> FloatArray:
        """Return s~^2 (M,) after ``plays`` (M,) more plays of the candidates, at least one in all."""

    @abstractmethod
    def _theorem_beta(self) -> float:
        """Return beta_{t+1} with the theorem's constants."""


class NystroemBandit(LocalBandit):
    """The base of ATA and MoMA: features on a dictionary, and a posterior that is cached until the next play."""

    def _start(self) -> None:
        s = self.settings
        self._nystroem = NystroemVariance(self._K, lam=self.lam, q=s.q, redraw=s.redraw, seed=s.seed)
        self._current: Posterior | None = None

    def _play(self, point: int) -> None:
        """Count a play of ATA, an epoch of MoMA."""
        self._nystroem.play(point)
        self._current = None

    @property
    def dictionary(self) -> IntArray:
        """Return the rows (m,) of the candidates in the dictionary."""
        return self._nystroem.features.members

    def variance_after(self, plays: IntArray) -> FloatArray:
        return self._nystroem.variance_after(plays)

    def _posterior(self) -> Posterior:
        if self._current is None:
            self._current = self._estimate()
        return self._current

    @abstractmethod
    def _estimate(self) -> Posterior:
        """Compute mu~ and s~, (M,) each."""
