"""Cross-validated losses of public rows equal those of scikit-learn's own cross-validation, row by row."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error, zero_one_loss
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.svm import SVC

import dptune
from dptune.choice.crossval import FoldAnswers, cross_validated_answers, losses_of, public_folds, taken
from dptune.losses.named import as_loss
from sklearn_tools import PUBLIC, rows

X, y = rows(60, seed=4)


def cross_validated_losses(train, X, y, *, loss, cv=5, **fit_params):
    folds = cv if isinstance(cv, list) else public_folds(X, y, cv=cv, loss=loss)
    return losses_of(cross_validated_answers(train, X, y, folds, as_loss(loss), fit_params), as_loss(loss))


@pytest.mark.parametrize(
    ("cv", "frames"), [(3, False), (KFold(4), True), (StratifiedKFold(5, shuffle=True, random_state=0), True)]
)
def test_they_are_the_losses_of_scikit_learns_predictions(cv, frames):
    table, answers = (pd.DataFrame(X, columns=list("abc")), pd.Series(y)) if frames else (X, y)
    model = LogisticRegression(C=0.3)
    p = cross_val_predict(model, table, answers, cv=cv, method="predict_proba")
    found = cross_validated_losses(clone(model).fit, table, answers, cv=cv, loss="log_loss")
    assert found == pytest.approx(-np.log(p[np.arange(60), y]))
    assert found.mean() == pytest.approx(log_loss(y, p))
    labels = cross_val_predict(model, table, answers, cv=cv)
    found = cross_validated_losses(clone(model).fit, table, answers, cv=cv, loss="zero_one")
    assert found.mean() == pytest.approx(zero_one_loss(y, labels))
    found = cross_validated_losses(Ridge().fit, X, 2 * X[:, 0], cv=KFold(3), loss="mse")
    predicted = cross_val_predict(Ridge(), X, 2 * X[:, 0], cv=3)
    assert found.mean() == pytest.approx(mean_squared_error(2 * X[:, 0], predicted))


def test_groups_and_options_are_divided_as_the_rows_are():
    groups = np.repeat(np.arange(12), 5)
    folds = public_folds(X, y, cv=GroupKFold(4), loss="log_loss", groups=groups)
    assert all(not set(groups[fit]) & set(groups[test]) for fit, test in folds)
    weights = np.where(np.arange(60) < 30, 1.0, 0.01)
    given = cross_validated_losses(LogisticRegression().fit, X, y, cv=folds, loss="log_loss", sample_weight=weights)
    fit, test = folds[0]
    model = LogisticRegression().fit(X[fit], y[fit], sample_weight=weights[fit])
    assert given[test] == pytest.approx(-np.log(model.predict_proba(X[test])[np.arange(len(test)), y[test]]))


@pytest.mark.parametrize("cv", [ShuffleSplit(1, random_state=0), TimeSeriesSplit(3)])
def test_rows_that_are_never_tested_are_refused(cv):
    with pytest.raises(dptune.InputError, match=r"never tests .* of the 60 public rows"):
        public_folds(X, y, cv=cv, loss="log_loss")


@pytest.mark.parametrize(
    "cv",
    [
        "five", b"five", 2.5, True, [], [1, 2], {"a": 1}, np.arange(6.0), pd.DataFrame({"a": ["x"]}),
        pa.table({"a": ["x"]}), [([0, 1], [60])], [([0, 1], [-1])], [([0.5], [1])], [(["x"], [1])], [([0], [1], [2])],
    ],
)  # fmt: skip
def test_folds_are_a_number_a_splitter_or_pairs(cv):
    with pytest.raises(dptune.InputError, match=r"^cv= must be a number of folds, .*A fold is .* from 0 to 59 .*d\.$"):
        public_folds(X, y, cv=cv, loss="log_loss")


def test_folds_may_be_given_in_every_form():
    wanted = [(fit.tolist(), test.tolist()) for fit, test in StratifiedKFold(5).split(X, y)]
    for cv in (5, np.int64(5), None, StratifiedKFold(5), wanted, iter(wanted), tuple(StratifiedKFold(5).split(X, y))):
        found = public_folds(X, y, cv=cv, loss="log_loss")
        assert [(fit.tolist(), test.tolist()) for fit, test in found] == wanted


def test_a_row_that_is_tested_several_times_has_its_mean_loss():
    folds = public_folds(X, y, cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), loss="log_loss")
    found = cross_validated_losses(LogisticRegression().fit, X, y, cv=folds, loss="log_loss")
    each = [
        cross_validated_losses(LogisticRegression().fit, X, y, cv=part, loss="log_loss")
        for part in (folds[:3], folds[3:])
    ]
    assert found == pytest.approx((each[0] + each[1]) / 2)


@pytest.mark.parametrize(("loss", "largest"), [("log_loss", -np.log(np.finfo(float).eps)), ("zero_one", 1.0)])
def test_a_label_that_a_fold_has_not_seen_has_the_largest_loss(loss, largest):
    rare = y.copy()
    rare[7] = 2
    found = cross_validated_losses(LogisticRegression().fit, X, rare, cv=KFold(3), loss=loss)
    assert found[7] == pytest.approx(largest)
    assert (np.delete(found, 7) < largest).any()


def test_errors_of_fits_are_shown_and_a_model_without_scores_is_refused():
    for model, error, said in (
        (SVC(), dptune.InputError, "log_loss needs predict_proba, which this SVC"),
        (LogisticRegression(C=-1), ValueError, "'C' parameter"),
    ):
        with pytest.raises(error, match=said):
            cross_validated_losses(model.fit, *PUBLIC, loss="log_loss")


@pytest.mark.parametrize(
    ("loss", "splitter"), [("mse", KFold(5, shuffle=True, random_state=0)), ("brier", StratifiedKFold(5))]
)
def test_folds_without_a_number_are_five(loss, splitter):
    found = public_folds(X, y, loss=loss)
    for (fit, test), (fit_too, test_too) in zip(found, splitter.split(X, y), strict=True):
        assert (fit.tolist(), test.tolist()) == (fit_too.tolist(), test_too.tolist())


@pytest.mark.parametrize("container", [np.array, list, tuple, pd.Series, lambda rows: pa.table({"a": rows})])
def test_rows_are_taken_in_any_order_from_every_container(container):
    found = taken(container([10, 11, 12, 13]), np.array([3, 0, 3]))
    assert list(found["a"].to_pylist() if isinstance(found, pa.Table) else found) == [13, 10, 13]


def test_a_row_has_the_mean_loss_of_the_folds_that_test_it():
    def fold(places, outputs):
        return FoldAnswers(np.array(places), np.zeros(len(places)), np.array(outputs), None)

    folds = [fold([0, 1], [1.0, 3.0]), fold([3, 0], [np.nan, 2.0]), fold([2, 0], [0.0, 5.0])]
    assert losses_of(folds, as_loss("mse")) == pytest.approx([(1 + 4 + 25) / 3, 9.0, 0.0, 25.0])
    texts = [FoldAnswers(np.arange(2), np.array([1, 2], dtype=object), np.array([1.5, 2.0]), None)]
    assert losses_of(texts, as_loss("mse")) == pytest.approx([0.25, 0.0])


def test_options_of_a_fit_are_divided_if_they_have_an_entry_for_each_row():
    seen = []

    def train(X, y, **options):
        seen.append(options)
        return LogisticRegression().fit(X, y)

    options = {"vector": list(range(60)), "matrix": np.arange(120).reshape(60, 2), "text": "a" * 60}
    others = {"mapping": dict.fromkeys(range(60)), "short": [1, 2], "number": 60, "wide": np.zeros((2, 60))}
    cross_validated_losses(train, X, y, cv=[(np.arange(5, 60), np.arange(5)), (np.arange(0, 60, 2), np.arange(5, 60))],
                           loss="log_loss", **options, **others)  # fmt: skip
    even = seen[1]
    assert even["vector"] == list(range(0, 60, 2))
    assert even["matrix"].tolist() == options["matrix"][::2].tolist()
    assert even["text"] == options["text"]
    assert all(even[name] is others[name] for name in others)
