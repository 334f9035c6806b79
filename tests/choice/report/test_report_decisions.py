"""Decisions of a report are those of ``predict``; a model that decides otherwise is refused, with ways that work."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as exact
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dptune import InputError
from report_tools import PRIVATE, PUBLIC, people, report, silent

X, Y = PRIVATE
WORDS = np.array(["sick", "well"])
PAGE = Path(__file__).parents[3] / "docs/report.md"


def fixed(model: Any, threshold: float, label: Any = None, method: str = "auto") -> Any:
    return FixedThresholdClassifier(model, threshold=threshold, pos_label=label, response_method=method)


class Signs(LogisticRegression):
    """Its decision values are -1, 0 and 1, and it has no probabilities."""

    @property
    def predict_proba(self) -> Any:
        raise AttributeError

    def decision_function(self, X: Any) -> Any:
        return np.sign(np.round(super().decision_function(X)))


class Dusty(KNeighborsClassifier):
    """Its equal probabilities differ by rounding."""

    def predict_proba(self, X: Any) -> Any:
        p = super().predict_proba(X)
        return p + np.where(p == 0.5, [1e-16, -1e-16], 0.0)[:, ::-1]


class FromHalfOn(KNeighborsClassifier):
    """Decides equal probabilities for the second label."""

    def predict(self, X: Any) -> Any:
        return self.classes_[(self.predict_proba(X)[:, 1] >= 0.5).astype(int)]


class Costly(LogisticRegression):
    """A missed case of the last label costs five."""

    def predict(self, X: Any) -> Any:
        costs = np.append(np.ones(len(self.classes_) - 1), 5.0)
        return self.classes_[np.argmax(self.predict_proba(X) * costs, axis=1)]


class Arrays(LogisticRegression):
    """Its predictions are one-hot rows."""

    def predict(self, X: Any) -> Any:
        return np.round(self.predict_proba(X))


class Column(LogisticRegression):
    """Answers a column of labels, like CatBoost."""

    def predict(self, X: Any) -> Any:
        return super().predict(X)[:, None]


MODELS: dict[str, Any] = {
    "two neighbours": KNeighborsClassifier(2),
    "ten trees": RandomForestClassifier(10, max_depth=2, random_state=0),
    "signs": Signs(),
    "rounding": Dusty(2),
    "from a half on": FromHalfOn(2),
    "a fixed threshold": fixed(LogisticRegression(), 0.25),
    "of the first label": fixed(LogisticRegression(), 0.25, "sick"),
    "of neighbours": fixed(KNeighborsClassifier(4), 0.25),
    "of neighbours, a half": fixed(KNeighborsClassifier(4), 0.5),
    "of the first label of neighbours": fixed(KNeighborsClassifier(4), 0.75, "sick"),
    "of decision values": fixed(SVC(), -0.4),
    "of decision values of the first label": fixed(SVC(), -0.4, "sick"),
    "a tuned threshold": TunedThresholdClassifierCV(LogisticRegression(), scoring="balanced_accuracy", cv=3),
    "tuned for the first label": TunedThresholdClassifierCV(
        LogisticRegression(), scoring=make_scorer(f1_score, pos_label="sick"), cv=3
    ),
    "in a pipeline": make_pipeline(StandardScaler(), fixed(LogisticRegression(), 0.3)),
    "in a search": GridSearchCV(fixed(LogisticRegression(), 0.3), {"estimator__C": [0.1, 1.0]}, cv=3),
}


@pytest.mark.parametrize("positive", WORDS)
@pytest.mark.parametrize("kind", MODELS)
def test_decisions_are_those_of_predict(tmp_path: Path, kind: str, positive: str) -> None:
    model = MODELS[kind].fit(PUBLIC[0], WORDS[PUBLIC[1]])
    found = report(silent(tmp_path), model, (X, WORDS[Y]), held_out=(PUBLIC[0], WORDS[PUBLIC[1]]), positive=positive)
    truth, decided = WORDS[Y] == positive, model.predict(X) == positive
    wanted = exact.confusion_matrix(truth, decided)
    assert found.confusion_matrix == pytest.approx(wanted, abs=1e-4)
    threshold = found.plan.bins[0].threshold
    assert found.at(round(threshold, 8)).confusion_matrix == pytest.approx(wanted, abs=1e-4)  # the number as printed
    assert f"of {threshold:.4g}\n" in str(found)


def test_the_number_of_a_threshold_is_printed_as_it_was_given(tmp_path: Path) -> None:
    model = fixed(LogisticRegression(), 0.25).fit(PUBLIC[0], WORDS[PUBLIC[1]])
    found = report(silent(tmp_path), model, (X, WORDS[Y]), public=(PUBLIC[0], WORDS[PUBLIC[1]]))
    assert "positive is 'well', decided above a probability of 0.25\n" in str(found)


def refused(folder: Path, model: Any, public: Any, data: Any = PRIVATE) -> str:
    mine = silent(folder)
    with pytest.raises(InputError) as error:
        report(mine, model, data, public=public)
    assert mine.ledger.count() == 0
    return str(error.value)


ALONE = (
    "a model that has predict alone, whose report is of its labels, with held_out= or scores= (docs/report.md). "
    "Nothing was charged."
)


def test_a_threshold_of_another_score_is_refused(tmp_path: Path) -> None:
    """Also where public rows do not show it."""
    model = fixed(LogisticRegression(), 0.0, method="decision_function").fit(*PUBLIC)
    assert refused(tmp_path, model, PUBLIC) == (
        "this FixedThresholdClassifier decides by a threshold of its decision_function, and a report reads its "
        f"predict_proba. Give threshold=, one of predict_proba that you decide by, or {ALONE}"
    )
    assert report(silent(tmp_path), model, threshold=0.5).accuracy_score.value > 0.5


def test_a_threshold_of_a_half_decides_ties_that_public_rows_lack(tmp_path: Path) -> None:
    """Scikit-learn decides a score equal to the threshold for the positive label, a tie for the first one."""
    model = fixed(KNeighborsClassifier(4), 0.5).fit(*PUBLIC)
    rows = np.flatnonzero(model.predict_proba(PUBLIC[0])[:, 1] != 0.5)
    assert (model.predict_proba(X)[:, 1] == 0.5).any()
    found = report(silent(tmp_path), model, held_out=(PUBLIC[0][rows], PUBLIC[1][rows]))
    assert found.confusion_matrix == pytest.approx(exact.confusion_matrix(Y, model.predict(X)), abs=1e-4)


def test_labels_may_be_a_column(tmp_path: Path) -> None:
    public, private = people(300, seed=1, classes=3), people(400, classes=3)
    model = Column().fit(*public)
    found = report(silent(tmp_path), model, private, held_out=people(300, seed=2, classes=3))
    wanted = exact.confusion_matrix(private[1], model.predict(private[0]))
    assert found.confusion_matrix == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("threshold", ["0.3", None, np.nan, [0.5]])
def test_a_threshold_that_is_no_number_is_refused(tmp_path: Path, threshold: Any) -> None:
    found = report(silent(tmp_path), LogisticRegression().fit(*PUBLIC))
    with pytest.raises(InputError, match=r"^at\(\) takes a threshold, a number; got "):
        found.at(threshold)


def test_a_predict_of_another_cut_is_refused_with_ways_that_work(tmp_path: Path) -> None:
    model = Costly().fit(*PUBLIC)
    p, decided = model.predict_proba(PUBLIC[0])[:, 1], model.predict(PUBLIC[0])
    said = refused(tmp_path, model, PUBLIC)
    low, high = re.findall(r"any from (\S+) up to (\S+) decides", said)[0]
    assert said == (
        f"predict of this Costly decides {(decided != (p > 0.5)).sum()} of 300 rows of public= otherwise than a "
        "probability above 0.5 does. Give threshold=0.5 to report that decision, or a threshold that you decide by: "
        f"any from {low} up to {high} decides these rows as predict does. Or give {ALONE}"
    )
    for threshold in (low, high):
        assert ((p > float(threshold)) == decided).all()
    of_private = model.predict_proba(X)[:, 1]
    for name, threshold in (("half", 0.5), ("low", float(low)), ("high", float(high))):
        (tmp_path / name).mkdir()
        found = report(silent(tmp_path / name), model, threshold=threshold)
        assert found.accuracy_score.value == pytest.approx(np.mean((of_private > threshold) == Y), abs=1e-6)


@pytest.mark.parametrize("model", [Arrays(), SVC(kernel="linear")])
def test_no_threshold_is_named_where_none_decides_as_predict(tmp_path: Path, model: Any) -> None:
    """Predictions that are not labels, or that follow a score only roughly."""
    model = model.fit(*PUBLIC)
    score, usual = "probability", "0.5"
    if isinstance(model, SVC):
        score, usual = "decision value", "0"
        decide = model.predict
        model.predict = lambda X: decide(X + [[0.5, 0.0, 0.0]] * (np.arange(len(X)) % 2)[:, None])
    said = refused(tmp_path, model, PUBLIC)
    assert re.fullmatch(
        rf"predict of this \w+ decides \d+ of 300 rows of public= otherwise than a {score} above {usual} does\. Give "
        rf"threshold={usual} to report that decision, or a threshold that you decide by\. Or give {re.escape(ALONE)}",
        said,
    )
    assert report(silent(tmp_path), model, threshold=float(usual)).accuracy_score.value > 0.5


def test_three_labels_are_decided_as_predict_or_refused(tmp_path: Path) -> None:
    public, private = people(300, seed=1, classes=3), people(400, classes=3)
    model = Costly().fit(*public)
    apart = (model.predict(public[0]) != np.argmax(model.predict_proba(public[0]), axis=1)).sum()
    assert refused(tmp_path, model, public, private) == (
        f"predict of this Costly decides {apart} of 300 rows of public= otherwise than the largest probability does. "
        f"Give {ALONE}"
    )


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("rows", ["held_out", "scores"])
def test_a_model_with_predict_alone_is_reported_by_its_labels(tmp_path: Path, rows: str, classes: int) -> None:
    """With the class of docs/report.md, word by word."""
    (source,) = re.findall(r"^class Labels:\n(?:    .*\n)+", PAGE.read_text(), re.MULTILINE)
    names: dict[str, Any] = {}
    exec(source, names)
    public, private = people(300, seed=1, classes=classes), people(400, classes=classes)
    model = Costly().fit(*public)
    given: dict[str, Any] = {"held_out": people(300, seed=2, classes=classes)}
    if rows == "scores":
        given = {"public": public, "scores": cross_val_predict(Costly(), *public)}
    found = report(silent(tmp_path), names["Labels"](model), private, **given)
    decided = model.predict(private[0])
    assert found.confusion_matrix == pytest.approx(exact.confusion_matrix(private[1], decided), abs=1e-4)
    assert found.balanced_accuracy_score.value == pytest.approx(balanced_accuracy_score(private[1], decided), abs=1e-4)


def test_a_model_without_predict_is_not_compared(tmp_path: Path) -> None:
    class Alone:
        classes_ = np.array([0, 1])
        predict_proba = staticmethod(LogisticRegression().fit(*PUBLIC).predict_proba)

    found = report(silent(tmp_path), Alone(), held_out=PUBLIC)
    assert found.accuracy_score.value == pytest.approx(np.mean((Alone.predict_proba(X)[:, 1] > 0.5) == Y), abs=1e-6)
