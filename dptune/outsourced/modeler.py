"""The modeler's half: GP-UCB on released rows. None of its imports reaches private data.

Kharkovskii, Dai, Low, *Private Outsourced Bayesian Optimization* (ICML 2020), Algorithm 2, on noisy rows instead of
projected ones. Notation::

    Z (n, k)    released rows, z_i = x_i + sigma N(0, I)     v, l     variance and length-scale of f, x -> f(x)
    k(z, z')    v prod_c (l_c^2 / (l_c^2 + 2 sigma^2))^(1/2) exp(-(z_c - z'_c)^2 / (2 (l_c^2 + 2 sigma^2)))    z != z'
                the mean of v exp(-|x - x'|^2 / (2 l^2)) over x - x' ~ N(z - z', 2 sigma^2 I); v for one row with itself
    s2          variance of the noise of an output
    mu, var (n,)    posterior mean and variance of f at all rows after t outputs
    beta_t      2 log(n t^2 pi^2 / (6 delta))

An output at row j is a rank-one update. With c = k(Z, z_j) - sum_s v_s v_s[j] the posterior covariance of all rows with
row j, v_t = c / sqrt(c_j + s2), mu += v_t a_t with a_t = (y - mu_j) / sqrt(c_j + s2), var -= v_t^2. One column (n,) is
stored for each output: round t costs O(n (k + t)) time and O(n t) memory, without an n x n matrix.

Use::

    exchange = Exchange("shared")
    modeler = OutsourcedModeler(exchange.table(), RBF(lengthscale=5.0), noise_variance=1e-3)
    for _ in range(50):
        row = modeler.ask()
        modeler.tell(row, exchange.evaluate(row))
    print(modeler.recommend())
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from scipy.linalg import blas

from dptune._checks import at_least, between, positive, share
from dptune.errors import InputError
from dptune.outsourced.formats import Table
from dptune.search.gp.kernels import RBF
from dptune.search.gp.points import FloatArray

_LARGEST_OUTPUT = 1e100  # beyond it squares would overflow


class OutsourcedModeler:
    """GP-UCB over the rows of a released table; queries are row numbers.

    Everything it holds is a function of released values, and of outputs: it may be printed and stored.

    Args:
        table: from :meth:`Exchange.table`.
        kernel: prior covariance of f on the rows *before* noise; length-scales in units of the scaled features, the
            variance in squared units of the output.
        noise_variance: s2 of an output; above 0.
        mean: prior mean of f, in units of the output.
        delta: the confidence bounds fail with at most this probability.
        exploration: multiplies beta_t; 1 is the theorem's.
    """

    def __init__(
        self,
        table: Table,
        kernel: RBF,
        *,
        noise_variance: float,
        mean: float = 0.0,
        delta: float = 0.1,
        exploration: float = 1.0,
    ) -> None:
        if not isinstance(kernel, RBF):
            raise InputError("kernel must be an RBF: its mean under the table's noise is known in closed form.")
        self.Z = table.values
        self._sign = 1.0 if table.facts.maximise else -1.0
        n, k = self.Z.shape
        self.kernel = noisy_kernel(kernel, table.facts.sigma, k)
        self._prior = kernel.variance  # k(z, z), of one row with itself
        self.noise_variance = positive("noise_variance", noise_variance)
        self.delta = share("delta", positive("delta", delta))
        self.exploration = positive("exploration", exploration)
        self.mean = np.full(n, self._signed("mean", mean))  # (n,)
        self.variance = np.full(n, self._prior)  # (n,)
        self._columns: list[FloatArray] = []  # v_1 ... v_t, (n,) each
        self.rows: list[int] = []  # rows evaluated so far

    def _signed(self, name: str, value: float) -> float:
        return self._sign * between(name, value, -_LARGEST_OUTPUT, _LARGEST_OUTPUT)

    @property
    def beta(self) -> float:
        """Return beta_t of the next round, t from 1, times ``exploration``."""
        n = len(self.Z)
        t = len(self.rows) + 1
        return self.exploration * 2 * math.log(n * t**2 * math.pi**2 / (6 * self.delta))

    def ask(self, skip: Collection[int] = ()) -> int:
        """Return the row with the largest upper confidence bound, the first of equal ones; not one of ``skip``."""
        bound = self.mean + math.sqrt(self.beta) * np.sqrt(self.variance)  # (n,)
        if len(skip) < len(bound):
            bound[list(skip)] = -np.inf
        return int(np.argmax(bound))

    def tell(self, row: int, y: float) -> None:
        """Learn the output of a row; in O(n (k + t)). A row that there is not, or no finite number, is refused."""
        j = at_least("row", row, 0, len(self.Z) - 1)
        y = self._signed("y", y)
        c = self.kernel(self.Z, self.Z[j : j + 1])[:, 0]  # (n,)
        c[j] = self._prior
        for v in self._columns:
            blas.daxpy(v, c, a=-v[j])  # in place
        scale = 1 / math.sqrt(max(c[j], 0.0) + self.noise_variance)
        c *= scale
        blas.daxpy(c, self.mean, a=(y - self.mean[j]) * scale)
        self.variance = np.maximum(self.variance - c**2, 0.0)
        self._columns.append(c)
        self.rows.append(j)

    def recommend(self) -> int:
        """Return the evaluated row with the best posterior mean: never the best noisy output."""
        if not self.rows:
            raise InputError("no row was evaluated yet; there is nothing to recommend.")
        return max(dict.fromkeys(self.rows), key=lambda j: self.mean[j])


def noisy_kernel(kernel: RBF, sigma: float, k: int) -> RBF:
    """Return the covariance of f at two different rows that carry noise of deviation ``sigma`` in k coordinates."""
    squares = kernel.scales(k) ** 2  # (k,)
    wider = squares + 2 * sigma**2
    shrink = math.exp(0.5 * float(np.log(squares / wider).sum()))
    if kernel.variance * shrink == 0.0:
        raise InputError(f"noise of {sigma:g} hides every length-scale: nothing can be learned from this table.")
    return RBF(tuple(np.sqrt(wider).tolist()), kernel.variance * shrink)
