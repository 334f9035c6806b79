"""Reports without noise equal scikit-learn's metrics, also for odd private values, and print as documented."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn import metrics as exact
from sklearn.calibration import calibration_curve
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from dptune import Budget, InputError, LossPrivatizer, PrivacyLedger, Rows
from dptune.choice import Report
from dptune.choice.report.cells import group_codes
from dptune.choice.report.plan import groups_of
from dptune.choice.report.reporting import stored_report
from dptune.cli.releases import release_rows
from dptune.privacy.noise import SeededNoise
from report_tools import MODEL, PRIVATE, PUBLIC, charged, people, privatizer, report, silent

# ---- what is read from a table --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exactly(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The usual report, without noise."""
    return report(silent(tmp_path_factory.mktemp("silent")), bins=8)


def test_what_follows_from_decisions_is_what_scikit_learn_says(exactly: Report) -> None:
    found, (X, y) = exactly, PRIVATE
    decided = MODEL.predict(X)
    for name in ("accuracy_score", "balanced_accuracy_score", "recall_score", "precision_score", "f1_score"):
        assert getattr(found, name).value == pytest.approx(getattr(exact, name)(y, decided), abs=1e-9), name
    assert found.specificity.value == pytest.approx(exact.recall_score(y, decided, pos_label=0))
    assert found.negative_predictive_value.value == pytest.approx(exact.precision_score(y, decided, pos_label=0))
    assert found.prevalence.value == pytest.approx(y.mean())
    assert found.confusion_matrix == pytest.approx(exact.confusion_matrix(y, decided))
    assert (found.unknown, found.n) == (0.0, 400)


def test_area_brier_and_calibration_are_near_the_exact_ones(exactly: Report) -> None:
    found, (X, y) = exactly, PRIVATE
    p = MODEL.predict_proba(X)[:, 1]
    assert found.roc_auc_score.value == pytest.approx(exact.roc_auc_score(y, p), abs=0.008)
    assert found.brier_score_loss.value == pytest.approx(exact.brier_score_loss(y, p), abs=0.004)
    curve, place = found.calibration_curve(), found.plan.bins[0].of(p)
    assert len(curve) == 8
    for b, (predicted, share) in enumerate(curve):
        assert share.value == pytest.approx(y[place == b].mean())
        assert predicted == pytest.approx(p[place == b].mean(), abs=0.03)
    true, _ = calibration_curve(y, p, n_bins=8, strategy="quantile")
    assert np.abs([share.value for _, share in curve] - true).max() < 0.25
    assert found.calibration_error.value < 0.08


def test_a_report_is_text_markdown_html_json_and_a_picture(exactly: Report, tmp_path: Path) -> None:
    found = exactly
    assert "roc_auc_score" in str(found)
    assert "NOT PRIVATE" in str(found)
    assert found.to_markdown().startswith("| metric | value |")
    assert "mu = 0.5 GDP" in found.to_markdown()
    assert found._repr_html_().startswith("<table><tr><th>metric")
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["metrics"]["accuracy_score"]["value"] > 0.5
    for name, dark in (("a.png", False), ("b.svg", True)):
        found.plot(tmp_path / name, dark=dark)
        assert (tmp_path / name).stat().st_size > 5000
    with pytest.raises(InputError):
        found.plot(tmp_path / "a.xyz")
    with pytest.raises(AttributeError):
        found.no_such_metric  # noqa: B018


@pytest.mark.parametrize("model", [LogisticRegression(), SVC(), Ridge(), None])
def test_a_report_that_the_noise_hides_has_a_picture(tmp_path: Path, model: Any) -> None:
    """The seeded noise of so small a price hides all metrics of decision values and of three classes."""
    classes, model = (2, model) if model else (3, LogisticRegression())
    public, private = people(300, seed=1, classes=classes), people(400, classes=classes)
    found = report(privatizer(tmp_path, noise=SeededNoise(0)), model.fit(*public), private, public=public, mu=1e-4)
    found.plot(tmp_path / "hidden.png")


