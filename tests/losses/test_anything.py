"""No private value makes a loss raise, warn or touch a neighbour's entry; an error is about public things."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loss_data import ANIMALS, UNUSUAL, anything
from one_row import Raises, as_objects

from dptune.errors import InputError
from dptune.losses.named import (
    absolute_error,
    brier_loss,
    hinge_loss,
    huber_loss,
    log_loss,
    pinball_loss,
    squared_error,
    zero_one_loss,
)

REGRESSION = {
    "squared": squared_error,
    "absolute": absolute_error,
    "huber": huber_loss,
    "pinball": lambda y, f: pinball_loss(y, f, quantile=0.8),
}


no_digits = st.text(st.characters(exclude_categories=["N", "Cs"]), max_size=3)  # "0" is the label 0
weird = st.one_of(anything, st.none(), no_digits, st.integers(), st.lists(st.integers(), max_size=2))
weird_vectors = st.lists(weird, min_size=4, max_size=4).map(as_objects)


@given(y=hnp.arrays(float, 4, elements=anything), f=hnp.arrays(float, 4, elements=anything))
@pytest.mark.parametrize("loss", REGRESSION.values(), ids=list(REGRESSION))
def test_regression_losses_accept_every_float(loss: Any, y: np.ndarray, f: np.ndarray) -> None:
    kept = y.copy(), f.copy()
    losses = loss(y, f)
    np.testing.assert_array_equal((y, f), kept)
    assert losses.shape == (4,)
    assert not np.isfinite(losses[~(np.isfinite(y) & np.isfinite(f))]).any()
    assert not (losses < 0).any()
    for i in range(4):
        np.testing.assert_array_equal(losses[i], loss(y[i : i + 1], f[i : i + 1])[0])


@given(p=hnp.arrays(float, (4, 3), elements=anything), y=weird_vectors)
@pytest.mark.parametrize("loss", [log_loss, brier_loss])
def test_probability_losses_accept_every_entry(loss: Any, p: np.ndarray, y: np.ndarray) -> None:
    losses = loss(y, p, labels=[0, 1, 2])
    unusable = ~np.isfinite(p).all(axis=1) | [v not in (0, 1, 2) for v in y]
    assert not np.isfinite(losses[unusable]).any()
    assert not (losses < 0).any()
    for i in range(4):
        np.testing.assert_allclose(losses[i], loss(y[i : i + 1], p[i : i + 1], labels=[0, 1, 2])[0], rtol=1e-12)


@given(d=hnp.arrays(float, 4, elements=anything), y=weird_vectors)
def test_hinge_accepts_every_entry(d: np.ndarray, y: np.ndarray) -> None:
    losses = hinge_loss(y, d, labels=[0, 1])
    unusable = ~np.isfinite(d) | [v not in (0, 1) for v in y]
    np.testing.assert_array_equal(np.isnan(losses), unusable)


@given(y=weird_vectors, f=weird_vectors)
def test_objects_of_any_type_give_one_number_each(y: np.ndarray, f: np.ndarray) -> None:
    for loss in (*REGRESSION.values(), zero_one_loss):
        assert loss(y, f).shape == (4,)


@pytest.mark.parametrize("error", UNUSUAL)
def test_an_entry_that_raises_becomes_nan_and_leaves_the_others(error: type[BaseException]) -> None:
    bad = as_objects([1, Raises(error), 0])
    np.testing.assert_array_equal(squared_error(bad, [0.0, 0.0, 0.0]), [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(zero_one_loss(bad, [1, 1, 1]), [0.0, np.nan, 1.0])
    np.testing.assert_array_equal(zero_one_loss(bad, [1, 1, 1], labels=[0, 1]), [0.0, np.nan, 1.0])


def test_what_one_odd_entry_makes_of_an_array_is_read_back() -> None:
    """NumPy and CSV readers turn the numbers beside one text into text; nobody else's loss may change with it."""
    np.testing.assert_array_equal(squared_error(np.array([1.5, "?"]), [1.0, 1.0]), [0.25, np.nan])
    np.testing.assert_array_equal(squared_error(np.array([1.5, 2j]), [1.0, 1.0]), [0.25, np.nan])
    np.testing.assert_array_equal(squared_error(np.ma.masked_array([1.5, 9.0], [False, True]), [1, 1]), [0.25, np.nan])
    np.testing.assert_array_equal(zero_one_loss(np.array(["1", "0", "?"]), [1, 1, 1]), [0, 1, np.nan])
    for labels in ([0, 1], [0.0, 1.0], ["0", "1"], ["0.0", "1.0"], [False, True], ["False", "True"]):
        for y in ([0, 1], [0.0, 1.0, None], ["0.0", "1.0", "?"], [False, True], ["False", "True", "?"]):
            losses = hinge_loss(np.array(y), [0.0] * len(y), labels=labels)
            np.testing.assert_array_equal(losses, [1.0, 1.0, np.nan][: len(y)])


def test_unknown_labels_become_nan_even_when_unhashable_or_missing() -> None:
    y = ["cat", "wolf", None, ["cat"], math.nan, "dog"]
    p = np.full((6, 3), 1 / 3)
    for loss in (log_loss, brier_loss):
        assert np.isnan(loss(y, p, labels=ANIMALS)).tolist() == [False, True, True, True, True, False]
    np.testing.assert_array_equal(zero_one_loss(y, ["cat"] * 6, labels=ANIMALS), [0, np.nan, np.nan, np.nan, np.nan, 1])
    np.testing.assert_array_equal(zero_one_loss(["cat", "dog"], ["wolf", "dog"], labels=ANIMALS), [np.nan, 0])
    np.testing.assert_array_equal(zero_one_loss([1.0, math.nan], [1.0, 1.0]), [0, np.nan])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: squared_error([1.0, 2.0], [1.0]), r"y has shape \(2,\) and prediction has shape \(1,\)"),
        (lambda: squared_error([1.0], np.array([[1.0]])), r"prediction has shape \(1, 1\)"),
        (lambda: huber_loss([1.0], [1.0], c=0.0), "c must be .* got 0.0"),
        (lambda: huber_loss([1.0], [1.0], c=math.nan), "c must be .* got nan"),
        (lambda: pinball_loss([1.0], [1.0], quantile=1.0), "quantile=1.0"),
        (lambda: log_loss([1], [0.5], labels=[0, 1], eps=None), "eps=None"),
        (lambda: log_loss([1], [0.5], labels=[0, 1], eps=0.0), "eps=0.0"),
        (lambda: log_loss([1], np.array([[0.5, 0.5]]), labels=[0, 1, 2]), r"proba has shape \(1, 2\) for 3 labels"),
        (lambda: log_loss([1], np.array([0.5]), labels=[0, 1, 2]), r"proba has shape \(1,\)"),
        (lambda: log_loss([1], [0.5], labels=[1, 1]), "distinct"),
        (lambda: log_loss([1], [0.5], labels=[]), "at least one"),
        (lambda: log_loss([1], [0.5], labels=[[0], [1]]), "plain values"),
        (lambda: hinge_loss([1], [0.5], labels=[0, 1, 2]), "exactly two"),
        (lambda: zero_one_loss([1, 2], [1]), "same people"),
    ],
)
def test_errors_name_public_things_only(call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
