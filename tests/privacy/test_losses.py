"""Per-example losses against scikit-learn's means, and against every value that must not raise."""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, PredefinedSplit, ShuffleSplit, StratifiedKFold
from sklearn.svm import SVC

from dptune.errors import InputError, UnsupportedMetric
from dptune.privacy.losses import (
    EPS,
    absolute_error,
    brier_loss,
    estimator_losses,
    hinge_loss,
    huber_loss,
    log_loss,
    per_example_loss,
    pinball_loss,
    refuse_cross_validation,
    squared_error,
    zero_one_loss,
)

RNG = np.random.default_rng(5)
Y, F = RNG.normal(size=40), RNG.normal(size=40)
ANIMALS = ["cat", "dog", "eel"]
KIND = RNG.choice(ANIMALS, size=40)
P3 = RNG.dirichlet(np.ones(3), size=40)  # (n, 3)
P1 = RNG.uniform(size=40)  # (n,)
BINARY = np.where(RNG.uniform(size=40) < 0.4, "no", "yes")

REGRESSION = {
    "squared": squared_error,
    "absolute": absolute_error,
    "huber": huber_loss,
    "pinball": lambda y, f: pinball_loss(y, f, quantile=0.8),
}


# --- the mean is the metric -------------------------------------------------------------------------------


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


@pytest.mark.parametrize("loss", [log_loss, brier_loss])
def test_one_column_equals_two(loss: Any) -> None:
    two = np.column_stack([1 - P1, P1])
    np.testing.assert_allclose(loss(BINARY, two, labels=["no", "yes"]), loss(BINARY, P1, labels=["no", "yes"]))


def test_log_loss_is_capped_by_the_public_eps() -> None:
    assert log_loss([1, 1], [0.0, -3.0], labels=[0, 1]) == pytest.approx([-math.log(EPS)] * 2)
    assert log_loss([1], [0.0], labels=[0, 1], eps=1e-3) == pytest.approx([math.log(1000)])
    assert log_loss([1], [1.5], labels=[0, 1]).tolist() == [0.0]


# --- no private value raises, warns, or touches a neighbour's entry ----------------------------------------

anything = st.one_of(
    st.floats(width=64),
    st.sampled_from([math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324]),
)


def objects(values: list[Any]) -> np.ndarray:
    """A vector of objects, whatever they are."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


weird = st.one_of(anything, st.none(), st.text(max_size=3), st.integers(), st.lists(st.integers(), max_size=2))
weird_vectors = st.lists(weird, min_size=4, max_size=4).map(objects)


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


class Panic(BaseException):
    """No Exception, as what Rust extensions raise."""


class Refusing:
    """An entry that raises whatever is asked of it."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def refuse(self, *args: Any) -> Any:
        raise self.error("secret")

    __float__ = __eq__ = __ne__ = __hash__ = refuse


UNUSUAL = [RuntimeError, Panic, SystemExit, GeneratorExit]


