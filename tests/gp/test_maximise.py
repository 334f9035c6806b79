"""Projected ascent from many starts."""

from __future__ import annotations

import numpy as np

from dptune.gp.features import ascend

rng = np.random.default_rng(0)
TOP = np.array([0.3, 0.9])


def hill(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    away = X - TOP
    value = np.exp(-5 * (away**2).sum(axis=1))
    return value, -10 * away * value[:, None]


def test_every_start_climbs_to_the_top_of_its_box() -> None:
    starts = rng.random((20, 2))
    X, value = ascend(hill, starts, np.zeros((1, 2)), np.ones((1, 2)), first_step=0.1, iterations=40)
    assert np.allclose(X, TOP, atol=1e-3)
    assert np.allclose(value, hill(X)[0])
    low, high = np.tile([0.5, 0.0], (20, 1)), np.ones((20, 2))
    boxed, _ = ascend(hill, np.clip(starts, low, high), low, high, first_step=0.1, iterations=40)
    assert np.allclose(boxed, [0.5, 0.9], atol=1e-2)


def test_no_value_falls_and_the_starts_are_not_changed() -> None:
    starts = rng.random((20, 2))
    copy = starts.copy()
    _, value = ascend(hill, starts, np.zeros((1, 2)), np.ones((1, 2)), first_step=5.0, iterations=3)
    assert (value >= hill(starts)[0]).all()
    assert np.array_equal(starts, copy)
