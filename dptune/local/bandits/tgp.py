"""LDP-TGP-UCB: cut each reply once, then an exact Gaussian process.

Zhou, Tan (2020), LDP-TGP-UCB; without CTL the TGP-UCB of Chowdhury, Gopalan (2019). Notation of
:mod:`~dptune.local.bandits.bandit`. A round in the paper's steps::

    play       x_t = argmax mu~ + beta_t s~                           ask; CTL makes the reply on the user's device
    truncate   y^_t = reply_t 1{|reply_t| <= b_t}                     _take
    S (M,)     sums of y^ at each candidate; of the replies, only N and S are stored
    update     C = K - K_P (K_PP + lambda N^-1)^-1 K_P, posterior covariance (M, M) for the played candidates P; mu~
    gamma      information gain of the points played, log det(I + K_t/lambda) / 2
    n          largest number of a reply so far; t if none was lost, else n > t

One reply at j with c = C[:, j] is a rank-one update: mu += c (y^ - mu_j)/(lambda + c_j), C -= c c^T/(lambda + c_j),
gamma += log(1 + c_j/lambda)/2. C is recomputed from N and S regularly, so that rounding errors do not accumulate. The
replies alone decide when, so that a replay gives the same bits.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, solve_triangular

from dptune.local.bandits.bandit import IntArray, LocalBandit, Posterior
from dptune.local.bandits.replies import Replies
from dptune.search.gp.points import FloatArray
from dptune.search.gp.posterior import stable_cholesky

AFRESH = 10  # C is recomputed after this many replies per candidate


class LDPTGP(LocalBandit):
    """Algorithm LDP-TGP-UCB; a round costs O(M^2)."""

    EXPLORATION = 0.03  # benchmarks/ldp/__main__.py multiplier: docs/results/ldp_multiplier.json
    NEVER_CUT = 0.15  # the same if no reply is cut, so that beta_t has no bias: ldp_multiplier_hybrid.json

    @classmethod
    def default_exploration(cls, replies: Replies) -> float:
        return cls.EXPLORATION if replies.bias(1) else cls.NEVER_CUT

    def _start(self) -> None:
        self._sums = np.zeros(len(self.points))
        self._last = 0  # n
        self._waiting: list[tuple[int, float]] = []  # replies counted but not yet in the posterior
        self._updates = 0
        self._refresh()

    def _take(self, point: int, reply: float, number: int) -> None:
        self._last = max(self._last, number)
        cut = reply if abs(reply) <= self.settings.replies.truncation(number) else 0.0
        self._sums[point] += cut
        self._waiting.append((point, cut))
        if self._updates + len(self._waiting) > AFRESH * len(self.points):
            self._refresh()

    def _posterior(self) -> Posterior:
        self._catch_up()
        return self._mean, np.sqrt(np.maximum(self._variance, 0.0))

    def variance_after(self, plays: IntArray) -> FloatArray:
        """Return diag of C - C_P (C_PP + lambda N^-1)^-1 C_P^T, (M,), for the plays N at P."""
        self._catch_up()
        at = np.flatnonzero(plays)  # (P,)
        C = self._C[:, at]  # (M, P)
        inner = C[at] + np.diag(self.lam / plays[at])
        A = solve_triangular(np.linalg.cholesky(inner), C.T, lower=True, check_finite=False)  # (P, M)
        return np.asarray(self._variance - np.einsum("pm,pm->m", A, A))

    def _catch_up(self) -> None:
        for point, cut in self._waiting:
            self._update(point, cut)
        self._waiting.clear()

    @property
    def gamma(self) -> float:
        """Return the information gain gamma_t of the points played, in nats."""
        self._catch_up()
        return self._gamma

    def _theorem_beta(self) -> float:
        """Return B + (2 sqrt 2 b_n sqrt(gamma_t + ln(1/delta)) + sqrt(bias(t))) / sqrt(lambda).

        If replies were lost, the others were cut at b_s with s up to n: b_n bounds them all. The mean that b_s cuts off
        falls with s, so the t largest terms, bias(t), bound the sum over received replies.
        """
        s, t = self.settings, self.t
        cut = s.replies.truncation(max(self._last, 1))
        width = 2 * math.sqrt(2) * cut * math.sqrt(self.gamma + math.log(1 / s.delta))
        return s.replies.B + (width + math.sqrt(s.replies.bias(t))) / math.sqrt(self.lam)

    def _update(self, j: int, cut: float) -> None:
        c = self._C[:, j].copy()  # (M,)
        scale = 1.0 / (self.lam + max(float(c[j]), 0.0))
        self._gamma -= 0.5 * math.log(self.lam * scale)
        self._mean += c * ((cut - float(self._mean[j])) * scale)
        self._variance -= c * c * scale
        blas.dger(-scale, c, c, a=self._C, overwrite_a=1)
        self._updates += 1

    def _refresh(self) -> None:
        """Compute mu, C and gamma from N and S."""
        played = np.flatnonzero(self.counts)
        lam = self.lam
        root = np.sqrt(self.counts[played])  # (P,)
        inner = root[:, None] * self._K[np.ix_(played, played)] * root + lam * np.eye(len(played))
        scale = float(np.mean(np.diag(inner))) if len(played) else 1.0
        factor, _ = stable_cholesky(inner, scale=scale, noise_variance=lam)  # (P, P)
        A = solve_triangular(factor, root[:, None] * self._K[played], lower=True, check_finite=False)  # (P, M)
        target = solve_triangular(factor, self._sums[played] / root, lower=True, check_finite=False)  # (P,)
        self._mean = A.T @ target
        self._C = np.asfortranarray(self._K - A.T @ A)
        self._variance = self._prior - np.einsum("pm,pm->m", A, A)
        self._gamma = float(np.log(np.diag(factor)).sum()) - 0.5 * len(played) * math.log(lam)
        self._waiting.clear()
        self._updates = 0
