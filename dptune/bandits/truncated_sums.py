"""ATA's truncated sums, computed per candidate instead of per reply.

ATA needs, for each row u_i of U = V^(-1/2) Phi~^T and a threshold b,

    r_i = sum_tau u_i,tau y_tau 1{|u_i,tau y_tau| <= b} = sum_j U_ij P_j(b / |U_ij|),

where P_j(c) is the sum of the replies at candidate j with |y| <= c: replies sorted by |y| with prefix sums. Since
V >= N_j phi~_j phi~_j^T + lambda I, |U_ij| <= 1/sqrt(N_j): **a reply with |y| <= b sqrt(N_j) is never cut**, now or
later. Such replies are kept as one sum (with a factor of 2 to spare, because the threshold falls as the dictionary and
the horizon grow); only the others are kept sorted. By Chebyshev there are at most 4 mean(y^2) / b^2 of them per
candidate, about 4 ln(4 M T/delta), whatever t: cost and memory do not grow.
"""

from __future__ import annotations

import math

import numpy as np

from dptune.gp.arrays import FloatArray

WIDTH = 8  # sorted replies per candidate to begin with
_NEVER = 1e300  # pads rows of the table: larger than any reply


class TruncatedSums:
    """Replies at M candidates, for :meth:`cut` in O(m M), amortised.

    Args:
        M: number of candidates.
        threshold: lower bound of every b that :meth:`cut` will be asked for, up to a factor of 2.
    """

    def __init__(self, M: int, threshold: float) -> None:
        self._threshold = threshold
        self._counts, self._settled, self._floor = np.zeros(M), np.zeros(M), np.zeros(M)
        self._sizes = np.zeros(M, dtype=np.int64)
        self._largest, self._total = np.zeros(M), np.zeros(M)
        self._values = np.zeros((M, WIDTH))  # replies that may be cut, sorted by magnitude
        self._magnitudes = np.full((M, WIDTH), _NEVER)
        self._prefix = np.zeros((M, WIDTH + 1))  # settled plus the first 0, 1, ... of the values

    def add(self, j: int, y: float) -> None:
        """Take a reply at candidate j."""
        self._counts[j] += 1
        if abs(y) <= self._floor[j]:
            self._settled[j] += y
            self._prefix[j] += y
            self._total[j] += y
            return
        if self._sizes[j] == self._values.shape[1]:
            self._settle(j)
        n = int(self._sizes[j])
        if n == self._values.shape[1]:
            self._widen()
        at = int(np.searchsorted(self._magnitudes[j, :n], abs(y)))
        values = np.concatenate([self._values[j, :at], [y], self._values[j, at:n]])
        self._store(j, values)

    def cut(self, U: FloatArray, b: float) -> FloatArray:
        """Return r (m,) for rows u_i of U (m, M), every one with |U_ij| <= 1/sqrt(N_j)."""
        size = np.abs(U)  # (m, M)
        cut = (size.max(axis=0, initial=0.0) * self._largest > b).nonzero()[0]  # candidates with something to cut
        if not len(cut):
            return np.asarray(U @ self._total)
        whole = self._total.copy()
        whole[cut] = 0.0
        columns = U[:, cut]  # (m, J)
        kept = (size[:, cut, None] * self._magnitudes[cut] <= b).sum(axis=2)  # (m, J)
        return np.asarray(U @ whole + np.einsum("ij,ij->i", columns, self._prefix[cut, kept]))

    def grow(self, more: int) -> None:
        """Add ``more`` candidates without replies."""
        new = TruncatedSums(len(self._counts) + more, self._threshold)
        while new._values.shape[1] < self._values.shape[1]:
            new._widen()
        for name, array in vars(new).items():
            if isinstance(array, np.ndarray):
                array[: len(self._counts)] = getattr(self, name)
        self.__dict__.update(vars(new))

    def _settle(self, j: int) -> None:
        """Replies that will never be cut become part of one sum."""
        floor = 0.5 * self._threshold * math.sqrt(self._counts[j])
        n = int(self._sizes[j])
        k = int(np.searchsorted(self._magnitudes[j, :n], floor, side="right"))
        self._settled[j] = self._prefix[j, k]
        self._floor[j] = max(floor, self._floor[j])
        self._store(j, self._values[j, k:n].copy())

    def _store(self, j: int, values: FloatArray) -> None:
        n = len(values)
        self._sizes[j] = n
        self._values[j, :n] = values
        self._magnitudes[j, :n], self._magnitudes[j, n:] = np.abs(values), _NEVER
        self._prefix[j, 0] = self._settled[j]
        self._prefix[j, 1 : n + 1] = self._settled[j] + np.cumsum(values)
        self._prefix[j, n + 1 :] = self._total[j] = self._prefix[j, n]
        self._largest[j] = self._magnitudes[j, n - 1] if n else self._floor[j]

    def _widen(self) -> None:
        width = self._values.shape[1]
        self._values = np.pad(self._values, ((0, 0), (0, width)))
        self._magnitudes = np.pad(self._magnitudes, ((0, 0), (0, width)), constant_values=_NEVER)
        self._prefix = np.pad(self._prefix, ((0, 0), (0, width)), mode="edge")
