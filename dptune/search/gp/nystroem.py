"""Nystroem features on a finite candidate set, and their public dictionary.

Notation (Calandriello et al. 2019, 2020; Zhou, Tan 2020)::

    D          dictionary: m of the M candidates              K  kernel matrix of the candidates, (M, M)
    phi~(x)    (K_DD^(1/2))^+ k_D(x), (m,), the symmetric root
    V          Phi~^T diag(N) Phi~ + lambda I, N plays per candidate
    s~^2(x)    k(x, x) - |phi~|^2 + lambda phi~^T V^-1 phi~ >= 0

K_DD is numerically singular for smooth kernels: 100 points in [0, 1] under RBF(0.2) have rank 15. So its root uses only
the eigenvectors E (m, r) with eigenvalues w above RCOND of the largest: phi~ = E F(x), F = w^(-1/2) E^T k_D of r
coordinates. All eigenvalues have the rounding error of the largest one, so few digits of a small one are right. Small
ones are recomputed in the space that their eigenvectors span, in extended precision where available (Rayleigh-Ritz):
|phi~|^2 is then right to 1e-9 k(x, x). V acts on span(E) as F^T diag(N) F + lambda I, so all factorisations are r x r.
The residual k(x, x) - |phi~|^2 is negative only by rounding, and then set to 0; the rest of s~^2 is a sum of squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack, solve_triangular

from dptune.search.gp.points import FloatArray

IntArray = npt.NDArray[np.int64]
RCOND = 1e-10
TAIL = (1e-14, 1e-7)  # eigenvalues between these fractions of the largest are recomputed; the rest is rounding


@dataclass(frozen=True)
class Features:
    """Nystroem features of all candidates on one dictionary."""

    members: IntArray  # D, rows of the candidates, increasing (m,)
    F: FloatArray  # coordinates (M, r)
    E: FloatArray  # eigenvectors (m, r); phi~ = F E^T
    residual: FloatArray  # k(x, x) - |phi~(x)|^2 >= 0, (M,)

    @classmethod
    def on(cls, K: FloatArray, members: IntArray) -> Features:
        """Return the features of kernel matrix K (M, M) on the dictionary ``members``."""
        w, E = _eigen(K[np.ix_(members, members)])  # (m,), (m, m)
        kept = w > RCOND * w[-1] if len(w) else np.zeros(0, dtype=bool)
        F = np.ascontiguousarray(K[:, members] @ (E[:, kept] / np.sqrt(w[kept])))  # (M, r)
        residual = np.maximum(np.diag(K) - np.einsum("mr,mr->m", F, F), 0.0)
        return cls(members, F, np.ascontiguousarray(E[:, kept]), residual)


def _eigen(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues (m,), increasing, and eigenvectors (m, m) of the kernel matrix A, small ones too."""
    w, E = np.linalg.eigh(A)
    low, high = (fraction * w[-1] for fraction in TAIL) if len(w) else (0.0, 0.0)
    tail = slice(*np.searchsorted(w, (low, high)))
    if w[tail].size:
        T = E[:, tail].astype(np.longdouble)  # (m, s)
        ritz = T.T @ (A.astype(np.longdouble) @ T)  # (s, s)
        w[tail], Q = np.linalg.eigh(ritz.astype(np.float64))
        E[:, tail] = E[:, tail] @ Q
    return w, E


def draw_dictionary(counts: IntArray, variance: FloatArray, *, q: float, seed: int, number: int) -> IntArray:
    """Return the sampled candidates: each play enters with probability p_j = min(q s~_j^2, 1), equal points count once.

    It is public: it depends on the points played, on ``seed`` and on the ``number`` of the draw.
    """
    p = np.minimum(q * variance, 1.0)
    out = (1 - p) ** counts  # 1 where N = 0
    return np.flatnonzero(np.random.default_rng([seed, number]).random(len(counts)) >= out)


def cholesky_root(V: FloatArray, F: FloatArray) -> FloatArray:
    """Return L^-1 F^T (r, M) for V = L L^T (r, r) and F (M, r); V >= lambda I, so it has a factor."""
    if not V.size:
        return np.zeros((0, len(F)))
    L, _ = lapack.dpotrf(V, lower=1)
    return np.asarray(solve_triangular(L, F.T, lower=True, check_finite=False))


class NystroemVariance:
    """N, the dictionary, V and s~ under plays that come one by one; redraws it when due. Settings: ``LDPSettings``."""

    def __init__(self, K: FloatArray, *, lam: float, q: float, redraw: float, seed: int) -> None:
        self._K, self._lam, self._q, self._redraw, self._seed = K, lam, q, redraw, seed
        self.counts: IntArray = np.zeros(len(K), dtype=np.int64)
        self._draws = 0
        self.rest_on(np.zeros(0, dtype=np.int64))

    def play(self, j: int) -> None:
        self._drift += float(self._variance_at_draw[j]) / self._lam
        if self._drift > self._redraw or not len(self.features.members):
            variance = self.variance(self.inverse_root())
            self.counts[j] += 1
            self._draws += 1
            self.rest_on(draw_dictionary(self.counts, variance, q=self._q, seed=self._seed, number=self._draws))
        else:
            self.counts[j] += 1
            f = self.features.F[j]  # (r,)
            blas.dger(1.0, f, f, a=self.V, overwrite_a=1)

    def inverse_root(self) -> FloatArray:
        """Return V^(-1/2) F^T in the coordinates of F, (r, M): s~^2 = residual + lambda * its squared columns."""
        if not self.V.size:
            return np.zeros((0, len(self._K)))
        w, Q, _ = lapack.dsyevd(self.V)  # (r,), (r, r)
        return np.asarray((Q / np.sqrt(np.maximum(w, self._lam))) @ (Q.T @ self.features.F.T))

    def variance(self, root: FloatArray) -> FloatArray:
        """Return s~^2, (M,), from any root U (., M) with U^T U = F V^-1 F^T."""
        return np.asarray(self.features.residual + self._lam * np.einsum("rm,rm->m", root, root))

    def variance_after(self, plays: IntArray) -> FloatArray:
        """Return s~^2, (M,), after ``plays`` (M,) more plays on the same dictionary.

        Before the first play the dictionary is empty; then the candidates to be played replace it.
        """
        at = np.flatnonzero(plays)
        has_members = len(self.features.members) > 0
        features = self.features if has_members else Features.on(self._K, at)
        F = features.F
        n = plays[at][:, None]
        V = (self.V if has_members else self._lam * np.eye(F.shape[1])) + F[at].T @ (n * F[at])
        root = cholesky_root(V, F)
        return np.asarray(features.residual + self._lam * np.einsum("rm,rm->m", root, root))

    def rest_on(self, members: IntArray) -> None:
        """Use these rows of the candidates as the dictionary, and recompute V."""
        self.features = Features.on(self._K, members)
        F = self.features.F
        self.V = np.asfortranarray(F.T @ (self.counts[:, None] * F) + self._lam * np.eye(F.shape[1]))
        self._variance_at_draw = self.variance(self.inverse_root())
        self._drift = 0.0
