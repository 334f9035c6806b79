"""LDP-MoMA-GP-UCB: k replies at each point give k estimates; the one closest to the others counts.

Zhou, Tan (2020), LDP-MoMA-GP-UCB, corrected (docs/ldp.md); without CTL their MoMA-GP-UCB. The median of means
in function space is that of Shao et al. (2018). Notation of :mod:`~dptune.local.bandits.bandit` and
:mod:`~dptune.search.gp.nystroem`. An epoch n in the paper's steps (N counts epochs here)::

    play          x_n = argmax mu~ + beta_n s~, k times; the l-th reply goes to column l
    S (M, k)      sums of the replies at each candidate
    dictionary    D, features phi~, V, updated once an epoch          NystroemVariance.play
    estimates     theta~_l = V^-1 Phi~^T S_l,  l = 1..k
    median        k* = the l that minimises the median over s != l of |theta~_l - theta~_s|_V;  mu~ = Phi~ theta~_k*

The first k replies at a candidate make an epoch, whatever came in between. So lost and late replies only delay the next
epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from dptune.local.bandits.bandit import NystroemBandit, Posterior
from dptune.search.gp.nystroem import cholesky_root
from dptune.search.gp.points import FloatArray

TIE = 1 + 1e-9  # estimates at one point often have equal medians; rounding must not choose between them


class LDPMoMA(NystroemBandit):
    """Algorithm LDP-MoMA-GP-UCB; an epoch costs O(r^2 M + r k^2), the rounds within it cost nothing."""

    EXPLORATION = 0.015  # benchmarks/ldp/__main__.py multiplier: docs/results/ldp_multiplier.json

    def _regulariser(self) -> float:
        return super()._regulariser() / self.settings.plays

    def _start(self) -> None:
        super()._start()
        self._sums = np.zeros((len(self.points), self.settings.plays))
        self._open: dict[int, list[float]] = {}  # replies of epochs that are not complete
        self._point: int | None = None  # candidate of the current epoch

    def ask(self, pending: Iterable[int] = ()) -> int:
        """Return the point of the epoch, k times: the candidate with the largest upper confidence bound.

        ``pending`` is as for the other algorithms. If the pending replies would complete the epoch, it counts as
        played and the point of the next epoch is returned.
        """
        if self._point is None:
            self._point = self._largest_bound(self._plays(()))
        plays = self._plays(pending)
        at = plays.nonzero()[0]
        begun = [len(self._open.get(int(j), ())) for j in at]
        plays[at] = (plays[at] + begun) // self.settings.plays  # epochs
        return self._largest_bound(plays) if plays[self._point] else self._point

    def _take(self, point: int, reply: float, number: int) -> None:
        replies = self._open.setdefault(point, [])
        replies.append(reply)
        if len(replies) == self.settings.plays:
            self._sums[point] += self._open.pop(point)
            self._play(point)
            self._point = None

    def _estimate(self) -> Posterior:
        root = cholesky_root(self._nystroem.V, self._nystroem.features.F)  # (r, M)
        Z = root @ self._sums  # (r, k): theta~_l in coordinates in which |.|_V is Euclidean
        return root.T @ Z[:, _central(Z)], np.sqrt(self._nystroem.variance(root))

    def _theorem_beta(self) -> float:
        """Return B (1 + 1/sqrt(1 - a)) + 9 sqrt(v m / lambda)."""
        s = self.settings
        noise = s.replies.second_moment * max(len(self.dictionary), 1) / self.lam
        return s.replies.B * (1 + 1 / math.sqrt(1 - s.accuracy)) + 9 * math.sqrt(noise)


def _central(Z: FloatArray) -> int:
    """Return k*, the column of Z (r, k) whose median distance to the other columns is least."""
    k = Z.shape[1]
    if k == 1 or not len(Z):
        return 0
    distances = np.sqrt(((Z[:, :, None] - Z[:, None, :]) ** 2).sum(axis=0))  # (k, k)
    medians = np.median(distances[~np.eye(k, dtype=bool)].reshape(k, k - 1), axis=1)
    return int((medians <= medians.min() * TIE).argmax())
