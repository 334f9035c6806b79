"""Averages are candidates: their public losses are computed by hand, and invalid averages are refused."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV

import dptune
import dptune_optuna
from choice_tools import privatizer
from dptune.choice.averages import (
    Average,
    average_of,
    averaged,
    averages_in_words,
    groups_of,
    in_words,
    with_averages,
)
from dptune.choice.crossval import FoldAnswers, as_losses, cross_validated_answers, losses_of, public_folds
from dptune.losses.named import as_loss
from dptune_sklearn import PrivateSearch
from reading import holds

PUBLIC_ROWS, ROWS = 90, 300
STRENGTHS = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]


def people(kind: str, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A frame of numbers, and numbers, or labels of two or three kinds."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(PUBLIC_ROWS + ROWS, 4)), columns=list("abcd"))
    score = X["a"] + 0.5 * X["b"] + rng.normal(size=len(X))
    if kind == "regression":
        return X, score.to_numpy()
    return X, np.array(["no", "yes", "very"])[(score > 0).astype(int) + (kind == "three") * (score > 1)]


def estimator(kind: str) -> tuple[Any, str]:
    """An estimator, and the name of its strength."""
    return (Ridge(), "alpha") if kind == "regression" else (LogisticRegression(), "C")


LOSS = {"regression": "mse", "two": "log_loss", "three": "brier"}


@pytest.mark.parametrize("kind", LOSS)
@pytest.mark.parametrize(("front", "place"), [("sklearn", 1), ("sklearn", 4), ("optuna", 1), ("optuna", 6)])
def test_an_average_is_chosen_and_leaves_as_a_voting_ensemble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, front: str, place: int
) -> None:
    """The default, the average of the best three of six, and that of each one with all six."""
    monkeypatch.setattr(dptune.PublicChoice, "_chosen", staticmethod(lambda made: place))
    X, y = people(kind)
    A, b, X_val, y_val = X[:PUBLIC_ROWS], y[:PUBLIC_ROWS], X[PUBLIC_ROWS:], y[PUBLIC_ROWS:]
    model, strength = estimator(kind)
    payer = privatizer(tmp_path, n=ROWS)
    common: dict[str, Any] = {"loss": LOSS[kind], "averages": True}
    if front == "optuna":
        study = optuna.create_study(sampler=optuna.samplers.GridSampler({strength: STRENGTHS}, seed=0))
        study.optimize(lambda trial: -np.log(trial.suggest_float(strength, 1e-4, 10.0)), 6)
        common |= {"ledger": payer, "public": (A, b), "data": dptune.Rows(X_val, y_val, like=A), "progress": False}
        made = dptune_optuna.choose(study, model, default={strength: 1e-4}, **common)
        found, params, selection = made.model, made.params, made.selection
        words = "the average of the 3 best configurations" if place == 1 else f"the average of ({strength} = "
        assert f"Chosen: {words}" in made.summary()
    else:
        search = PrivateSearch(GridSearchCV(model, {strength: STRENGTHS}), ledger=payer.ledger, name="x", **common)
        search.fit(A, b, X_val=X_val, y_val=y_val)
        found, params, selection = search.best_estimator_, search.best_params_, search.selection_
    assert selection.index == place
    assert sum(params["weights"]) == pytest.approx(1)
    assert sorted(params["weights"]) == pytest.approx([1 / 3] * 3 if place == 1 else [1 / 12] * 5 + [7 / 12])
    assert isinstance(found, VotingRegressor if kind == "regression" else VotingClassifier)
    members = [clone(model).set_params(**each).fit(A, b) for each in params["members"]]
    method = "predict" if kind == "regression" else "predict_proba"
    expected = np.average([getattr(one, method)(X_val) for one in members], axis=0, weights=params["weights"])
    for leaves in (found, pickle.loads(pickle.dumps(found)), clone(found).fit(A, b)):
        np.testing.assert_allclose(getattr(leaves, method)(X_val), expected, atol=1e-12)
        assert (leaves.predict(X_val) == found.predict(X_val)).all()
    report = dptune.report(
        found, privatizer(tmp_path / "report", n=ROWS), data=dptune.Rows(X_val, y_val, like=A), public=(A, b)
    )
    assert str(report)


@pytest.mark.parametrize("kind", LOSS)
def test_public_losses_of_an_average_are_those_of_mean_answers(kind: str) -> None:
    X, y = people(kind)
    model, strength = estimator(kind)
    loss = as_loss(LOSS[kind])
    folds = public_folds(X, y, cv=3, loss=loss)
    models = [clone(model).set_params(**{strength: value}) for value in STRENGTHS[:3]]
    answers = [cross_validated_answers(one.fit, X, y, folds, loss, {}) for one in models]
    weights = [0.5, 0.3, 0.2]
    found = losses_of(average_of(answers, weights), loss)
    for fit, test in folds:
        trained = [clone(one).fit(X.iloc[fit], y[fit]) for one in models]
        expected = loss(
            y[test],
            averaged(trained, weights, loss).__getattribute__(loss.output)(X.iloc[test]),
            labels=classes(trained),
        )
        np.testing.assert_allclose(found[test], expected, atol=1e-9)
    failed = ValueError("no")
    assert as_losses([failed, found, answers[0]], loss)[:2] == [failed, found]


def classes(trained: list[Any]) -> list[Any] | None:
    return trained[0].classes_.tolist() if hasattr(trained[0], "classes_") else None


def test_groups_are_the_best_that_did_not_fail() -> None:
    public = np.arange(80.0)[:, None] + np.zeros((80, 12))
    public[[0, 5], 3] = np.nan
    groups = groups_of(public[::-1])
    assert [len(group) for group in groups] == [3, 10, 30, 39, *[10] * 10, *[11] * 68]
    assert all(sum(group.values()) == pytest.approx(1) for group in groups)
    assert groups[0] == dict.fromkeys((78, 77, 76), 1 / 3)
    assert groups[4][78] == pytest.approx(0.55)
    assert groups[14] == {67: 0.5, **dict.fromkeys((78, 77, 76, 75, 73, 72, 71, 70, 69, 68), 0.05)}
    best = (78, 77, 76, 75, 73, 72, 71, 70, 69, 68)
    for weight in (0.0, 0.25, 1.0, 9.0):
        w = min(weight, 1.0)
        own, of_best, of_nearest = 0.7 - 0.2 * w, (0.3 + 0.2 * w) * w / 10, (0.3 + 0.2 * w) * (1 - w) / 10
        last = groups_of(public[::-1], weight)[-1]
        expected = {0: own + of_nearest, **dict.fromkeys(best, of_best), **dict.fromkeys(range(1, 10), of_nearest)}
        assert last == pytest.approx({place: share for place, share in expected.items() if share})
    assert [list(group) for group in groups_of(public[:4])] == [[1, 2, 3], [1, 2, 3], [2, 1, 3], [3, 1, 2]]


def test_configurations_with_the_same_losses_count_once_in_averages() -> None:
    public = np.arange(20.0)[:, None] + np.zeros((20, 12))
    copied = np.repeat(public, 3, axis=0)  # what is copied are places 0, 3, 6, ...
    for weight in (0.5, 1.0):
        alone = [{3 * place: share for place, share in group.items()} for group in groups_of(public, weight)]
        assert groups_of(copied, weight) == alone


def test_the_default_stays_one_configuration_and_comes_first() -> None:
    """Answers are numbers, y is 0: the loss of an average is the square of the mean answer."""
    answers = [[FoldAnswers(np.arange(20), np.zeros(20), np.full(20, level), None)] for level in (3.0, 1.0, 2.0)]
    loss = as_loss("mse")
    public = np.array([losses_of(each, loss) for each in answers])
    for default in (None, 0):
        found, groups = with_averages(public, answers, default, loss, 1.0)
        assert len(found) == len(groups)
        expected = [sum(weight * answers[j][0].output[0] for j, weight in group.items()) ** 2 for group in groups]
        np.testing.assert_allclose(found[:, 0], expected)
        assert (groups[0] == {0: 1.0}) == (default == 0)


class Unlike:
    """No estimator: it knows two of three labels, and says the probability of the second."""

    def __init__(self, *labels: str) -> None:
        self.classes_, self.n_features_in_ = np.array(labels), 1

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), 0.75)


def test_models_with_other_labels_are_averaged_over_all_labels() -> None:
    loss, X = as_loss("log_loss"), np.zeros((4, 1))
    found = averaged([Unlike("a", "b"), Unlike("b", "c")], [0.5, 0.5], loss)
    assert isinstance(found, Average)
    assert found.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(found.predict_proba(X), [[0.125, 0.5, 0.375]] * 4)
    assert found.predict(X).tolist() == ["b"] * 4
    answers = [
        [FoldAnswers(np.arange(4), np.array(list("abcc")), one.predict_proba(X), one.classes_.tolist())]
        for one in found.estimators_
    ]
    np.testing.assert_allclose(losses_of(average_of(answers, [0.5, 0.5]), loss), -np.log([0.125, 0.5, 0.375, 0.375]))
    uneven = averaged([Unlike("a", "b"), Unlike("b", "c")], [0.75, 0.25], loss)
    np.testing.assert_allclose(uneven.predict_proba(X), [[0.1875, 0.625, 0.1875]] * 4)
    same = averaged([Unlike("a", "b")] * 2, [0.5, 0.5], loss)
    np.testing.assert_allclose(same.predict_proba(X), [[0.25, 0.75]] * 4)
    error = ValueError("training raised")
    assert averaged([found, error], [0.5, 0.5], loss) is error


class Constant:
    """A model of numbers that is no estimator of scikit-learn."""

    def __init__(self, level: float) -> None:
        self.level = level

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full((len(X), 1), self.level)


def test_models_of_numbers_that_are_no_estimators_are_averaged() -> None:
    found = averaged([Constant(2.0), Constant(4.0)], [0.75, 0.25], as_loss("mse"))
    assert isinstance(found, Average)
    assert not hasattr(found, "classes_")
    np.testing.assert_allclose(found.predict(np.zeros((3, 1))), [2.5] * 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": "zero_one"}, "zero_one_loss is a loss of predicted labels"),
        ({"public_losses": np.ones((6, 90))}, "give cv= instead of public_losses="),
    ],
)
def test_what_has_no_average_is_refused_before_anything_is_charged(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    X, y = people("two")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("C", 1e-3, 1.0), 6)
    payer = privatizer(tmp_path, n=ROWS)
    asked: dict[str, Any] = {"data": (X[PUBLIC_ROWS:], y[PUBLIC_ROWS:]), "public": (X[:PUBLIC_ROWS], y[:PUBLIC_ROWS])}
    choose = partial(dptune_optuna.choose, study, LogisticRegression(), ledger=payer, averages=True, **asked)
    with pytest.raises(dptune.InputError, match=f"{words}.*Nothing was charged"):
        choose(**{"loss": "log_loss", **settings})
    assert payer.ledger.spent() == 0


def test_the_words_about_averages_have_their_numbers() -> None:
    losses = np.array([[0.5, 0.5], [0.4, 0.4], [np.nan, np.nan], [0.3, 0.3], [0.35, 0.35]])
    holds(averages_in_words(losses[:3], losses[3:]), 0.3, 0.4)
    members = [{"C": 1.0}, {"C": 2.0}, {"C": 3.0}]
    assert in_words(members[0]) == "C = 1"
    said = {
        (0.2, 0.7, 0.1): "the average of (C = 2) and 2 others of less weight",
        (1 / 3, 1 / 3, 1 / 3): "the average of the 3 best configurations on public rows",
    }
    assert {w: in_words({"members": members, "weights": list(w)}) for w in said} == said
