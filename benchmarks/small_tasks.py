"""Tasks with two and three hyperparameters: what most people tune.

The breast cancer data come with scikit-learn: 569 people, of whom 119 are public for training, n <= 300 private, and
150 the judge's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, sqrt

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

from benchmarks.data import Array, Split
from benchmarks.tasks import KernelTask, Parameter, Predict, train_kernel_ridge, train_svr, values


@dataclass(frozen=True)
class BreastCancerTask:
    """Persons' logistic losses log(1 + exp(-slope y f)) of a support vector classifier with margin f.

    Three logarithmic parameters: C, gamma, and the slope that turns a margin into a probability.
    """

    name: str
    X_train: Array
    y_train: Array
    X_val: Array
    y_val: Array
    X_test: Array
    y_test: Array
    clip: tuple[float, float] = (0.0, 2.0)

    @property
    def d(self) -> int:
        """Number of hyperparameters."""
        return 3

    @property
    def n(self) -> int:
        """Number of validation people."""
        return len(self.y_val)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """C, gamma and slope, all logarithmic."""
        return (
            Parameter("C", 1e-3, 1e3, log=True),
            Parameter("gamma", 1e-5, 1e1, log=True),
            Parameter("slope", 1e-1, 1e2, log=True),
        )

    def losses(self, u: Array) -> Array:
        """Logistic losses (n,) at u (3,), not clipped."""
        return self._losses(u, self.X_val, self.y_val)

    def test_loss(self, u: Array) -> float:
        """Mean logistic loss on the judge's people, clipped like the objective: else a few errors rule it."""
        return float(np.mean(np.clip(self._losses(u, self.X_test, self.y_test), *self.clip)))

    def _losses(self, u: Array, X: Array, y: Array) -> Array:
        C, gamma, slope = values(self.parameters, u)
        machine = SVC(C=C, gamma=gamma).fit(self.X_train, self.y_train)
        return np.asarray(np.logaddexp(0.0, -slope * y * machine.decision_function(X)))


def breast_cancer_task(*, n: int, seed: int) -> BreastCancerTask:
    """Split by a public seed; standardised with the training rows, which alone are public."""
    X, labels = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng([30, seed]).permutation(len(X))
    test, train, val = np.split(rows[: 269 + n], [150, 269])
    Z = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = np.where(labels == 1, 1.0, -1.0)
    return BreastCancerTask("svc-breast-cancer", Z[train], y[train], Z[val], y[val], Z[test], y[test])


def isotropic_ridge_task(split: Split, columns: tuple[int, ...] | None = None) -> KernelTask:
    """Kernel ridge with one length-scale and the ridge, d = 2, on some of the columns."""
    if columns:
        X = [A[:, list(columns)] for A in (split.X_train, split.X_val, split.X_test)]
        split = replace(split, X_train=X[0], X_val=X[1], X_test=X[2])
    unit = sqrt(split.X_train.shape[1])
    scale = Parameter("length_scale", unit * exp(-2.5), unit * exp(2.5), log=True)
    ridge = Parameter("ridge", exp(-9), exp(4), log=True)
    return KernelTask(f"ridge2-{split.name}", (scale, ridge), split, _train_isotropic)


def plain_svr_task(split: Split) -> KernelTask:
    """SVR with epsilon, C and gamma, d = 3, on standardised features."""
    parameters = (
        Parameter("epsilon", 1e-3, 3.0, log=True),
        Parameter("C", 1e-2, 1e3, log=True),
        Parameter("gamma", 1e-5, 1e1, log=True),
    )
    return KernelTask(f"svr3-{split.name}", parameters, split, _train_plain_svr)


def _train_isotropic(X: Array, y: Array, x: Array) -> Predict:
    return train_kernel_ridge(X, y, np.append(np.full(X.shape[1], x[0]), x[1]))


def _train_plain_svr(X: Array, y: Array, x: Array) -> Predict:
    return train_svr(X, y, np.concatenate([np.ones(X.shape[1]), x]))
