"""Support vector classification of scikit-learn's breast cancer data: a small real task with three hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

from benchmarks.data import Array
from benchmarks.tasks import Parameter, values


@dataclass(frozen=True)
class BreastCancerTask:
    """Persons' logistic losses log(1 + exp(-f)), f = slope * y * margin; parameters C, gamma and the slope.

    The slope turns the machine's margin into a probability. 569 people: 119 public for training, n <= 300
    private, 150 for the judge.
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
        """Mean logistic loss on the judge's people, clipped like the objective: a few confident errors rule the rest."""
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