def test_curves_increase_and_have_the_released_area(tmp_path: Path) -> None:
    found = report(privatizer(tmp_path, noise=SeededNoise(0)))
    fpr, tpr, thresholds = found.roc_curve()
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    assert (np.diff(thresholds) <= 0).all()
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0.0, 0.0, pytest.approx(1.0), pytest.approx(1.0))
    assert exact.auc(fpr, tpr) == pytest.approx(found.roc_auc_score.value, abs=0.03)
    precision, recall, _ = found.precision_recall_curve()
    assert (np.diff(recall) <= 0).all()
    assert precision[-1] == 1.0


def test_notes_name_the_unit_and_what_is_decided(tmp_path: Path) -> None:
    """Those that the report returns, and those that are read from the ledger."""
    ledger = PrivacyLedger(tmp_path / "ledger.db", Budget.gdp(2.0), unit="one hospital")
    found = report(LossPrivatizer(ledger, n=400), threshold=0.25, positive=0)
    for each in (found, stored_report(ledger)):
        assert each.notes()[0].endswith("(replacing all records of one hospital, n = 400 public)")
        assert "positive is 0, decided above a probability of 0.25" in each.notes()
    by_value = report(LossPrivatizer(ledger, n=400), SVC().fit(*PUBLIC), name="b")
    assert "positive is 1, decided above a score of 0" in by_value.notes()


def test_thresholds_and_the_positive_label_are_the_users(tmp_path: Path) -> None:
    (X, y), p = PRIVATE, MODEL.predict_proba(PRIVATE[0])[:, 1]
    found = report(silent(tmp_path), threshold=0.2, bins=12)
    assert found.recall_score.value == pytest.approx(exact.recall_score(y, p > 0.2))
    edge = found.plan.bins[0].edges[1]
    assert found.at(edge).recall_score.value == pytest.approx(exact.recall_score(y, p > edge))
    assert found.at(0.3).accuracy_score.value == pytest.approx(exact.accuracy_score(y, p > 0.3), abs=0.02)
    swapped = report(silent(tmp_path), positive=0, name="swapped")
    assert swapped.recall_score.value == pytest.approx(exact.recall_score(y, MODEL.predict(X), pos_label=0))
    assert swapped.roc_auc_score.value == pytest.approx(exact.roc_auc_score(y, p), abs=0.02)


@pytest.mark.parametrize("model", [SVC(), KNeighborsClassifier()])
def test_decision_values_and_ties_have_an_roc_curve(tmp_path: Path, model: Any) -> None:
    """Only probabilities have a calibration."""
    model.fit(*PUBLIC)
    found, (X, y), margins = report(silent(tmp_path), model, bins=12), PRIVATE, hasattr(model, "decision_function")
    scores = model.decision_function(X) if margins else model.predict_proba(X)[:, 1]
    assert found.accuracy_score.value == pytest.approx(exact.accuracy_score(y, model.predict(X)))
    assert found.roc_auc_score.value == pytest.approx(exact.roc_auc_score(y, scores), abs=0.015)
    assert ("brier_score_loss" in found.metrics) is not margins


def test_several_classes(tmp_path: Path) -> None:
    public, private = people(400, seed=1, classes=3, signal=2.0), people(500, classes=3, signal=2.0)
    model = LogisticRegression().fit(*public)
    mine, (X, y) = silent(tmp_path, n=500), private
    found = report(mine, model, private, public=public)
    decided, p = model.predict(X), model.predict_proba(X)
    for label in range(3):
        assert found.metrics[f"share of {label}"].value == pytest.approx(np.mean(y == label))
    assert found.confusion_matrix == pytest.approx(exact.confusion_matrix(y, decided))
    assert found.accuracy_score.value == pytest.approx(exact.accuracy_score(y, decided))
    for name, average in (("precision_score", "macro"), ("f1_score", "macro")):
        wanted = getattr(exact, name)(y, decided, average=average)
        assert getattr(found, name).value == pytest.approx(wanted)
    assert found.roc_auc_score.value == pytest.approx(exact.roc_auc_score(y, p, multi_class="ovr"), abs=0.01)
    assert found.metrics["recall of 2"].value == pytest.approx(exact.recall_score(y == 2, decided == 2))
    assert charged(mine)["sensitivity"] * 500 == pytest.approx(
        math.sqrt(2 * 4)
    )  # the confusion matrix and three curves


