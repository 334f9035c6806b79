"""Two classifiers of handwritten digits, "5 or more?": gradient boosting and logistic regression with elastic net.

The data come with scikit-learn: 1797 images of 8 x 8, of which 300 are public for training, n <= 1000 private, and
497 the judge's. The two tasks were kept aside: nobody looked at them while choosing the constants of
dptune/centred_plan.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.data import Array
from benchmarks.tasks import Parameter, values

N_TRAIN, N_TEST = 300, 497

Margin = Callable[[Array], Array]  # images (r, 64) -> log-odds (r,)


@dataclass(frozen=True)
class DigitsTask:
    """Persons' log losses (nats) of a public classifier's log-odds."""

    name: str
    parameters: tuple[Parameter, ...]
    train: Callable[[Array, Array, Array], Margin]  # X (m, 64), y (m,) in {0, 1}, parameters (d,)
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
        return len(self.parameters)

    @property
    def n(self) -> int:
        """Number of validation people."""
        return len(self.y_val)

    def losses(self, u: Array) -> Array:
        """Log losses (n,) at u (d,), not clipped."""
        return self._losses(u, self.X_val, self.y_val)

    def test_loss(self, u: Array) -> float:
        """Mean log loss on the judge's people, clipped like the objective."""
        return float(np.mean(np.clip(self._losses(u, self.X_test, self.y_test), *self.clip)))

    def _losses(self, u: Array, X: Array, y: Array) -> Array:
        margin = self.train(self.X_train, self.y_train, values(self.parameters, u))(X)
        return np.asarray(np.logaddexp(0.0, np.where(y == 1, -margin, margin)))


def gradient_boosting_task(*, n: int, seed: int) -> DigitsTask:
    """Six parameters; the whole numbers are rounded inside, so the search sees steps."""
    parameters = (
        Parameter("learning_rate", 0.01, 1.0, log=True),
        Parameter("n_estimators", 5, 40, log=True),
        Parameter("max_depth", 1, 6),
        Parameter("min_samples_leaf", 1, 50, log=True),
        Parameter("subsample", 0.3, 1.0),
        Parameter("max_features", 0.05, 1.0, log=True),
    )
    return DigitsTask("gbm-digits", parameters, train_boosting, *split_digits(n=n, seed=seed))


def elastic_net_task(*, n: int, seed: int) -> DigitsTask:
    """Ten parameters: C, the share of L1, and a scale for each row of the image, which weights its penalty."""
    rows = tuple(Parameter(f"row_{j}", 0.05, 20.0, log=True) for j in range(8))
    parameters = (Parameter("C", 1e-4, 1e2, log=True), Parameter("l1_ratio", 0.0, 1.0), *rows)
    return DigitsTask("elastic-digits", parameters, train_elastic_net, *split_digits(n=n, seed=seed))


def split_digits(*, n: int, seed: int) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Training, validation and test images and labels; standardised by the largest grey value, which is public."""
    X, labels = load_digits(return_X_y=True)
    if not 1 <= n <= len(X) - N_TRAIN - N_TEST:
        raise ValueError(f"n must be 1 to {len(X) - N_TRAIN - N_TEST}; got {n}")
    order = np.random.default_rng([40, seed]).permutation(len(X))[: N_TRAIN + N_TEST + n]
    test, train, val = np.split(order, [N_TEST, N_TEST + N_TRAIN])
    Z, y = X / 16.0, (labels >= 5).astype(np.float64)
    return Z[train], y[train], Z[val], y[val], Z[test], y[test]


def train_boosting(X: Array, y: Array, x: Array) -> Margin:
    """Gradient boosted trees with a fixed random state: a pure function of x."""
    rate, count, depth, leaf, subsample, features = x
    machine = GradientBoostingClassifier(
        learning_rate=rate,
        n_estimators=round(count),
        max_depth=round(depth),
        min_samples_leaf=round(leaf),
        subsample=subsample,
        max_features=features,
        random_state=0,
    ).fit(X, y)
    return lambda Z: np.asarray(machine.decision_function(Z))


def train_elastic_net(X: Array, y: Array, x: Array) -> Margin:
    """Logistic regression with elastic net on scaled rows; stopped after 60 passes."""
    C, ratio, scale = x[0], x[1], np.repeat(x[2:], 8)  # (64,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = LogisticRegression(solver="saga", C=C, l1_ratio=ratio, max_iter=60, tol=1e-3, random_state=0)
        machine.set_params(**({"penalty": "elasticnet"} if machine.penalty != "deprecated" else {}))
        machine.fit(X * scale, y)
    return lambda Z: np.asarray(machine.decision_function(Z * scale))
