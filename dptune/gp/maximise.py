"""The largest value of a smooth function in boxes: many starts at once, by projected gradient ascent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dptune.gp.arrays import FloatArray

ValueAndGradient = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def ascend(
    f: ValueAndGradient,
    starts: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    first_step: float,
    iterations: int = 12,
) -> tuple[FloatArray, FloatArray]:
    """Climb from every start (k, d) inside its own box; values never fall.

    Each row has its own step length, doubled after a success and quartered after a failure.

    Args:
        f: X (k, d) -> values (k,), gradients (k, d).
        starts: first points, inside the boxes.
        low, high: corners of the boxes (k, d).
        first_step: length of the first step, in units of x.
        iterations: evaluations of f after the first.

    Returns:
        The points (k, d) and their values (k,).
    """
    X = starts
    value, gradient = f(X)
    length = np.full((len(X), 1), first_step)
    for _ in range(iterations):
        norm = np.sqrt((gradient * gradient).sum(axis=1, keepdims=True)) + np.finfo(float).tiny
        trial = np.minimum(np.maximum(X + (length / norm) * gradient, low), high)
        trial_value, trial_gradient = f(trial)
        better = trial_value > value
        row = better[:, None]
        X, gradient = np.where(row, trial, X), np.where(row, trial_gradient, gradient)
        value, length = np.where(better, trial_value, value), length * np.where(row, 2.0, 0.25)
    return X, value
