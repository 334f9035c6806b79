"""LDP-ATA-GP-UCB: Nystroem features, and a truncation that adapts to each coordinate in every round.

Zhou, Tan (2020), LDP-ATA-GP-UCB; without CTL the ATA-GP-UCB of Chowdhury, Gopalan (2019). Notation of
:mod:`~dptune.local.bandits.bandit` and :mod:`~dptune.search.gp.nystroem`. A round in the paper's steps::

    play          x_t = argmax mu~ + beta_t s~                       ask; CTL makes the reply on the user's device
    dictionary    D, features phi~, V = Phi~^T Phi~ + lambda I        NystroemVariance.play
    U (m, M)      V^(-1/2) Phi~^T; its columns are equal for equal points
    truncate      b_t = sqrt(v / ln(4 m T/delta)),  r^_i = sum_tau u_i,tau reply_tau 1{|u_i,tau reply_tau| <= b_t}
    estimate      theta~ = V^(-1/2) r^,  mu~ = Phi~ theta~ = U^T r^,  s~^2 as in nystroem
"""

from __future__ import annotations

import math

import numpy as np

from dptune.local.bandits.bandit import IntArray, NystroemBandit, Posterior
from dptune.search.gp.points import FloatArray


class LDPATA(NystroemBandit):
    """Algorithm LDP-ATA-GP-UCB; a round costs O(r^3 + m r M) for a dictionary of m points of rank r."""

    EXPLORATION = 0.015  # benchmarks/ldp/__main__.py multiplier: docs/results/ldp_multiplier.json

    def _start(self) -> None:
        super()._start()
        self._replies = TruncatedSums(len(self.points), self.truncation(len(self.points)))

    def _take(self, point: int, reply: float, number: int) -> None:
        self._replies.add(point, reply)
        self._play(point)

    def truncation(self, m: int) -> float:
        """Return b_t for a dictionary of m points."""
        v = self.settings.replies.second_moment
        return math.sqrt(v / math.log(4 * max(m, 1) * self.T / self.settings.delta))

    def _estimate(self) -> Posterior:
        root = self._nystroem.inverse_root()  # (r, M), in the coordinates of F
        U = self._nystroem.features.E @ root  # (m, M)
        mean = U.T @ self._replies.cut(U, self.truncation(len(U)))
        return mean, np.sqrt(self._nystroem.variance(root))

    def _theorem_beta(self) -> float:
        """Return B (1 + 1/sqrt(1 - a)) + 4 sqrt(v m ln(4 m T/delta) / lambda)."""
        s = self.settings
        m = max(len(self.dictionary), 1)
        noise = s.replies.second_moment * m * math.log(4 * m * self.T / s.delta)
        return s.replies.B * (1 + 1 / math.sqrt(1 - s.accuracy)) + 4 * math.sqrt(noise / self.lam)


class TruncatedSums:
    """Computes r^ for any U and b without storing every reply.

    Since V >= N_j phi~_j phi~_j^T + lambda I, |U_ij| <= 1/sqrt(N_j): **a reply with |y| <= b sqrt(N_j) is never cut**,
    now or later. Such replies are stored as one sum per candidate, the others one by one. By Chebyshev there are at
    most 4 mean(y^2) / b^2 of these per candidate, about 4 ln(4 M T/delta), whatever t: cost and memory do not grow.

    ``threshold`` is a lower bound of every b in calls of :meth:`cut`, up to a factor of 2: b falls as the dictionary
    and the horizon grow.
    """

    def __init__(self, M: int, threshold: float) -> None:
        self._threshold = threshold
        self._counts, self._settled = np.zeros(M), np.zeros(M)  # N, and the sums of replies that are never cut, (M,)
        self._points: IntArray = np.zeros(0, dtype=np.int64)  # candidates of the other replies, (k,)
        self._values = np.zeros(0)
        self._most = M  # beyond this many replies, move those that are never cut to the sums

    def __len__(self) -> int:
        """Return the number of replies that are stored one by one."""
        return len(self._values)

    def add(self, j: int, y: float) -> None:
        self._counts[j] += 1
        self._points, self._values = np.append(self._points, j), np.append(self._values, y)
        if len(self) > self._most:
            never = np.abs(self._values) <= 0.5 * self._threshold * np.sqrt(self._counts[self._points])
            self._settled += np.bincount(self._points[never], self._values[never], minlength=len(self._settled))
            self._points, self._values = self._points[~never], self._values[~never]
            self._most = len(self) + len(self._counts)

    def cut(self, U: FloatArray, b: float) -> FloatArray:
        """Return r^ (m,) for rows u_i of U (m, M), where |U_ij| <= 1/sqrt(N_j)."""
        cut = np.abs(self._values) * np.abs(U).max(axis=0, initial=0.0)[self._points] > b  # in some coordinate, (k,)
        whole = np.bincount(self._points[~cut], self._values[~cut], minlength=len(self._settled))
        products = U[:, self._points[cut]] * self._values[cut]
        return np.asarray(U @ (self._settled + whole) + np.where(np.abs(products) <= b, products, 0.0).sum(axis=1))