@pytest.mark.parametrize("error", UNUSUAL)
def test_an_entry_that_raises_becomes_nan_and_leaves_the_others(error: type[BaseException]) -> None:
    bad = objects([1, Refusing(error), 0])
    np.testing.assert_array_equal(squared_error(bad, [0.0, 0.0, 0.0]), [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(zero_one_loss(bad, objects([1, 1, 1])), [0.0, np.nan, 1.0])
    np.testing.assert_array_equal(zero_one_loss(bad, [1, 1, 1], labels=[0, 1]), [0.0, np.nan, 1.0])


@pytest.mark.parametrize("bad", [None, "text", object(), [1, 2], 10**400, 1j, np.complex128(1j), np.array([1.0])])
def test_one_odd_entry_becomes_nan_and_leaves_the_others(bad: Any) -> None:
    y = np.array([1.0, 0.0, 2.0], dtype=object)
    y[1] = bad
    np.testing.assert_array_equal(squared_error(y, [0.0, 0.0, 0.0]), [1.0, np.nan, 4.0])


def test_unknown_labels_become_nan_even_when_unhashable_or_missing() -> None:
    y = ["cat", "wolf", None, ["cat"], math.nan, "dog"]
    p = np.full((6, 3), 1 / 3)
    for loss in (log_loss, brier_loss):
        assert np.isnan(loss(y, p, labels=ANIMALS)).tolist() == [False, True, True, True, True, False]
    np.testing.assert_array_equal(zero_one_loss(y, ["cat"] * 6, labels=ANIMALS), [0, np.nan, np.nan, np.nan, np.nan, 1])
    np.testing.assert_array_equal(zero_one_loss(["cat", "dog"], ["wolf", "dog"], labels=ANIMALS), [np.nan, 0])
    np.testing.assert_array_equal(zero_one_loss([1.0, math.nan], [1.0, 1.0]), [0, np.nan])


def test_an_infinite_score_is_never_a_perfect_score() -> None:
    assert np.isnan(log_loss([1], [math.inf], labels=[0, 1])).all()
    assert np.isnan(hinge_loss([1], [math.inf], labels=[0, 1])).all()


# --- errors are about public shapes and settings -------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: squared_error([1.0, 2.0], [1.0]), r"y has shape \(2,\) and prediction has shape \(1,\)"),
        (lambda: squared_error([1.0], np.array([[1.0]])), r"prediction has shape \(1, 1\)"),
        (lambda: squared_error(np.array(["secret"]), [1.0]), "y must hold real numbers"),
        (lambda: squared_error(np.array([1 + 2j]), [1.0]), "real numbers"),
        (lambda: huber_loss([1.0], [1.0], c=0.0), "c=0.0"),
        (lambda: huber_loss([1.0], [1.0], c=math.nan), "c=nan"),
        (lambda: pinball_loss([1.0], [1.0], quantile=1.0), "quantile=1.0"),
        (lambda: log_loss([1], [0.5], labels=[0, 1], eps=0.0), "eps=0.0"),
        (lambda: log_loss([1], np.array([[0.5, 0.5]]), labels=[0, 1, 2]), r"proba has shape \(1, 2\) for 3 labels"),
        (lambda: log_loss([1], np.array([0.5]), labels=[0, 1, 2]), r"proba has shape \(1,\)"),
        (lambda: log_loss([1], [0.5], labels=[1, 1]), "distinct"),
        (lambda: log_loss([1], [0.5], labels=[]), "at least one"),
        (lambda: log_loss([1], [0.5], labels=[[0], [1]]), "plain values"),
        (lambda: hinge_loss([1], [0.5], labels=[0, 1, 2]), "exactly two"),
        (lambda: hinge_loss(np.array(["secret"]), [0.5], labels=[0, 1]), "y holds text where numbers"),
        (lambda: zero_one_loss(np.array(["secret"]), np.array([1])), "prediction holds numbers where text"),
        (lambda: zero_one_loss([1, 2], [1]), "same people"),
    ],
)
def test_errors_name_public_things_only(call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


# --- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("neg_mean_squared_error", "squared_error"),
        ("mse", "squared_error"),
        ("neg_mean_absolute_error", "absolute_error"),
        ("huber", "huber_loss"),
        ("neg_log_loss", "log_loss"),
        ("accuracy", "zero_one_loss"),
        ("hinge", "hinge_loss"),
        ("brier", "brier_loss"),
        ("neg_brier_score", "brier_loss"),
    ],
)
def test_names_of_scikit_learn(name: str, canonical: str) -> None:
    assert per_example_loss(name).name == canonical
    assert per_example_loss(canonical).name == canonical


def test_accuracy_says_that_it_is_one_minus_the_loss() -> None:
    assert "accuracy = 1 -" in per_example_loss("accuracy").note