def test_regression_and_what_a_signer_sees_of_its_clips(tmp_path: Path) -> None:
    X, y = load_diabetes(return_X_y=True)
    public, private = (X[:200].copy(), y[:200].copy()), (X[200:].copy(), y[200:].copy())
    model, mine = Ridge(0.1).fit(*public), silent(tmp_path, n=242)
    found = report(mine, model, private, public=public)
    predicted = model.predict(private[0])
    for name, share in (("mean_absolute_error", 0.01), ("root_mean_squared_error", 0.01), ("r2_score", 0.02)):
        assert getattr(found, name).value == pytest.approx(getattr(exact, name)(private[1], predicted), rel=share), name
    median = exact.median_absolute_error(private[1], predicted)
    assert found.median_absolute_error.value == pytest.approx(median, rel=0.05)
    assert found.residual_table().sum() == pytest.approx(242)
    assert json.dumps(found.to_dict())
    ranges = found.plan.ranges
    assert ranges is not None
    answers = [ranges.middle - ranges.reach, ranges.middle + ranges.reach]
    (charge,) = mine.ledger.charges()
    assert charge.note["ranges"] == {"residuals": [-ranges.most, ranges.most], "answers": answers}
    words = f"residuals in [{-ranges.most:.4g}, {ranges.most:.4g}] and answers in [{answers[0]:.4g}, {answers[1]:.4g}]"
    assert f"{words} by public rows" in release_rows(mine.ledger)[0]["what"]
    assert words in " ".join(mine.ledger.statement(delta=1e-5).to_text().split())


def test_subgroups_add_up_to_everybody(tmp_path: Path) -> None:
    frame, like = (pd.DataFrame(X, columns=list("abc")) for X in (PRIVATE[0], PUBLIC[0]))
    frame["sex"], like["sex"] = np.where(np.arange(400) % 3, "m", "f"), np.where(np.arange(300) % 2, "m", "f")
    table = make_column_transformer(("passthrough", list("abc")))
    model = make_pipeline(table, LogisticRegression()).fit(like, PUBLIC[1])
    mine, decided, y = silent(tmp_path), model.predict(frame), PRIVATE[1].copy()
    y[7] = 17  # a label of nobody is in no cell, of any group
    found = report(mine, model, (frame, y), public=(like, PUBLIC[1]), by="sex")
    assert found.groups.keys() == {"f", "m"}
    for level, group in found.groups.items():
        own = (frame["sex"] == level) & (y != 17)
        assert group.confusion_matrix == pytest.approx(exact.confusion_matrix(y[own], decided[own]))
    assert found.accuracy_score.value == pytest.approx(np.mean((decided == y)[y != 17]), abs=1e-3)
    assert "sex = f" in found.to_markdown()
    assert charged(mine)["sensitivity"] * 400 == pytest.approx(math.sqrt(2))  # one cell a person


