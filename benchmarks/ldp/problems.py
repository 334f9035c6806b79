"""Problems of the LDP paper: functions from an RKHS, light sensors, stocks. All are finite: M candidates, known means.

The tables are read from `../shared/data` or DPTUNE_DATA and never copied; tests use `generated_table`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import data_folder
from dptune.local import InsecureHybrid
from dptune.local.bandits.replies import HybridReplies, LaplaceReplies, Replies
from dptune.search.gp.kernels import RBF, Kernel, Matern52

Array = NDArray[np.float64]
R = 1.0  # bound of the noise of one value
KERNELS: dict[str, Kernel] = {"SE": RBF(0.2), "Matern 2.5": Matern52(0.2)}


@dataclass(frozen=True)
class TableKernel:
    """The kernel whose values at candidates 0..M-1 are given."""

    table: Array  # (M, M)

    def __call__(self, X: Array, Y: Array) -> Array:
        rows, columns = X[:, 0].astype(int), Y[:, 0].astype(int)
        return self.table[np.ix_(rows, columns)]


@dataclass(frozen=True)
class Problem:
    """M candidates with known means, and the law of one user's value.

    Attributes:
        name: of the figure.
        points: (M, d).
        f: mean values (M,).
        kernel: prior of the algorithms.
        noise: (generator, T) -> noise of T values (T,), or of T values at all candidates (T, M).
    """

    name: str
    points: Array
    f: Array
    kernel: Kernel
    noise: Callable[[np.random.Generator, int], Array]

    @property
    def B(self) -> float:
        """max |f|, as in the paper's experiments."""
        return float(np.abs(self.f).max())

    @property
    def uniform(self) -> float:
        """Regret per round of uniform play."""
        return float(self.f.max() - self.f.mean())


def rkhs(kernel: str, seed: int, *, student: bool = False) -> Problem:
    """100 points in [0, 1]; f = sum_i a_i k(., p_i) with 100 support points and a_i uniform in [-1, 1]."""
    rng, k = np.random.default_rng(seed), KERNELS[kernel]
    X = np.linspace(0, 1, 100)[:, None]
    weights = rng.uniform(-1, 1, 100)
    f = k(X, rng.random((100, 1))) @ weights
    return Problem(kernel, X, f, k, _student if student else _uniform)


def light_sensors(seed: int, table: tuple[Array, Array] | None = None) -> Problem:
    """41 sensors; prior covariance from the training readings, f one test reading; both standardised by training."""
    train, test = table or _light_tables(data_folder() / "iw_data_all.mat")
    centre, scale = train.mean(), train.std()
    f = (test[np.random.default_rng(seed).integers(len(test))] - centre) / scale
    return _from_table("light sensors", f, (train - centre) / scale, _uniform)


def stocks(seed: int, table: Array | None = None) -> Problem:
    """29 stocks; a value is one stock's price on a random day, f its mean; heavy tails come from the table."""
    prices = table if table is not None else _stock_table(data_folder() / "fin.csv")
    Z = (prices - prices.mean()) / prices.std()
    f = Z.mean(axis=0)

    def noise(rng: np.random.Generator, T: int) -> Array:
        return (Z - f)[rng.integers(len(Z), size=T)]  # (T, M)

    return _from_table("stocks", f, Z, noise)


def generated_table(rows: int = 60, M: int = 12, seed: int = 0) -> Array:
    """Correlated positive columns: what the loaders return, for tests."""
    rng = np.random.default_rng(seed)
    return np.exp(0.3 * rng.standard_normal((rows, 3)) @ rng.standard_normal((3, M)) + rng.standard_normal(M))


MECHANISMS: dict[str, type[LaplaceReplies | HybridReplies]] = {"CTL": LaplaceReplies, "hybrid": HybridReplies}


def ldp_replies(problem: Problem, epsilon: float, mechanism: str = "CTL") -> LaplaceReplies | HybridReplies:
    return MECHANISMS[mechanism](epsilon, problem.B, R)


@dataclass(frozen=True)
class HeavyTailedReplies:
    """Replies of which only a finite second moment v (not the variance) is known; without CTL, NOT PRIVATE.

    Chowdhury, Gopalan, *Bayesian Optimization under Heavy-tailed Payoffs* (2019), with finite variance (alpha = 1).
    """

    v: float
    B: float

    @property
    def second_moment(self) -> float:
        return self.v

    def truncation(self, t: int) -> float:
        """b_t = sqrt(v) t^(1/4)."""
        return math.sqrt(self.v * math.sqrt(t))

    def bias(self, t: int) -> float:
        """2 v sqrt(t) >= sum_s (v / b_s)^2."""
        return 2 * self.v * math.sqrt(t)


def heavy_replies(problem: Problem) -> HeavyTailedReplies:
    """v of f + Student-t(3) noise: B^2 + 3."""
    return HeavyTailedReplies(problem.B**2 + 3, problem.B)


def told_values(problem: Problem, replies: Replies, T: int, seed: int) -> Callable[[int, int], float]:
    """(round, point) -> the reply: CTL or hybrid, from a seed (NOT PRIVATE; figures only), or the value itself."""
    rng = np.random.default_rng([seed, 1])
    f, noise = problem.f.tolist(), problem.noise(rng, T)
    if isinstance(replies, HybridReplies):
        randomizer = InsecureHybrid(replies.epsilon, replies.B + replies.R, insecure_seed=seed)
        return lambda t, j: randomizer.randomize(f[j] + float(noise[t] if noise.ndim == 1 else noise[t, j]))
    if not isinstance(replies, LaplaceReplies):
        plain = noise.tolist()
        return lambda t, j: f[j] + plain[t]
    bound, laplace = replies.B + replies.R, rng.laplace(0, replies.L, T).tolist()
    if noise.ndim == 1:
        each = noise.tolist()
        return lambda t, j: min(max(f[j] + each[t], -bound), bound) + laplace[t]
    return lambda t, j: min(max(f[j] + float(noise[t, j]), -bound), bound) + laplace[t]


def _uniform(rng: np.random.Generator, T: int) -> Array:
    return rng.uniform(-R, R, T)


def _student(rng: np.random.Generator, T: int) -> Array:
    return rng.standard_t(3, T)


def _from_table(name: str, f: Array, rows: Array, noise: Callable[[np.random.Generator, int], Array]) -> Problem:
    covariance = np.cov(rows.T)
    kernel = TableKernel(covariance / np.diag(covariance).mean())
    return Problem(name, np.arange(len(f), dtype=float)[:, None], f, kernel, noise)


def _light_tables(path: Path) -> tuple[Array, Array]:
    from scipy.io import loadmat

    data = loadmat(path)["data"][0, 0]
    train, test = (np.asarray(data[part][0, 0]["sensordata"], dtype=float) for part in ("train", "test"))
    return train, test


def _stock_table(path: Path) -> Array:
    columns = len(path.read_text().partition("\n")[0].split(","))
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, columns))
