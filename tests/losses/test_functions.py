"""Per-example losses: their means are scikit-learn's metrics, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from loss_data import ANIMALS, BINARY, KIND, P1, P3, F, Y
from sklearn import metrics

from dptune.losses.named import (
    EPS,
    absolute_error,
    brier_loss,
    hinge_loss,
    huber_loss,
    log_loss,
    pinball_loss,
    squared_error,
    zero_one_loss,
)


@pytest.mark.parametrize(
    ("losses", "metric"),
    [
        (squared_error(Y, F), metrics.mean_squared_error(Y, F)),
        (absolute_error(Y, F), metrics.mean_absolute_error(Y, F)),
        (pinball_loss(Y, F, quantile=0.8), metrics.mean_pinball_loss(Y, F, alpha=0.8)),
        (pinball_loss(Y, F, quantile=0.1), metrics.mean_pinball_loss(Y, F, alpha=0.1)),
        (log_loss(KIND, P3, labels=ANIMALS), metrics.log_loss(KIND, P3, labels=ANIMALS)),
        (log_loss(BINARY, P1, labels=["no", "yes"]), metrics.log_loss(BINARY, P1, labels=["no", "yes"])),
        (brier_loss(KIND, P3, labels=ANIMALS), metrics.brier_score_loss(KIND, P3, labels=ANIMALS)),
        (brier_loss(BINARY, P1, labels=["no", "yes"]), metrics.brier_score_loss(BINARY, P1, pos_label="yes")),
        (hinge_loss(BINARY, F, labels=["no", "yes"]), metrics.hinge_loss(BINARY, F, labels=["no", "yes"])),
        (zero_one_loss(KIND, np.roll(KIND, 1)), metrics.zero_one_loss(KIND, np.roll(KIND, 1))),
    ],
)
def test_mean_equals_scikit_learn(losses: np.ndarray, metric: float) -> None:
    assert losses.shape == (40,)
    assert losses.dtype == np.float64
    assert losses.mean() == pytest.approx(metric, rel=1e-12)


def test_by_hand() -> None:
    assert squared_error([1.0, 2.0], [3.0, 2.5]).tolist() == [4.0, 0.25]
    assert huber_loss([0.0, 0.0, 0.0], [0.5, 1.0, -3.0]).tolist() == [0.125, 0.5, 2.5]
    assert huber_loss([0.0, 0.0], [1.0, 4.0], c=2.0).tolist() == [0.5, 6.0]
    assert pinball_loss([2.0, 0.0], [0.0, 2.0], quantile=0.75).tolist() == [1.5, 0.5]  # asked too little costs more
    assert log_loss(["b", "a"], [0.25, 0.25], labels=["a", "b"]) == pytest.approx([math.log(4), math.log(4 / 3)])
    assert hinge_loss([1, 0, 1], [0.25, 0.25, 3.0], labels=[0, 1]).tolist() == [0.75, 1.25, 0.0]
    assert brier_loss([1, 0], [0.25, 0.25], labels=[0, 1]).tolist() == [0.5625, 0.0625]
    assert brier_loss(["c"], [[0.5, 0.25, 0.25]], labels=["a", "b", "c"]).tolist() == [0.875]
    assert zero_one_loss([1, 2, 3], [1, 2, 2]).tolist() == [0.0, 0.0, 1.0]


def test_labels_are_the_order_of_the_columns_and_are_never_sorted() -> None:
    order = [2, 0, 1]
    shuffled = [ANIMALS[j] for j in order]
    for loss in (log_loss, brier_loss):
        np.testing.assert_allclose(loss(KIND, P3[:, order], labels=shuffled), loss(KIND, P3, labels=ANIMALS))
        assert not np.allclose(loss(KIND, P3, labels=shuffled), loss(KIND, P3, labels=ANIMALS))
    np.testing.assert_allclose(
        hinge_loss(BINARY, F, labels=["yes", "no"]), hinge_loss(BINARY, -F, labels=["no", "yes"])
    )
    np.testing.assert_allclose(
        log_loss(BINARY, P1, labels=["yes", "no"]), log_loss(BINARY, 1 - P1, labels=["no", "yes"])
    )


def test_log_loss_is_capped_by_the_public_eps() -> None:
    assert log_loss([1, 1], [0.0, -3.0], labels=[0, 1]) == pytest.approx([-math.log(EPS)] * 2)
    assert log_loss([1], [0.0], labels=[0, 1], eps=1e-3) == pytest.approx([math.log(1000)])
    assert log_loss([1], [1.5], labels=[0, 1]).tolist() == [0.0]