def test_subgroups_of_a_regression(tmp_path: Path) -> None:
    """A fifth of the people are of no subgroup that public rows have, and are left out."""
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(size=(500, 3)), rng.normal(size=(300, 3))
    group = np.arange(500) % 5
    X[:, 2], X_public[:, 2] = np.select([group == 0, group == 4], [0, 4], 1), np.arange(300) % 2
    y, y_public = (
        each[:, 0] + rng.normal(size=len(each)) * np.where(each[:, 2] > 0, 1.0, 0.3) for each in (X, X_public)
    )
    model, public = Ridge().fit(X_public, y_public), (X_public, y_public)
    found = report(silent(tmp_path, n=500), model, (X, y), public=public, by=2, mu=1.3)
    R, r = found.plan.ranges.most, model.predict(X) - y
    r = np.clip(r, -R, R)
    for level, own in (("0.0", X[:, 2] == 0), ("1.0", X[:, 2] == 1)):
        part = found.groups[level]
        assert part.people == pytest.approx(own.sum())
        assert part.mean_absolute_error.value == pytest.approx(np.abs(r[own]).mean(), rel=0.01)
        assert part.root_mean_squared_error.value == pytest.approx(math.sqrt((r[own] ** 2).mean()), rel=0.01)
        assert part.r2_score.value == pytest.approx(1 - (r[own] ** 2).mean() / y[own].var(), abs=0.02)
        assert part.residual_table().sum() == pytest.approx(own.sum())
    assert found.unknown == pytest.approx(100)
    assert found.mean_absolute_error.value == pytest.approx(np.abs(r)[group < 4].mean(), rel=0.01)
    assert "about 100 people are left out" in found.to_markdown()
    assert "2 = 1.0" in found.to_markdown()
    whole = report(silent(tmp_path, n=500), model, (X, y), public=public, name="whole", mu=1.3)
    assert found.sigma == pytest.approx(whole.sigma)
    assert stored_report(silent(tmp_path, n=500).ledger, "report").to_dict() == found.to_dict()


