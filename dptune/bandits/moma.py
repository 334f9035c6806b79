"""LDP-MoMA-GP-UCB: k replies at each point give k estimates; the one closest to the others counts.

Zhou, Tan (2020), LDP-MoMA-GP-UCB, corrected (theory.md, section 5); without CTL their MoMA-GP-UCB. The median of means
in function space is that of Shao et al. (2018). Notation of :mod:`~dptune.bandits.bandit`,
:mod:`~dptune.gp.nystroem` and::

    n        epochs so far: one point, k replies; N counts epochs here
    S (M, k) sums of the replies at each candidate, the l-th reply of an epoch in column l
    theta~_l V^-1 Phi~^T S_l,  l = 1..k
    k*       the l that minimises the median over s != l of |theta~_l - theta~_s|_V;  mu~ = Phi~ theta~_k*

The first k replies at a candidate make an epoch, whatever else was told in between. So lost and late replies only delay
the next epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from dptune.bandits.bandit import IntArray, LocalBandit
from dptune.gp.nystroem import NystroemVariance, cholesky_root
from dptune.gp.points import FloatArray

TIE = 1 + 1e-9  # estimates at one point often have equal medians; rounding must not choose between them


class LDPMoMA(LocalBandit):
    """Algorithm LDP-MoMA-GP-UCB; an epoch costs O(r^2 M + r k^2), the rounds within it cost nothing."""

    EXPLORATION = 0.015  # benchmarks/bench_ldp.py multiplier: docs/results/ldp_multiplier.json

    def _regulariser(self) -> float:
        return super()._regulariser() / self.settings.plays

    def _start(self) -> None:
        s = self.settings
        self._nystroem = NystroemVariance(self._K, lam=self.lam, q=s.q, redraw=s.redraw, seed=s.seed)
        self._sums = np.zeros((len(self.points), s.plays))
        self._open: dict[int, list[float]] = {}  # replies of epochs that are not complete
        self._point: int | None = None  # of the current epoch
        self._current: tuple[FloatArray, FloatArray] | None = None

    def _grow(self, more: int) -> None:
        self._nystroem.grow(self._K)
        self._sums = np.concatenate([self._sums, np.zeros((more, self.settings.plays))])
        self._forget()

    def ask(self, pending: Iterable[int] = ()) -> int:
        """Return the point of the epoch, k times: the candidate with the largest upper confidence bound.

        ``pending`` is as for the other algorithms. If the pending replies would complete the epoch, it counts as
        played and the point of the next epoch is returned.
        """
        if self._point is None:
            self._point = self._largest_bound(self._plays(()))
        epochs = self._pending_epochs(self._plays(pending))
        return self._largest_bound(epochs) if epochs[self._point] else self._point

    def _pending_epochs(self, plays: IntArray) -> IntArray:
        at = plays.nonzero()[0]
        begun = [len(self._open.get(int(j), ())) for j in at]
        plays[at] = (plays[at] + begun) // self.settings.plays
        return plays

    def variance_after(self, plays: IntArray) -> FloatArray:
        """s~^2 after so many more epochs on the same dictionary, (M,)."""
        return self._nystroem.variance_after(plays)

    def _take(self, point: int, reply: float, number: int) -> None:
        self.counts[point] += 1
        replies = self._open.setdefault(point, [])
        replies.append(reply)
        if len(replies) == self.settings.plays:
            self._sums[point] += replies
            self._nystroem.play(point)
            del self._open[point]
            self._forget()

    def _forget(self) -> None:
        self._point = self._current = None

    @property
    def dictionary(self) -> IntArray:
        """Rows of the candidates that the features rest on, (m,)."""
        return self._nystroem.features.members

    @property
    def epochs(self) -> int:
        """n, number of complete epochs."""
        return int(self._nystroem.counts.sum())

    def _posterior(self) -> tuple[FloatArray, FloatArray]:
        if self._current is None:
            root = cholesky_root(self._nystroem.V, self._nystroem.features.F)  # (r, M)
            Z = root @ self._sums  # (r, k): theta~_l in coordinates in which |.|_V is Euclidean
            self._current = root.T @ Z[:, _central(Z)], np.sqrt(self._nystroem.variance(root))
        return self._current

    def _theorem_beta(self) -> float:
        """B (1 + 1/sqrt(1 - a)) + 9 sqrt(v m / lambda)."""
        s = self.settings
        noise = s.replies.second_moment * max(len(self.dictionary), 1) / self.lam
        return s.replies.B * (1 + 1 / math.sqrt(1 - s.accuracy)) + 9 * math.sqrt(noise)


def _central(Z: FloatArray) -> int:
    """k*: the column of Z (r, k) whose median distance to the other columns is least."""
    if Z.shape[1] == 1 or not len(Z):
        return 0
    k = Z.shape[1]
    distances = np.sqrt(((Z[:, :, None] - Z[:, None, :]) ** 2).sum(axis=0))  # (k, k)
    others = distances[~np.eye(k, dtype=bool)].reshape(k, k - 1)
    medians = np.median(others, axis=1)
    return int((medians <= medians.min() * TIE).argmax())
