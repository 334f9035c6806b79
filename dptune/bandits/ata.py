"""LDP-ATA-GP-UCB: Nystroem features, and a truncation that adapts to each coordinate in every round.

Zhou, Tan (2020), LDP-ATA-GP-UCB; without CTL the ATA-GP-UCB of Chowdhury, Gopalan (2019). Notation of
:mod:`~dptune.bandits.bandit`, :mod:`~dptune.gp.nystroem` and::

    U (m, M)   V^(-1/2) Phi~^T; its columns are equal for equal points
    b_t        sqrt(v / ln(4 m T/delta))
    r^_i       sum_tau u_i,tau reply_tau 1{|u_i,tau reply_tau| <= b_t}
    theta~     V^(-1/2) r^,  mu~ = Phi~ theta~ = U^T r^
"""

from __future__ import annotations

import math

import numpy as np

from dptune.bandits.bandit import IntArray, LocalBandit
from dptune.bandits.truncated_sums import TruncatedSums
from dptune.gp.arrays import FloatArray
from dptune.gp.nystroem import NystroemVariance


class LDPATA(LocalBandit):
    """Algorithm LDP-ATA-GP-UCB; a round costs O(r^3 + m r M) for a dictionary of m points of rank r."""

    EXPLORATION = 0.015  # benchmarks/bench_ldp.py multiplier: docs/results/ldp_multiplier.json

    def _start(self) -> None:
        s = self.settings
        self._nystroem = NystroemVariance(self._K, lam=self.lam, q=s.q, redraw=s.redraw, seed=s.seed)
        self._replies = TruncatedSums(len(self.points), self.truncation(len(self.points)))
        self._current: tuple[FloatArray, FloatArray] | None = None

    def _grow(self, more: int) -> None:
        self._nystroem.grow(self._K)
        self._replies.grow(more)
        self._current = None

    def _take(self, point: int, reply: float, number: int) -> None:
        self.counts[point] += 1
        self._replies.add(point, reply)
        self._nystroem.play(point)
        self._current = None

    @property
    def m(self) -> int:
        """Size of the dictionary."""
        return self._nystroem.m

    def truncation(self, m: int) -> float:
        """Return b_t for a dictionary of m points."""
        v = self.settings.replies.second_moment
        return math.sqrt(v / math.log(4 * max(m, 1) * self.T / self.settings.delta))

    def _posterior(self) -> tuple[FloatArray, FloatArray]:
        if self._current is None:
            root = self._nystroem.inverse_root()  # (r, M), in the coordinates of F
            U = self._nystroem.features.E @ root  # (m, M)
            mean = U.T @ self._replies.cut(U, self.truncation(self.m))
            self._current = mean, np.sqrt(self._nystroem.variance(root))
        return self._current

    def _variance_after(self, plays: IntArray) -> FloatArray:
        return self._nystroem.variance_after(plays)

    def _theorem_beta(self) -> float:
        """B (1 + 1/sqrt(1 - a)) + 4 sqrt(v m ln(4 m T/delta) / lambda)."""
        s, m = self.settings, max(self.m, 1)
        noise = s.replies.second_moment * m * math.log(4 * m * self.T / s.delta)
        return s.replies.B * (1 + 1 / math.sqrt(1 - s.accuracy)) + 4 * math.sqrt(noise / self.lam)
