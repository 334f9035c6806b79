"""Two classifiers of handwritten digits, "5 or more?": gradient boosting and logistic regression with elastic net.

The data come with scikit-learn: 1797 images of 8 x 8, of which 300 are public for training, n <= 1000 private, and
497 the judge's. The two tasks were kept aside: nobody looked at them while choosing the constants of
dptune/centred_plan.py.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.data import Array, Split
from benchmarks.tasks import MarginTask, Parameter, Predict

N_TRAIN, N_TEST = 300, 497


def gradient_boosting_task(*, n: int, seed: int) -> MarginTask:
    """Six parameters; the whole numbers are rounded inside, so the search sees steps."""
    parameters = (
        Parameter("learning_rate", 0.01, 1.0, log=True),
        Parameter("n_estimators", 5, 40, log=True),
        Parameter("max_depth", 1, 6),
        Parameter("min_samples_leaf", 1, 50, log=True),
        Parameter("subsample", 0.3, 1.0),
        Parameter("max_features", 0.05, 1.0, log=True),
    )
    return MarginTask("gbm-digits", parameters, split_digits(n=n, seed=seed), train_boosting)


def elastic_net_task(*, n: int, seed: int) -> MarginTask:
    """Ten parameters: C, the share of L1, and a scale for each row of the image, which weights its penalty."""
    rows = tuple(Parameter(f"row_{j}", 0.05, 20.0, log=True) for j in range(8))
    parameters = (Parameter("C", 1e-4, 1e2, log=True), Parameter("l1_ratio", 0.0, 1.0), *rows)
    return MarginTask("elastic-digits", parameters, split_digits(n=n, seed=seed), train_elastic_net)


def split_digits(*, n: int, seed: int) -> Split:
    """Training, validation and test images and labels; standardised by the largest grey value, which is public."""
    X, labels = load_digits(return_X_y=True)
    if not 1 <= n <= len(X) - N_TRAIN - N_TEST:
        raise ValueError(f"n must be 1 to {len(X) - N_TRAIN - N_TEST}; got {n}")
    order = np.random.default_rng([40, seed]).permutation(len(X))[: N_TRAIN + N_TEST + n]
    test, train, val = np.split(order, [N_TEST, N_TEST + N_TRAIN])
    Z, y = X / 16.0, (labels >= 5).astype(np.float64)
    return Split("digits", Z[train], y[train], Z[val], y[val], Z[test], y[test])


def train_boosting(X: Array, y: Array, x: Array) -> Predict:
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


def train_elastic_net(X: Array, y: Array, x: Array) -> Predict:
    """Logistic regression with elastic net on scaled rows; stopped after 60 passes."""
    C, ratio, scale = x[0], x[1], np.repeat(x[2:], 8)  # (64,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = LogisticRegression(solver="saga", C=C, l1_ratio=ratio, max_iter=60, tol=1e-3, random_state=0)
        machine.set_params(**({"penalty": "elasticnet"} if machine.penalty != "deprecated" else {}))
        machine.fit(X * scale, y)
    return lambda Z: np.asarray(machine.decision_function(Z * scale))
