"""Models that answer a column (n, 1), and regressors with an empty ``classes_``, as CatBoost's are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from dptune.choice.crossval import cross_validated_answers, losses_of
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import NamedLoss, as_loss
from report_tools import people, report, silent

PUBLIC, PRIVATE = people(300, seed=1, classes=3), people(400, classes=3)
LABELS = {
    "whole numbers": np.arange(3),
    "floats": np.array([1.0, 2.0, 4.0]),
    "texts": np.array(["a", "b", "c"]),
    "objects": np.array(["a", "b", "c"], dtype=object),
    "two": np.array([False, True, True]),
}


class Plain:
    """A model with one method, and the labels of another model if it has any."""

    def __init__(self, model: Any, method: str) -> None:
        self.n_features_in_ = 3
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_
        setattr(self, method, self._answers)
        self._method = getattr(model, method)

    def _answers(self, X: Any) -> Any:
        return self._method(X)


class Column(Plain):
    def _answers(self, X: Any) -> Any:
        return self._method(X)[:, None]


class EmptyClasses(Ridge):
    classes_ = np.array([], dtype=object)


def sums(rows: Any) -> Any:
    return rows[0].sum(axis=1) + rows[1]


CASES = {
    **{f"labels, {name}": ("zero_one", "predict", labels) for name, labels in LABELS.items()},
    "decision values": ("hinge", "decision_function", LABELS["two"]),
    "numbers": ("squared_error", "predict", None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_column_of_answers_is_a_vector(tmp_path: Path, case: str) -> None:
    name, method, labels = CASES[case]
    public, private = ((rows[0], sums(rows) if labels is None else labels[rows[1]]) for rows in (PUBLIC, PRIVATE))
    inner = (Ridge() if labels is None else LogisticRegression()).fit(*public)
    plain, column = Plain(inner, method), Column(inner, method)
    losses = estimator_losses(name, plain, *private)
    assert np.isfinite(losses).all()
    np.testing.assert_array_equal(estimator_losses(name, column, *private), losses)

    loss, folds = as_loss(name), [(np.arange(300), np.arange(300))]
    of_public = [
        losses_of(cross_validated_answers(lambda X, y, model=model: model, *public, folds, loss, {}), loss)
        for model in (plain, column)
    ]
    assert np.isfinite(of_public[0]).all()
    np.testing.assert_array_equal(of_public[1], of_public[0])

    reports = []
    for folder, model in (("plain", plain), ("column", column)):
        (tmp_path / folder).mkdir()
        if method != "predict":
            model.predict = inner.predict
        reports.append(report(silent(tmp_path / folder), model, private, held_out=public))
    assert reports[0].to_dict()["metrics"] == reports[1].to_dict()["metrics"]


def test_a_regressor_with_an_empty_list_of_labels_is_one(tmp_path: Path) -> None:
    public, private = (PUBLIC[0], sums(PUBLIC)), (PRIVATE[0], sums(PRIVATE))
    model = EmptyClasses().fit(*public)
    exact = np.abs(model.predict(private[0]) - private[1])
    found = report(silent(tmp_path), model, private, public=public)
    assert found.mean_absolute_error.value == pytest.approx(exact.mean(), rel=0.02)
    own = NamedLoss("own", lambda y, prediction: np.abs(y - prediction), "predict")
    np.testing.assert_allclose(estimator_losses(own, model, *private), exact)


class OddRow(Column):
    """Answers lists of one entry; for a row that begins with 99 something else."""

    def __init__(self, model: Any, odd: Any, listed: bool) -> None:
        super().__init__(model, "predict")
        self._odd, self._listed = odd, listed

    def _answers(self, X: Any) -> Any:
        rows = [self._odd if row[0] == 99.0 else [said] for row, said in zip(X, self._method(X).tolist(), strict=True)]
        if self._listed or len(set(map(np.shape, rows))) > 1:
            return rows if self._listed else np.fromiter(rows, dtype=object, count=len(rows))
        return np.array(rows)


@pytest.mark.parametrize("listed", [False, True], ids=["array", "list"])
@pytest.mark.parametrize("odd", [[], [None], ["zz"], [1.0, 2.0], [[1.0]], 1.0], ids=repr)
@pytest.mark.parametrize("name", ["zero_one", "squared_error"])
def test_an_odd_answer_in_a_column_is_one_persons(name: str, odd: Any, listed: bool) -> None:
    X, y = PRIVATE[0].copy(), PRIVATE[1]
    model = OddRow((LogisticRegression() if name == "zero_one" else Ridge()).fit(*PUBLIC), odd, listed)
    usual = estimator_losses(name, model, X, y)
    assert np.isfinite(usual).all()
    X[7, 0] = 99.0
    changed = estimator_losses(name, model, X, y)
    others = np.arange(len(y)) != 7
    np.testing.assert_array_equal(changed[others], usual[others])
