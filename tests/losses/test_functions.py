"""The means of per-example losses equal scikit-learn's metrics, and no private value makes a loss raise."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression

from dptune.losses.estimator import estimator_losses
from dptune.losses.functions import (
    EPS,
    absolute_error,
    brier_loss,
    hinge_loss,
    huber_loss,
    label_codes,
    log_loss,
    pinball_loss,
    squared_error,
    zero_one_loss,
)
from dptune.losses.named import per_example_loss
from one_row import as_objects

RNG = np.random.default_rng(5)
Y, F = RNG.normal(size=40), RNG.normal(size=40)
ANIMALS = ["cat", "dog", "eel"]
KIND = RNG.choice(ANIMALS, size=40)
P3 = RNG.dirichlet(np.ones(3), size=40)  # (n, 3)
P1 = RNG.uniform(size=40)  # (n,)
BINARY = np.where(RNG.uniform(size=40) < 0.4, "no", "yes")

# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "metric"),
    [
        (squared_error(Y, F), metrics.mean_squared_error(Y, F)),
        (absolute_error(Y, F), metrics.mean_absolute_error(Y, F)),
        (pinball_loss(Y, F, quantile=0.8), metrics.mean_pinball_loss(Y, F, alpha=0.8)),
        (pinball_loss(Y, F, quantile=0.1), metrics.mean_pinball_loss(Y, F, alpha=0.1)),
        (log_loss(KIND, P3, labels=ANIMALS), metrics.log_loss(KIND, P3, labels=ANIMALS)),
        (log_loss(BINARY, P1, labels=["no", "yes"]), metrics.log_loss(BINARY, P1, labels=["no", "yes"])),
        # scikit-learn has this one since 1.7
        (brier_loss(KIND, P3, labels=ANIMALS), ((P3 - (KIND[:, None] == ANIMALS)) ** 2).sum(axis=1).mean()),
        (brier_loss(BINARY, P1, labels=["no", "yes"]), metrics.brier_score_loss(BINARY, P1, pos_label="yes")),
        (hinge_loss(BINARY, F, labels=["no", "yes"]), metrics.hinge_loss(BINARY, F, labels=["no", "yes"])),
        (zero_one_loss(KIND, np.roll(KIND, 1)), metrics.zero_one_loss(KIND, np.roll(KIND, 1))),
    ],
)
def test_mean_equals_scikit_learn(losses: np.ndarray, metric: float) -> None:
    assert losses.shape == (40,)
    assert losses.dtype == np.float64
    assert losses.mean() == pytest.approx(metric, rel=1e-12)


def test_huber_by_hand() -> None:
    assert huber_loss([0.0, 0.0, 0.0], [0.5, 1.0, -3.0]).tolist() == [0.125, 0.5, 2.5]
    assert huber_loss([0.0, 0.0], [1.0, 4.0], c=2.0).tolist() == [0.5, 6.0]


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
    assert log_loss([1], [1.5], labels=[0, 1]).tolist() == [0.0]  # no probability


X2, Y2 = make_classification(60, 5, random_state=0)


@pytest.mark.parametrize("y", [Y2, np.where(Y2 == 1, "sick", "healthy"), 1 - Y2], ids=["numbers", "text", "swapped"])
def test_classifier_losses_average_to_the_scores(y: np.ndarray) -> None:
    model = LogisticRegression().fit(X2, y)
    proba = model.predict_proba(X2)
    for name, score in {
        "neg_log_loss": metrics.log_loss(y, proba, labels=model.classes_),
        "accuracy": 1 - model.score(X2, y),
        "brier": metrics.brier_score_loss(y, proba[:, 1], pos_label=model.classes_[1]),
        "hinge": metrics.hinge_loss(y, model.decision_function(X2), labels=model.classes_),
    }.items():
        assert estimator_losses(name, model, X2, y).mean() == pytest.approx(score, rel=1e-9)
        np.testing.assert_array_equal(estimator_losses(name, model, X2, list(y)), estimator_losses(name, model, X2, y))


def test_regressor_losses() -> None:
    X = RNG.normal(size=(40, 2))
    model = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(estimator_losses("mse", model, X, Y), (Y - model.predict(X)) ** 2)
    loss = per_example_loss("pinball", quantile=0.3)
    np.testing.assert_array_equal(estimator_losses(loss, model, X, Y), pinball_loss(Y, model.predict(X), quantile=0.3))


# --- no private value makes a loss raise, warn or touch a neighbour's entry -------------------------------------------


REGRESSION = {
    "squared": squared_error,
    "absolute": absolute_error,
    "huber": huber_loss,
    "pinball": lambda y, f: pinball_loss(y, f, quantile=0.8),
}


anything = st.one_of(
    st.floats(width=64),
    st.sampled_from([math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324]),
)
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


def test_what_one_odd_entry_makes_of_an_array_is_read_back() -> None:
    """NumPy and CSV readers turn the numbers beside one text into text; nobody else's loss may change with it."""
    np.testing.assert_array_equal(squared_error(np.ma.masked_array([1.5, 9.0], [False, True]), [1, 1]), [0.25, np.nan])
    np.testing.assert_array_equal(zero_one_loss(np.array(["1", "0", "?"]), [1, 1, 1]), [0, 1, np.nan])
    for labels in ([0, 1], [0.0, 1.0], ["0", "1"], ["0.0", "1.0"], [False, True], ["False", "True"]):
        for y in ([0, 1], [0.0, 1.0, None], ["0.0", "1.0", "?"], [False, True], ["False", "True", "?"]):
            losses = hinge_loss(np.array(y), [0.0] * len(y), labels=labels)
            np.testing.assert_array_equal(losses, [1.0, 1.0, np.nan][: len(y)])


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("public", ["float16", "float32", "float64"])
def test_labels_that_are_fractions_are_those_of_every_type(public: str, kind: str) -> None:
    labels, y = np.array([0.1, 0.7], public), np.array([0.7, 0.1, 0.2], kind)
    for held in (y, y.astype(object), np.r_[y.astype(object), ["?"]], y.astype(str), y.tolist()):
        losses = zero_one_loss(held, [labels[1]] * len(held), labels=labels.tolist())
        np.testing.assert_array_equal(losses, [0, 1, np.nan, np.nan][: len(held)])
        np.testing.assert_array_equal(zero_one_loss(held, [labels[1]] * len(held)), [0, 1, 1, np.nan][: len(held)])


