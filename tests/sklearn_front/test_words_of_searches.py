"""A search refuses in whole sentences, keeps what its user gave, and passes on what its estimator has."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold
from test_early_stopping import Seen

import dptune
from dptune.errors import BudgetExhausted, BudgetMismatch
from dptune.privacy.noise import SeededNoise
from dptune_mlflow.run import MLflowRun, log_run
from dptune_sklearn import PrivateSearch, StopsEarly, public_search
from sklearn_tools import PRIVATE, PUBLIC, VAL, WEAK, Never, grid, ledger_in, search_in

WIDE = pd.DataFrame(np.zeros((40, 13)), columns=[f"c{i}" for i in range(13)])
OTHER = pd.DataFrame(np.zeros((60, 1)), columns=["d"])
PLACES = dptune.Places([dptune.Place("a", (PRIVATE[0].copy(), PRIVATE[1].copy()))])
MISSING = pd.Series(PUBLIC[1]).astype("Int64")
MISSING[[3, 8, 9]] = pd.NA
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "missing answers": (
        {"y": MISSING},
        "y has 3 missing answers, the first in row 3. y is public and trains the models: omit these rows from X and y. "
        "Nothing was charged.",
    ),
    "two targets": (
        {"y": PUBLIC[0][:, :2]},
        "y has shape (40, 2): allowed is one answer a row. Of one-hot columns give the labels, such as "
        "y.argmax(axis=1). Of several targets make one search each, fit(X, y[:, 0], ...), with a name= of its own. "
        "Nothing was charged.",
    ),
    "places and rows": (
        {"data": PLACES},
        "the Places of data= have the private rows and know their people: give no X_val=, y_val= or groups=. Nothing "
        "was charged.",
    ),
    "rows as places": (
        {"data": PRIVATE, "X_val": None, "y_val": None},
        "data= must be dptune.Places; got a tuple of length 2. Of one table give X_val= and y_val=. Nothing was "
        "charged.",
    ),
    "one-hot private answers": (
        {"y_val": np.eye(2)[PRIVATE[1]]},
        "y_val has shape (60, 2); allowed: (60,), one answer a row. Of one-hot columns give the labels, such as "
        "y.argmax(axis=1). Of several targets use one at a time, each under a name= of its own. Nothing was charged.",
    ),
    "groups of other training rows": (
        {"train_groups": np.arange(60)},
        "train_groups= must have an entry for each of the 40 rows of X; got a ndarray of shape (60,). The people of "
        "X_val are groups=. Nothing was charged.",
    ),
    "no private answers": (
        {"y_val": None},
        "y_val is None: give fit X_val= and y_val=, private rows that train nothing. X and y are the public rows that "
        "train, and are not protected.",
    ),
    "many other columns": (
        {"X": WIDE, "X_val": OTHER},
        "X_val must have the columns of X, in their order: only X has 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', "
        "'c8', 'c9' and 3 more; only X_val has 'd'. Nothing was charged.",
    ),
    "another number of columns": (
        {"X_val": PRIVATE[0][:, :2]},
        "X_val must have the columns of X, in their order: X has 3, X_val has 2. Nothing was charged.",
    ),
    "groups of other people": (
        {"groups": np.arange(59)},
        "X_val, y_val and groups= (of the validation rows) must have as many rows each; got a ndarray of shape (60, 3) "
        "and a ndarray of shape (60,) and a ndarray of shape (59,). The people of the training rows are train_groups=. "
        "Nothing was charged.",
    ),
    "private weights": (
        {"sample_weight": PRIVATE[0][:40, 0]},
        "X_val or y_val shares memory with an option of fit: sample_weight, which is public: training or early "
        "stopping would show private rows without noise. Give other rows there. If both are parts of one table, give "
        "copies: X_train = table[:n].copy(). Nothing was charged.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_search_refuses_in_whole_sentences(fast_path: Path, case: str) -> None:
    given, message = CASES[case]
    search = search_in(fast_path, grid(Never()))
    with pytest.raises(dptune.InputError) as told:
        search.fit(**{"X": PUBLIC[0], "y": PUBLIC[1], **VAL, **given})
    assert (str(told.value), isinstance(told.value, ValueError)) == (message, True)
    assert search.ledger.count() == 0


def test_defaults_of_a_search_are_those_of_the_page() -> None:
    wanted = {
        PrivateSearch: {
            "public_weight": 1.0,
            "even_if_hopeless": False,
            "averages": False,
            "random_state": 0,
            "verbose": 0,
        },
        StopsEarly: {"fraction": 0.2, "random_state": 0},
    }
    for kind, defaults in wanted.items():
        parameters = inspect.signature(kind).parameters
        assert {name: parameters[name].default for name in defaults} == defaults


def test_rows_to_stop_on_follow_the_seed() -> None:
    stop = [StopsEarly(Seen(), random_state=seed).fit(*PUBLIC).estimator_.seen_[1].tolist() for seed in (0, 0, 1)]
    assert stop[0] == stop[1] != stop[2]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function", "score"])
def test_a_search_answers_as_its_model(fast_path: Path, method: str) -> None:
    search = search_in(fast_path).fit(*PUBLIC, **VAL)
    given = PUBLIC if method == "score" else PUBLIC[:1]
    expected = getattr(search.best_estimator_, method)(*given)
    np.testing.assert_array_equal(getattr(search, method)(*given), expected)
    assert not hasattr(search, "transform")


def test_a_second_fit_leaves_nothing_of_the_first(fast_path: Path) -> None:
    search = search_in(fast_path, mu=1.0)
    frames = {"X": pd.DataFrame(PUBLIC[0], columns=list("abc")), "X_val": pd.DataFrame(PRIVATE[0], columns=list("abc"))}
    search.fit(**frames, y=PUBLIC[1], y_val=PRIVATE[1])
    assert search.feature_names_in_.tolist() == ["a", "b", "c"]
    assert hasattr(search, "best_estimator_")
    search.set_params(estimator=grid(refit=False)).fit(*PUBLIC, **VAL)
    assert not hasattr(search, "feature_names_in_")
    assert not hasattr(search, "best_estimator_")


def test_how_a_search_works_is_no_part_of_its_choice(fast_path: Path) -> None:
    names, how = set(), {"n_jobs": 1, "pre_dispatch": 3, "verbose": 0, "return_train_score": True, "error_score": 0.0}
    for setting in ({}, *({name: value} for name, value in how.items()), {"verbose": 1}):
        search = search_in(fast_path, grid(**setting), mu=1.0)
        names.add(search.fit(*PUBLIC, **VAL).name_)
        told = public_search.settings_of(search.estimator)
        assert told == {"search": "GridSearchCV", "cv": 3}
    assert len(names) == 1


def test_workers_are_the_searchs_unless_others_are_given(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("dptune.choice.workers.workers_of", lambda n_jobs: seen.append(n_jobs) or 1)
    for given, wanted in ((None, 3), (2, 2)):
        seen.clear()
        search = search_in(fast_path, grid(n_jobs=3).fit(*PUBLIC), n_jobs=given, mu=1.0, name=f"{given}")
        search.fit(*PUBLIC, **VAL)
        assert set(seen) == {wanted}


def test_folds_of_the_user_get_no_seed(fast_path: Path) -> None:
    folds = KFold(3, shuffle=True)
    search_in(fast_path, grid(cv=folds), mu=1.0).fit(*PUBLIC, **VAL)
    assert folds.random_state is None


def test_of_several_scores_the_one_of_refit_orders_candidates() -> None:
    search = grid(scoring=["accuracy", "f1"], refit="f1")
    search.cv_results_ = {
        "params": [{"C": C} for C in (1, 2, 3)],
        "mean_test_accuracy": [0.9, 0.8, 0.7],
        "mean_test_f1": [0.2, 0.6, 0.4],
    }
    assert [each.row for each in public_search.proposals_of(search, WEAK, None).candidates] == [1, 2, 0]


def test_what_is_released_says_whether_it_is_private(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(search_in(fast_path, mu=1.0).fit(*PUBLIC, **VAL).released_["private"]) == {True}
    monkeypatch.setattr("dptune.privacy.observed.noise_source", lambda noise: SeededNoise(0))
    assert set(search_in(fast_path, mu=1.0, name="seeded").fit(*PUBLIC, **VAL).released_["private"]) == {False}


def test_a_plan_announces_nothing_and_a_verbose_fit_prints(fast_path: Path, capsys: Any, caplog: Any) -> None:
    caplog.set_level("INFO", "dptune_sklearn")
    search = search_in(fast_path, verbose=1)
    search.plan(*PUBLIC, n=60)
    assert (capsys.readouterr().out, [each for each in caplog.records if each.name == "dptune_sklearn"]) == ("", [])
    search.fit(*PUBLIC, **VAL)
    assert capsys.readouterr().out.startswith("Plan: 60 private people choose among")


def test_an_mlflow_run_of_a_search_has_its_own_names(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    ledger = ledger_in(fast_path, 1e4)
    improvement = search_in(fast_path, ledger=ledger).fit(*PUBLIC, **VAL).selection_.improvement
    where = {"delta": 1e-5, "tracking_uri": f"file:{fast_path}/mlruns"}
    with pytest.raises(dptune.InputError) as told:
        log_run(ledger, "svm", **where)
    ((name, _),) = ledger.runs()
    assert str(told.value) == (
        f"the ledger has released nothing for a run named 'svm'; it has {name!r}. Nothing was written to MLflow."
    )
    client = MlflowClient(where["tracking_uri"])
    identity = log_run(ledger, name, recommended={"C": 0.5}, estimate=improvement, **where)
    assert client.get_run(identity).data.tags["mlflow.note.content"] == (
        f"**Recommended** C = `0.5`\n\n**Released improvement** {improvement}"
    )
    run = MLflowRun(ledger, name, **where)
    run.trial(4, "FINISHED", {"a/b": 1, "c[0]": 2}, {"value": 0.5})
    (trial,) = client.search_runs([run._experiment], f"tags.mlflow.parentRunId = '{run.id}'")
    assert (trial.info.run_name, trial.data.params) == ("trial 4", {"a/b": "1", "c_0_": "2"})
    run.answer(None, None)
    assert [at.step for at in client.get_metric_history(run.id, "mu_spent")] == [0, 4]
    assert client.get_run(run.id).data.metrics["mu_left"] == ledger.remaining()


@pytest.mark.parametrize(
    ("changed", "differs"),
    [({"clip": (0.0, 2.0)}, "clip (None, now [0.0, 2.0])"), ({"averages": True}, "averages (False, now True)")],
)
@pytest.mark.parametrize("name", ["mine", None])
def test_a_second_choice_says_which_setting_of_its_own_differs(fast_path, changed, differs, name):
    ledger = ledger_in(fast_path)
    search_in(fast_path, ledger=ledger, name=name).fit(*PUBLIC, **VAL)
    with pytest.raises((BudgetExhausted, BudgetMismatch)) as refused:
        search_in(fast_path, ledger=ledger, name=name).set_params(**changed, mu=ledger.mu).fit(*PUBLIC, **VAL)
    assert differs in str(refused.value)
    assert "public losses" not in str(refused.value)
