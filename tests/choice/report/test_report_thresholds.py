"""Curves without noise are those of decisions, and what a model is asked for decides what a report has."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn import metrics as exact
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from dptune.choice.report.cells import Asked, Bins, column_of, group_codes
from dptune.choice.report.plan import Groups, make_plan
from dptune.choice.report.public_rows import PublicScores, how_to_ask, public_scores
from dptune.losses.rows import Rows
from report_tools import MODEL, PRIVATE, PUBLIC, people, report, silent

X, Y = PRIVATE


def test_a_curve_is_that_of_the_decisions_at_its_thresholds(tmp_path: Path) -> None:
    found = report(silent(tmp_path), threshold=0.4)
    bins = found.plan.bins[0]
    fpr, tpr, thresholds = found.roc_curve()
    precision, recall, cuts = found.precision_recall_curve()
    assert len(fpr) == len(recall) == 4 * bins.count + 1
    assert (thresholds[0], thresholds[-1]) == (math.inf, -math.inf)
    assert list(cuts) == list(thresholds[::-1])
    stored = found.to_dict()["roc_curve"]
    assert list(stored) == ["false_positive_rates", "true_positive_rates", "thresholds"]
    assert stored["thresholds"] == [None, *thresholds[1:-1], None]
    assert stored["false_positive_rates"] == list(fpr)
    assert stored["true_positive_rates"] == list(tpr)
    p = MODEL.predict_proba(X)[:, 1]
    for edge in bins.edges:
        place, of_cut = list(thresholds).index(edge), list(cuts).index(edge)
        assert fpr[place] == pytest.approx(np.mean(p[Y == 0] > edge))
        assert tpr[place] == recall[of_cut] == pytest.approx(np.mean(p[Y == 1] > edge))
        assert precision[of_cut] == pytest.approx(Y[p > edge].mean())
    for b, points in enumerate(bins.points):  # three cuts within a bin, between points that are quarters of it
        last = 4 * (bins.count - 1 - b)
        assert list(thresholds[last + 1 : last + 4]) == pytest.approx(
            [(points[k - 1] + points[k]) / 2 for k in (12, 8, 4)]
        )
    assert (np.diff(precision[:-1]) > -0.2).all()


def test_decisions_beyond_all_scores_are_exact_and_never_hidden(tmp_path: Path) -> None:
    """A probability is never above 1 nor below 0; other thresholds outside of all edges are inside a bin."""
    found = report(silent(tmp_path))
    n0, n1 = np.bincount(Y)
    for threshold, matrix in ((-0.1, [[0, n0], [0, n1]]), (1.0, [[n0, 0], [n1, 0]])):
        for cut in (threshold, math.copysign(math.inf, threshold)):
            decided = found.at(cut)
            assert decided.confusion_matrix == pytest.approx(np.array(matrix), abs=1e-4)
            assert np.ptp(decided.recall_score.interval) < 1e-4
    assert np.ptp(found.at(1e-9).recall_score.interval) > 1e-3  # no public row, but perhaps a private one
    (tmp_path / "b").mkdir()
    of_values = report(silent(tmp_path / "b"), SVC().fit(*PUBLIC))
    assert np.ptp(of_values.at(-50.0).recall_score.interval) > 1e-3
    assert np.ptp(of_values.at(-math.inf).recall_score.interval) < 1e-4


@pytest.mark.parametrize("positive", [0, 1])
def test_decision_values_count_for_the_positive_label(tmp_path: Path, positive: int) -> None:
    model = SVC().fit(*PUBLIC)
    found = report(silent(tmp_path), model, positive=positive, threshold=0.3, bins=12)
    scores = model.decision_function(X) * (1 if positive else -1)
    yes = positive == Y
    assert found.recall_score.value == pytest.approx(np.mean(scores[yes] > 0.3))
    assert found.specificity.value == pytest.approx(np.mean(scores[~yes] <= 0.3))
    assert found.roc_auc_score.value == pytest.approx(exact.roc_auc_score(yes, scores), abs=0.015)


def test_metrics_of_each_of_three_classes_are_scikit_learns(tmp_path: Path) -> None:
    public, (rows, y) = people(400, seed=1, classes=3, signal=2.0), people(400, classes=3, signal=2.0)
    words = np.array(["red", "blue", "green"])  # not in the order of the labels
    for folder, model in (("a", LogisticRegression()), ("b", LinearSVC())):
        (tmp_path / folder).mkdir()
        model.fit(public[0], words[public[1]])
        found = report(silent(tmp_path / folder), model, (rows, words[y]), public=(public[0], words[public[1]]))
        assert found.plan.labels == ("blue", "green", "red")
        decided = model.predict(rows)
        assert found.confusion_matrix == pytest.approx(exact.confusion_matrix(words[y], decided))
        assert found.balanced_accuracy_score.value == pytest.approx(exact.balanced_accuracy_score(words[y], decided))
        for j, label in enumerate(found.plan.labels):
            of_label = words[y] == label, decided == label
            for name in ("recall", "precision", "f1"):
                wanted = getattr(exact, f"{name}_score")(*of_label)
                assert found.metrics[f"{name} of {label}"].value == pytest.approx(wanted), (name, label)
            if folder == "a":
                wanted = exact.roc_auc_score(of_label[0], model.predict_proba(rows)[:, j])
                assert found.metrics[f"roc_auc of {label}"].value == pytest.approx(wanted, abs=0.015)


def test_a_model_is_asked_for_the_first_method_that_it_has() -> None:
    class Has:
        def __init__(self, classes: Any, *methods: str) -> None:
            self.classes_ = np.array(classes)
            vars(self).update(dict.fromkeys(methods, len))

    every = ("predict_proba", "decision_function", "predict")
    asked = {
        (2, every): ("predict_proba", 1), (2, every[1:]): ("decision_function", 1), (2, every[2:]): ("predict", None),
        (3, every): ("predict_proba", None), (3, every[1:]): ("predict", None),
    }  # fmt: skip
    for (count, methods), wanted in asked.items():
        found = how_to_ask(Has(range(count), *methods))
        assert (found.output, found.positive) == wanted
        assert found.labels == list(range(count))
    assert how_to_ask(Has(["b", "a"], *every), "b").positive == 0


def test_bins_are_planned_for_the_noise_of_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subgroups and several labels have more noise; the heaviest person decides how much."""
    seen: list[tuple[float, int, float, int | None]] = []

    def best(scores: Any, yes: Any, threshold: float, *, n: int, sigma: float, bins: int | None) -> Bins:
        seen.append((threshold, n, pytest.approx(sigma), bins))
        return Bins((0.5,), 0.5, ((1.0, 1.0), (1.0, 1.0)), ((0.0,) * 16,) * 2, 0.3)

    monkeypatch.setattr("dptune.choice.report.plan.best_bins", best)
    rng = np.random.default_rng(0)
    usual: dict[str, Any] = {"mu": 0.5, "n": 90, "largest_weight": 3 / 90, "threshold": None, "by": None, "bins": None}

    def plan(output: Any, k: int, **more: Any) -> int:
        seen.clear()
        codes, p = rng.integers(k, size=60), rng.dirichlet(np.ones(k), size=60)
        asked = Asked(output, list(range(k)), 1 if k == 2 else None)
        scores = p[:, 1] if k == 2 else p
        return len(make_plan(None, PublicScores(asked, codes, scores, []), **{**usual, **more}).bins)

    one = 3 * math.sqrt(2) / 0.5
    assert (plan("predict_proba", 2), seen) == (1, [(0.5, 90, one, None)])
    assert (plan("decision_function", 2, bins=4), seen) == (1, [(0.0, 90, one, 4)])
    assert (plan("predict_proba", 2, threshold=0.0), seen) == (1, [(0.0, 90, one, None)])
    by = Groups("g", tuple("abcd"))
    assert (plan("predict_proba", 2, by=by), seen) == (1, [(0.5, 90, 2 * one, None)])
    assert (plan("predict_proba", 8, bins=5), seen) == (8, [(0.5, 90, 3 * one, 5)] * 8)
    assert (plan("predict_proba", 9), seen) == (0, [])  # nine labels: the confusion matrix only
    assert (plan("predict", 3), seen) == (0, [])


