"""A Cholesky factor that grows by blocks of rows.

Appending b points to m costs O(m^2 b) and never touches the old rows::

    [ K    k ]   [ L    0 ] [ L^T  V ]          V = L^-1 k
    [ k^T  B ] = [ V^T  M ] [ 0   M^T],     M M^T = B - V^T V    (the Schur complement)

The rows live in a buffer whose capacity grows by half. Triangular solves walk over diagonal tiles, so that
nearly all work is matrix products on views of the buffer and the buffer is never copied.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from dptune.errors import InputError
from dptune.gp.arrays import FloatArray

TILE = 96
FIRST_JITTER = 1e-12
LARGEST_JITTER = 1e-6


class GrowingCholesky:
    """The lower factor L (m, m) of K + noise I, extended in place by `append`."""

    def __init__(self) -> None:
        self._rows = np.zeros((0, 0))  # (capacity, capacity), only the lower triangle of (m, m) is meant
        self._m = 0

    def __len__(self) -> int:
        return self._m

    def lower(self) -> FloatArray:
        """A copy of L, (m, m)."""
        return np.tril(self._rows[: self._m, : self._m])

    def append(self, cross: FloatArray, block: FloatArray, *, noise_variance: float) -> float:
        """Add b rows and return the jitter that their block needed. If this fails, nothing has changed.

        Args:
            cross: covariances of old and new points, (m, b).
            block: covariances of the new points with the noise variance on the diagonal, (b, b).
            noise_variance: what was added to the diagonal; see `stable_cholesky`.

        Raises:
            InputError: the block is not positive definite even with the largest jitter.
        """
        V = self.solve(cross)  # (m, b)
        M, jitter = schur_factor(block, V, noise_variance=noise_variance)
        m, n = self._m, self._m + len(block)
        self._reserve(n)
        self._rows[m:n, :m], self._rows[m:n, m:n] = V.T, M
        self._m = n
        return jitter

    def solve(self, B: FloatArray) -> FloatArray:
        """L^-1 B, (m, k)."""
        L, out = self._rows, np.array(B, dtype=np.float64)  # copied: the argument stays as it is
        for i, j in self._tiles():
            out[i:j] -= L[i:j, :i] @ out[:i]
            out[i:j] = blas.dtrsm(1.0, L[i:j, i:j], out[i:j], lower=1)
        return out

    def solve_transposed(self, B: FloatArray) -> FloatArray:
        """L^-T B, (m, k)."""
        L, out, m = self._rows, np.array(B, dtype=np.float64), self._m
        for i, j in reversed(self._tiles()):
            out[i:j] -= L[j:m, i:j].T @ out[j:]
            out[i:j] = blas.dtrsm(1.0, L[i:j, i:j], out[i:j], lower=1, trans_a=1)
        return out

    def _tiles(self) -> list[tuple[int, int]]:
        return [(i, min(i + TILE, self._m)) for i in range(0, self._m, TILE)]

    def _reserve(self, n: int) -> None:
        if n <= len(self._rows):
            return
        capacity = max(n, len(self._rows) * 3 // 2, TILE)
        rows = np.zeros((capacity, capacity))
        rows[: self._m, : self._m] = self._rows[: self._m, : self._m]
        self._rows = rows


def schur_factor(block: FloatArray, V: FloatArray, *, noise_variance: float) -> tuple[FloatArray, float]:
    """The factor M of block - V^T V (b, b) and the jitter it needed; see `stable_cholesky`."""
    scale = float(np.mean(np.diag(block))) if len(block) else 1.0
    return stable_cholesky(block - V.T @ V, scale=scale, noise_variance=noise_variance)


def stable_cholesky(S: FloatArray, *, scale: float, noise_variance: float) -> tuple[FloatArray, float]:
    """The lower factor of S + jitter I, (b, b), and the least jitter of the ladder that is safe.

    Jitter acts exactly like a larger noise variance on these points. The ladder's first step, mostly 0, raises
    noise + jitter to 1e-12 of `scale`, the mean variance of the points; the next steps are 1e-12, 1e-11, ... 1e-6
    of `scale`. The first step is always taken: with less noise, rounding errors would pass as small pivots, and
    the weights of many small blocks would come out wrong by half.

    A factor is safe if every squared pivot is at least half of the noise it contains: in exact arithmetic
    a Schur complement of K + noise I is at least noise I.

    Raises:
        InputError: S is not finite, or no jitter up to 1e-6 of `scale` is enough.
    """
    for jitter in _ladder(scale, noise_variance):
        M = _cholesky(S + jitter * np.eye(len(S)))
        if M is not None and np.all(np.diag(M) ** 2 >= (noise_variance + jitter) / 2):
            return M, jitter
    raise InputError(
        f"the covariance of the points cannot be factorised with noise_variance={noise_variance:.3g}, even "
        f"with a jitter of {LARGEST_JITTER:g} times their mean variance. Give a larger noise_variance."
    )


def _ladder(scale: float, noise_variance: float) -> list[float]:
    steps = round(np.log10(LARGEST_JITTER / FIRST_JITTER))
    missing = max(FIRST_JITTER * scale - noise_variance, 0.0)
    return [missing, *(FIRST_JITTER * 10.0**i * scale for i in range(steps + 1))]


def _cholesky(S: FloatArray) -> FloatArray | None:
    """The lower factor, or None where rounding has made S indefinite."""
    try:
        M = np.asarray(np.linalg.cholesky(S), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return M if np.isfinite(M).all() else None
