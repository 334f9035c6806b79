"""Tasks with two and three hyperparameters: what most people tune.

The breast cancer data come with scikit-learn: 569 people, of whom 119 are public for training, n <= 300 private, and
150 the judge's.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import SVC

from benchmarks.data import Array, Split
from benchmarks.tasks import KernelTask, MarginTask, Parameter, Predict, train_kernel_ridge, train_svr


def breast_cancer_task(*, n: int, seed: int) -> MarginTask:
    """A support vector classifier on standardised rows; only the training rows are public."""
    X, labels = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng([30, seed]).permutation(len(X))
    test, train, val = np.split(rows[: 269 + n], [150, 269])
    Z = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = np.where(labels == 1, 1.0, -1.0)
    split = Split("breast-cancer", Z[train], y[train], Z[val], y[val], Z[test], y[test])
    parameters = (
        Parameter("C", 1e-3, 1e3, log=True),
        Parameter("gamma", 1e-5, 1e1, log=True),
        Parameter("slope", 1e-1, 1e2, log=True),  # turns a margin into log-odds
    )
    return MarginTask("svc-breast-cancer", parameters, split, _train_svc)


def _train_svc(X: Array, y: Array, x: Array) -> Predict:
    C, gamma, slope = x
    machine = SVC(C=C, gamma=gamma).fit(X, y)
    return lambda Z: np.asarray(slope * machine.decision_function(Z))


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