def test_a_column_is_the_same_in_every_kind_of_table() -> None:
    values = np.array([[1.0, 5.0], [0.0, 7.0], [3.0, 5.0]])
    frame = pd.DataFrame(values, columns=["a", "b"])
    for table, column in ((values, 1), (csr_matrix(values), 1), (frame, "b"), (values.tolist(), 1)):
        assert list(column_of(table, column)) == [5.0, 7.0, 5.0]
    rows = Rows(values, np.zeros(3))
    assert list(group_codes(rows, 3, 1, (7.0, 5.0))) == [1, 0, 1]
    assert list(group_codes(rows, 3, 1, (7.0, 6.0))) == [-1, 0, -1]
    assert list(group_codes(rows, 3, "b", (7.0, 5.0))) == [-1, -1, -1]


@pytest.mark.parametrize(("count", "shown"), [(8, 0), (9, 9)])
def test_unknown_people_are_told_of_above_three_deviations(tmp_path: Path, count: int, shown: int) -> None:
    """A count has the noise sqrt(2) / 0.5, of which three are 8.49."""
    y = Y.copy()
    y[:count] = 7
    found = report(silent(tmp_path), data=(X, y))
    assert found.sigma == pytest.approx(math.sqrt(2) / 0.5, rel=1e-5)
    assert found.unknown == pytest.approx(shown)
    assert ("left out" in str(found)) == (shown > 0)


def test_twenty_public_rows_are_enough_and_32_answers_are_kept() -> None:
    for count, kept in ((20, 20), (40, 32)):
        rows = PUBLIC[0][:count], PUBLIC[1][:count]
        public = public_scores(MODEL, how_to_ask(MODEL), rows, None, 5, held_out=True)
        assert public.seen == list(MODEL.predict_proba(rows[0])[:kept, 1])
        assert list(public.scores) == list(MODEL.predict_proba(rows[0])[:, 1])