@pytest.mark.parametrize(
    ("name", "alternative"),
    [
        ("roc_auc", "log_loss"),
        ("roc_auc_ovr_weighted", "log_loss"),
        ("average_precision", "log_loss"),
        ("f1", "accuracy"),
        ("f1_macro", "accuracy"),
        ("balanced_accuracy", "accuracy"),
        ("matthews_corrcoef", "accuracy"),
        ("mcc", "accuracy"),
        ("r2", "squared_error"),
        ("neg_median_absolute_error", "absolute_error"),
        ("rmse", "take the root of the released value"),
        ("neg_root_mean_squared_error", "take the root of the released value"),
        ("neg_root_mean_squared_log_error", "logarithms"),
    ],
)
def test_what_is_not_a_mean_is_refused_with_an_alternative(name: str, alternative: str) -> None:
    with pytest.raises(UnsupportedMetric, match=alternative) as caught:
        per_example_loss(name)
    assert name in str(caught.value)


def test_unknown_names_and_options_list_what_is_allowed() -> None:
    with pytest.raises(InputError, match="neg_log_loss") as caught:
        per_example_loss("acuracy")
    assert not isinstance(caught.value, UnsupportedMetric)
    with pytest.raises(InputError, match="a function is not the name"):
        per_example_loss(squared_error)
    with pytest.raises(InputError, match="no option"):
        per_example_loss("mse", c=1.0)
    with pytest.raises(InputError, match="quantile="):
        per_example_loss("pinball")
    with pytest.raises(InputError, match="labels="):
        per_example_loss("log_loss")([1], [0.5])


def test_options_reach_the_function() -> None:
    assert per_example_loss("pinball", quantile=0.75)([2.0], [0.0]).tolist() == [1.5]
    assert per_example_loss("huber", c=2.0)([0.0], [4.0]).tolist() == [6.0]


# --- fitted estimators -----------------------------------------------------------------------------------------

X2, Y2 = make_classification(60, 5, random_state=0)
NAMES2 = np.where(Y2 == 1, "sick", "healthy")


@pytest.mark.parametrize("y", [Y2, NAMES2, 1 - Y2], ids=["numbers", "text", "swapped"])
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


def test_a_label_the_model_has_not_seen_is_nan() -> None:
    model = LogisticRegression().fit(X2, NAMES2)
    y = NAMES2.astype(object)
    y[3] = "dead"
    for name in ("log_loss", "brier", "hinge", "accuracy"):
        assert np.flatnonzero(np.isnan(estimator_losses(name, model, X2, y))).tolist() == [3]


def test_one_answer_of_another_type_in_a_list_does_not_fail_the_trial() -> None:
    y: list[Any] = Y2.tolist()
    y[3] = "dead"
    losses = estimator_losses("log_loss", LogisticRegression().fit(X2, Y2), X2, y)
    assert np.flatnonzero(np.isnan(losses)).tolist() == [3]


class Fragile:
    """Fails, loudly and with the value in its message, on any row that holds the number 7."""

    classes_ = np.array([0, 1])

    def predict(self, X: np.ndarray) -> np.ndarray:
        warnings.warn(f"a private value: {X[0]}", stacklevel=1)
        if (X == 7).any():
            raise ValueError(f"secret row {X}")
        return (X[:, 0] > 0).astype(int)


def test_a_row_that_breaks_the_model_costs_its_own_entry_only() -> None:
    X = np.array([[1.0], [7.0], [-1.0]])
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        losses = estimator_losses("accuracy", Fragile(), X, np.array([1, 1, 1]))
    np.testing.assert_array_equal(losses, [0.0, np.nan, 1.0])
    assert stream.getvalue() == ""


@pytest.mark.parametrize("error", UNUSUAL)
def test_a_row_fails_alone_whatever_the_model_raises(error: type[BaseException]) -> None:
    class Panicking(Fragile):
        decision_function = predict_proba = None

        def predict(self, X: np.ndarray) -> np.ndarray:
            if (X == 7).any():
                raise error(f"secret row {X}")
            return np.ones(len(X))

    rows = np.array([[1.0], [7.0], [-1.0]])
    np.testing.assert_array_equal(estimator_losses("accuracy", Panicking(), rows, [1, 1, 0]), [0.0, np.nan, 1.0])