DTYPES = ["float16", "float32", "float64", "int8", "int64", "bool", "Int64", "Float32", "float[pyarrow]", "category"]
HELD: dict[str, Callable[[Any], Any]] = {
    "frame": lambda column: pd.DataFrame({"a": column}),
    "frame with one text": lambda column: pd.concat([pd.DataFrame({"a": column}), pd.DataFrame({"a": ["?"]})]),
    "frame of objects": lambda column: pd.DataFrame({"a": column}).astype(object),
    "frame of text": lambda column: pd.DataFrame({"a": column.astype(str)}),
    "array": lambda column: column.to_numpy()[:, None],
    "array of objects": lambda column: column.to_numpy().astype(object)[:, None],
    "array of text": lambda column: column.to_numpy().astype(str)[:, None],
    "masked": lambda column: np.ma.masked_array(column.to_numpy()[:, None]),
    "sparse": lambda column: csr_matrix(column.to_numpy()[:, None]),
    "list": lambda column: [[cell] for cell in column],
    "list of vectors": lambda column: list(column.to_numpy()[:, None]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("public", DTYPES)
def test_every_form_of_a_column_has_the_public_groups(public: str, dtype: str) -> None:
    """One person's text makes objects of a whole column: nobody else's group may depend on it."""
    fractions = not any(each[:3].lower() == "int" or each == "bool" for each in (public, dtype))
    values = [0.1, 0.2, 0.7, 0.2, 250.25] if fractions else [1, 0, 0, 1]
    levels = sorted(set(values))
    wanted = [levels.index(value) for value in values]
    publics, privates = forms(pd.Series(values, dtype=public)), forms(pd.Series(values, dtype=dtype))
    del publics["frame with one text"]
    for each, rows in publics.items():
        found = groups_of(rows, "a" if "frame" in each else 0)
        assert found is not None
        for name, held in privates.items():
            codes = group_codes(Rows(held, None), len(values), "a" if "frame" in name else 0, found.levels)
            assert codes[: len(values)].tolist() == wanted, (each, name)


def forms(column: Any) -> dict[str, Any]:
    sparse = column.dtype in ("float32", "float64", "int8", "int64", "bool")
    return {name: hold(column) for name, hold in HELD.items() if sparse or name != "sparse"}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_groups_of_fractions_are_those_of_their_dtype(tmp_path: Path, dtype: str) -> None:
    (X, y), (like, answers) = ((rows.astype(dtype), y) for rows, y in (PRIVATE, PUBLIC))
    X[:, 2], like[:, 2] = np.resize([0.1, 0.2, 0.7], 400), np.resize([0.1, 0.2, 0.7], 300)
    model = LogisticRegression().fit(like, answers)
    found = report(silent(tmp_path), model, (X, y), public=(like, answers), by=2)
    assert found.unknown == pytest.approx(0, abs=1e-6)
    assert list(found.groups) == ["0.1", "0.2", "0.7"]


def test_a_person_with_many_rows_counts_once(tmp_path: Path) -> None:
    X, y = PRIVATE
    groups = np.r_[np.zeros(201), np.arange(1, 200)].astype(int)  # one person has half of all rows
    mine = silent(tmp_path, groups=groups)
    found, decided = report(mine), MODEL.predict(X) == y
    assert found.accuracy_score.value == pytest.approx(np.r_[decided[:201].mean(), decided[201:]].mean())
    assert charged(mine)["sensitivity"] == pytest.approx(math.sqrt(2) / 200)


def test_weights_are_those_of_the_privatizer(tmp_path: Path) -> None:
    X, y = PRIVATE
    weights = np.random.default_rng(0).random(400) + 0.5
    mine = silent(tmp_path, n=400, person_weights=weights)
    found = report(mine)
    wanted = exact.accuracy_score(y, MODEL.predict(X), sample_weight=weights)
    assert found.accuracy_score.value == pytest.approx(wanted)
    effective = weights.sum() ** 2 / (weights**2).sum()
    assert found.sigma == pytest.approx(math.sqrt(2) / 0.5 * effective * weights.max() / weights.sum(), rel=1e-5)
    assert found.confusion_matrix.sum() == pytest.approx(effective)
    assert f"those of {effective:.4g} people of equal ones" in str(found)
    assert stored_report(mine.ledger) == found


# ---- odd private values ----------------------------------------------------------------------------------


def test_one_persons_bad_row_costs_their_own_cell_only(tmp_path: Path) -> None:
    X, y = PRIVATE[0].astype(object), PRIVATE[1].astype(object)
    X[5, 1], y[9], y[11] = "not a number", "label of nobody", None
    found = report(silent(tmp_path), data=(X, y))
    others = np.delete(np.arange(400), [5, 9, 11])
    wanted = exact.confusion_matrix(PRIVATE[1][others], MODEL.predict(PRIVATE[0][others]))
    of_decisions, w = found.released[:4], found.plan.bins[0].on_decisions
    assert of_decisions.sum() * 400 / math.sqrt(w) == pytest.approx(397)
    assert found.unknown == 0.0 or found.unknown == pytest.approx(3)
    assert np.abs(found.confusion_matrix - wanted).max() < 2


def test_many_bad_rows_are_told_of_as_a_noisy_number(tmp_path: Path) -> None:
    X = PRIVATE[0].copy()
    X[:200] = np.nan
    found = report(silent(tmp_path), data=(X, PRIVATE[1]))
    assert found.unknown == pytest.approx(200, abs=15)
    assert "left out" in found.to_markdown()
    decided = MODEL.predict(PRIVATE[0][200:])
    assert found.accuracy_score.value == pytest.approx(exact.accuracy_score(PRIVATE[1][200:], decided))


def test_a_regression_tells_of_people_who_count_with_the_largest_residual(tmp_path: Path) -> None:
    X, X_public = PRIVATE[0], PUBLIC[0]
    y, y_public = (rows[:, 0] + np.random.default_rng(0).normal(size=len(rows)) for rows in (X, X_public))
    y[:100] = np.nan
    model = Ridge().fit(X_public, y_public)
    found = report(silent(tmp_path), model, (X, y), public=(X_public, y_public))
    most, own = found.plan.ranges.most, np.abs(model.predict(X) - y)[100:]
    assert found.mean_absolute_error.value == pytest.approx((100 * most + np.minimum(own, most).sum()) / 400, rel=0.01)
    assert found.unknown == pytest.approx(100)
    assert found.residual_table().sum() == pytest.approx(300)
    assert "about 100 people count with the largest residual, as their answer or prediction" in str(found)
    assert "left out" not in str(found)


def test_one_class_only_has_no_area(tmp_path: Path) -> None:
    found = report(silent(tmp_path), data=(PRIVATE[0], np.ones(400, dtype=int)))
    assert math.isnan(found.roc_auc_score.value)
    assert found.roc_auc_score.interval == (0.0, 1.0)
    assert found.prevalence.value == pytest.approx(1.0)
    assert json.dumps(found.to_dict(), allow_nan=False)
    assert "hidden by noise" in found.to_markdown()