@pytest.mark.parametrize("label", [1.0, 2.0**24])
def test_a_label_next_to_a_whole_one_is_it_in_every_form(label: float) -> None:
    """One cell of text turns numbers into objects; that must not move the label of another person."""
    near = np.nextafter(label, 0.0)
    for y in (np.array([near, 0.0]), [near, "?"], np.array([near, "?"], dtype=object), np.array([str(near), "?"])):
        assert label_codes(y, [0.0, label])[0] == 1


def test_print_options_decide_of_no_label() -> None:
    y = np.array([0.1, 0.7], dtype=np.float16)
    with np.printoptions(legacy="1.13"):
        codes = [label_codes(held, y.tolist()).tolist() for held in (y, y.astype(object))]
    assert codes == [[0, 1], [0, 1]]


def test_unknown_labels_become_nan_even_when_unhashable_or_missing() -> None:
    y = ["cat", "wolf", None, ["cat", "dog"], math.nan, "dog"]
    np.testing.assert_array_equal(zero_one_loss(y, ["cat"] * 6, labels=ANIMALS), [0, np.nan, np.nan, np.nan, np.nan, 1])
    np.testing.assert_array_equal(zero_one_loss(["cat", "dog"], ["wolf", "dog"], labels=ANIMALS), [np.nan, 0])
    np.testing.assert_array_equal(zero_one_loss([1.0, math.nan], [1.0, 1.0]), [0, np.nan])