def test_an_interrupt_passes_without_the_frames_of_the_model() -> None:
    class Interrupted(Fragile):
        def predict(self, X: np.ndarray) -> np.ndarray:
            raise KeyboardInterrupt(f"secret row {X}")

    with pytest.raises(KeyboardInterrupt) as caught:
        estimator_losses("accuracy", Interrupted(), np.array([[1.0]]), [1])
    assert not caught.value.args
    assert caught.value.__context__ is None
    assert "predict" not in [frame.name for frame in caught.traceback]


def test_a_missing_cell_in_a_real_model_does_not_fail_the_trial() -> None:
    model = LogisticRegression().fit(X2, Y2)
    X = X2.copy()
    X[5, 2] = np.nan
    before, after = (estimator_losses("log_loss", model, rows, Y2) for rows in (X2, X))
    assert np.flatnonzero(np.isnan(after)).tolist() == [5]
    np.testing.assert_allclose(np.delete(after, 5), np.delete(before, 5), rtol=1e-9)


class Frame:
    """What this package asks of a data frame: a shape, and rows by position through iloc only."""

    def __init__(self, rows: np.ndarray) -> None:
        self.iloc, self.shape = rows, rows.shape


class OfFrames(Fragile):
    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X.iloc if isinstance(X, Frame) else X)


def test_a_data_frame_is_read_by_position() -> None:
    frame = Frame(np.array([[1.0], [7.0], [-1.0]]))
    np.testing.assert_array_equal(estimator_losses("accuracy", OfFrames(), frame, [1, 1, 1]), [0.0, np.nan, 1.0])


def test_estimator_errors_are_public() -> None:
    model = LogisticRegression().fit(X2, Y2)
    with pytest.raises(InputError, match="needs predict_proba"):
        estimator_losses("log_loss", SVC().fit(X2, Y2), X2, Y2)
    with pytest.raises(InputError, match="no classes_"):
        estimator_losses("accuracy", LinearRegression().fit(X2, Y2), X2, Y2)
    with pytest.raises(InputError, match="not fitted") as caught:
        estimator_losses("mse", LinearRegression(), X2, Y2)
    assert not isinstance(caught.value.__context__, NotFittedError)
    with pytest.raises(InputError, match="fitted on 5 columns"):
        estimator_losses("accuracy", model, X2[:, :2], Y2)
    with pytest.raises(InputError, match=r"X has shape \(60, 5\) and y has shape \(59,\)"):
        estimator_losses("accuracy", model, X2, Y2[1:])
    with pytest.raises(UnsupportedMetric):
        estimator_losses("roc_auc", model, X2, Y2)


@settings(max_examples=20)
@given(row=hnp.arrays(float, 5, elements=anything), i=st.integers(0, 59))
def test_replacing_one_person_changes_one_entry(row: np.ndarray, i: int) -> None:
    model = LogisticRegression().fit(X2, Y2)
    X = X2.copy()
    X[i] = row
    before, after = (estimator_losses("log_loss", model, rows, Y2) for rows in (X2, X))
    np.testing.assert_allclose(np.delete(after, i), np.delete(before, i), rtol=1e-9)


# --- cross-validation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cv",
    [
        5,
        1,
        None,
        KFold(3),
        StratifiedKFold(2),
        ShuffleSplit(1),
        PredefinedSplit([0, 1, 0]),
        PredefinedSplit([-1, -1]),
        iter([([0], [1])]),
        [([0, 1], [2]), ([2], [0, 1])],
        [([0, 1], [1, 2])],
        [([0, -1], [2])],
        [([True, False], [False, True])],
        [],
    ],
)
def test_anything_but_a_fixed_hold_out_is_refused(cv: object) -> None:
    with pytest.raises(UnsupportedMetric, match="fixed public hold-out"):
        refuse_cross_validation(cv)


@pytest.mark.parametrize("cv", [[([0, 1], [2, 3])], [(np.arange(5), np.arange(5, 9))], PredefinedSplit([-1, -1, 0])])
def test_a_fixed_hold_out_passes(cv: object) -> None:
    refuse_cross_validation(cv)
