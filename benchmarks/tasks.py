"""Objectives of the benchmark: validation losses of kernel machines as a function of a point in the unit cube.

Notation: u (d,) the point; x its parameters; m training rows, n validation people; s (features,) inverse length-scales.
The kernel is k(x, z) = exp(-g sum_j (s_j (x_j - z_j))^2), with g = 1/2 for ridge and g = gamma for the SVR.
Every evaluation is a pure function of u: no cache, no generator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.svm import SVR

from benchmarks.data import Array, Split

_BLOCK = 500  # rows of the cross kernel held at once: 500 x m doubles stay in the cache
_TINY = -600.0  # e^-600 is 0 for every purpose; subnormal numbers below e^-708 are slow

Predict = Callable[[Array], Array]  # (r, features) -> (r,)


@dataclass(frozen=True)
class Parameter:
    """One coordinate: u in [0, 1] onto [low, high], linearly or in the logarithm."""

    name: str
    low: float
    high: float
    log: bool = False

    def at(self, u: float) -> float:
        """The parameter's value at the unit-cube coordinate u."""
        if self.log:
            return exp(log(self.low) + u * (log(self.high) - log(self.low)))
        return self.low + u * (self.high - self.low)

    def inverse(self, value: float) -> float:
        """The unit-cube coordinate of a value."""
        if self.log:
            return (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return (value - self.low) / (self.high - self.low)


class Task(Protocol):
    """A private objective with a public search space; `clip` is for the caller to apply."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def d(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def clip(self) -> tuple[float, float]: ...

    def losses(self, u: Array) -> Array:
        """Per-person validation losses (n,) at u (d,), not clipped."""
        ...

    def test_loss(self, u: Array) -> float:
        """Mean loss, not clipped, on rows no optimiser sees."""
        ...


@dataclass(frozen=True)
class MachineTask:
    """Losses of a machine that is trained on the public rows of a split; a subclass says which losses."""

    name: str
    parameters: tuple[Parameter, ...]
    split: Split
    train: Callable[[Array, Array, Array], Predict]  # X (m, features), y (m,), parameters (d,)

    @property
    def d(self) -> int:
        """Number of hyperparameters."""
        return len(self.parameters)

    @property
    def n(self) -> int:
        """Number of validation people."""
        return len(self.split.y_val)

    def fit(self, u: Array) -> Predict:
        """Train on the public rows at u (d,)."""
        return self.train(self.split.X_train, self.split.y_train, values(self.parameters, u))


@dataclass(frozen=True)
class KernelTask(MachineTask):
    """Squared errors of standardised targets, so about 1 is the loss of predicting the mean."""

    clip: tuple[float, float] = (0.0, 3.0)

    def losses(self, u: Array) -> Array:
        """Squared errors (n,) on the validation rows."""
        return (self.fit(u)(self.split.X_val) - self.split.y_val) ** 2

    def test_loss(self, u: Array) -> float:
        """Mean squared error on the test rows."""
        return float(np.mean((self.fit(u)(self.split.X_test) - self.split.y_test) ** 2))


@dataclass(frozen=True)
class MarginTask(MachineTask):
    """Persons' log losses (nats) of a classifier's log-odds; labels above 0 are the first class."""

    clip: tuple[float, float] = (0.0, 2.0)

    def losses(self, u: Array) -> Array:
        """Log losses (n,) at u (d,), not clipped."""
        return _log_losses(self.fit(u)(self.split.X_val), self.split.y_val)

    def test_loss(self, u: Array) -> float:
        """Mean log loss on the judge's people, clipped like the objective: else a few errors rule it."""
        return float(np.mean(np.clip(_log_losses(self.fit(u)(self.split.X_test), self.split.y_test), *self.clip)))


def _log_losses(margin: Array, y: Array) -> Array:
    return np.asarray(np.logaddexp(0.0, np.where(y > 0, -margin, margin)))


def kernel_ridge_task(split: Split) -> KernelTask:
    """One log length-scale per feature, sqrt(features) e^[-2, 2], and log ridge, e^[-7, 1].

    The factor sqrt(features) makes the exponent a mean over features, so the centre of the cube is not blind: with
    plain e^[-2, 2] and 32 features every kernel value at u = .5 is 0, and so is every gradient.
    """
    p = split.X_train.shape[1]
    ridge = Parameter("ridge", exp(-7), exp(1), log=True)
    return KernelTask(f"krr-{split.name}", (*length_scales(p, sqrt(p)), ridge), split, train_kernel_ridge)


def svr_task(split: Split, *, features: int = 30) -> KernelTask:
    """Example 4.4 of GIBO: log length-scales in [-2, 2], epsilon [.01, 1], C [.1, 3], gamma [.01, 5].

    The paper's 33 parameters leave 30 length-scales, so at most the first 30 features are used: on pumadyn32nm the two
    left out carry no signal; parkinsons has 20, so d = 23. Our choice: the last three parameters are logarithmic too.
    """
    first = split.first_features(features)
    machine = (
        Parameter("epsilon", 0.01, 1.0, log=True),
        Parameter("C", 0.1, 3.0, log=True),
        Parameter("gamma", 0.01, 5.0, log=True),
    )
    scales = length_scales(first.X_train.shape[1], 1.0)
    return KernelTask(f"svr-{split.name}", (*scales, *machine), first, train_svr)


def train_kernel_ridge(X: Array, y: Array, x: Array) -> Predict:
    """Solve (K + ridge I) a = y; the predictor is z -> k(z, X) a. Parameters x: length-scales, ridge."""
    Z = X / x[:-1]  # (m, features)
    K = rbf(Z, Z)
    K[np.diag_indices_from(K)] += x[-1]
    a = cho_solve(cho_factor(K, lower=True, overwrite_a=True, check_finite=False), y, check_finite=False)
    return lambda X_new: rbf_times(X_new / x[:-1], Z, a)


def train_svr(X: Array, y: Array, x: Array) -> Predict:
    """Epsilon-SVR: libsvm on a kernel computed here. Parameters x: length-scales, epsilon, C, gamma."""
    *_, epsilon, C, gamma = x
    s = sqrt(2 * gamma) / x[:-3]  # (features,)
    Z = X * s
    machine = SVR(kernel="precomputed", epsilon=epsilon, C=C).fit(rbf(Z, Z), y)
    support, weights = Z[machine.support_], machine.dual_coef_[0]
    return lambda X_new: rbf_times(X_new * s, support, weights) + machine.intercept_[0]


def values(parameters: tuple[Parameter, ...], u: Array) -> Array:
    """Parameters (d,) at the unit-cube point u (d,), which is clipped to the cube."""
    if np.shape(u) != (len(parameters),):
        raise ValueError(f"u has shape {np.shape(u)}: expected ({len(parameters)},)")
    cube = np.clip(np.asarray(u, dtype=np.float64), 0.0, 1.0)
    return np.array([p.at(float(c)) for p, c in zip(parameters, cube, strict=True)])


def length_scales(features: int, unit: float) -> tuple[Parameter, ...]:
    """One log length-scale per feature in unit * e^[-2, 2]."""
    return tuple(Parameter(f"length_scale_{j}", unit * exp(-2), unit * exp(2), log=True) for j in range(features))


def rbf(A: Array, B: Array) -> Array:
    """exp(-||a - b||^2 / 2) for scaled rows, (r, features) x (m, features) -> (r, m)."""
    # one matrix product gives the whole exponent: [a, -|a|^2/2, 1] . [b, 1, -|b|^2/2]
    left = np.column_stack([A, -0.5 * np.einsum("ij,ij->i", A, A), np.ones(len(A))])
    right = np.column_stack([B, np.ones(len(B)), -0.5 * np.einsum("ij,ij->i", B, B)])
    E = left @ right.T  # (r, m)
    return np.asarray(np.exp(np.clip(E, _TINY, 0.0, out=E), out=E))


def rbf_times(A: Array, B: Array, a: Array) -> Array:
    """rbf(A, B) @ a in row blocks, (r,)."""
    return np.concatenate([rbf(A[i : i + _BLOCK], B) @ a for i in range(0, len(A), _BLOCK)])
