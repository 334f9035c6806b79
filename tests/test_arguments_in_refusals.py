"""Each argument that a refusal names is one of the function that the user has called."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from ray import tune
from scipy.sparse import csr_array, csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline

import dptune
import dptune_optuna
import dptune_ray
from dptune_sklearn import PrivateSearch

RNG = np.random.default_rng(0)
X, V = RNG.normal(size=(40, 2)), RNG.normal(size=(60, 2))  # public, private
Y, W = (X[:, 0] > 0).astype(int), (V[:, 0] > 0).astype(int)
SPACE = {"logisticregression__C": [0.1, 1.0]}
Ledger = dptune.PrivacyLedger
LIKE = "like"  # an argument of dptune.Rows, where the user calls that


def model(table: Any = X) -> Any:
    """A pipeline that reads the first column alone, so that it can be trained on any other ones."""
    first = ["a"] if isinstance(table, pd.DataFrame) else [0]
    return make_pipeline(make_column_transformer(("passthrough", first)), LogisticRegression())


def framed(rows: Any, **more: Any) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["a", "b"]).assign(**more)


DAY = {"day": pd.Timestamp("2020-01-01")}
VERSIONS = {"v": lambda table: np.where(np.arange(len(table)) % 2, "1.1", "1.10")}
TABLES: dict[str, tuple[Any, Any, str]] = {  # public, private, what the refusal is about
    "sparse and an array": (csr_matrix(X), V, "sparse"),
    "sparse and a list": (csr_array(X), V.tolist(), "sparse"),
    "dates": (framed(X, **DAY), framed(V, **DAY), "column 'day' of .* neither numbers"),
    "values that are one number": (framed(X, **VERSIONS), framed(V, **VERSIONS), "column 'v' of .* one number"),
    "a frame and an array": (framed(X), V, "frames"),
    "an array and a frame": (X, framed(V), "frames"),
    "another column": (framed(X), framed(V).rename(columns={"b": "c"}), "columns"),
    "another width": (X, V[:, :1], "columns|shape"),
    "a vector": (X, V[:, 0], "shape"),
}


class Results(tune.ResultGrid):
    """What a Tuner would have returned."""

    def __init__(self) -> None:
        self._experiment_analysis = SimpleNamespace(default_metric="loss", default_mode="min")
        metrics = [{"loss": C, "trial_id": str(C)} for C in (0.1, 1.0)]
        self._all = [
            SimpleNamespace(checkpoint=None, metrics=m, best_checkpoints=[], error=None, config={"C": m["loss"]})
            for m in metrics
        ]

    experiment_path = "experiment"

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, place: int) -> Any:
        return self._all[place]

    def __iter__(self) -> Any:
        return iter(self._all)


def search(ledger: Ledger, table: Any = X, **settings: Any) -> PrivateSearch:
    return PrivateSearch(GridSearchCV(model(table), SPACE, cv=3), ledger=ledger, loss="log_loss", **settings)


def fitted(ledger: Ledger, **options: Any) -> PrivateSearch:
    """A search that left its ledger alone."""
    mine = search(ledger).set_params(name="s")
    mine.name_, mine.best_estimator_ = "s", LogisticRegression().fit(X, Y, **options)
    return mine


def study() -> optuna.Study:
    made = optuna.create_study(study_name="s", sampler=optuna.samplers.RandomSampler(seed=0))
    made.optimize(lambda trial: trial.suggest_float("C", 0.01, 10, log=True), n_trials=3)
    return made


def train(at: Any, X: Any, y: Any) -> Any:
    return model(X).fit(X, y)


def places(rows: Any) -> dptune.Places:
    half = slice(0, 30), slice(30, 60)
    tables = [rows[each] if not isinstance(rows, pd.DataFrame) else rows.iloc[each].copy() for each in half]
    parts = zip(tables, half, strict=True)
    return dptune.Places([dptune.Place(f"p{i}", (table, W[each].copy())) for i, (table, each) in enumerate(parts)])


def chooses(choose: Callable[..., Any], proposals: Callable[[], Any]) -> tuple[Callable[..., Any], set[str]]:
    def act(ledger: Ledger, public: Any, private: Any) -> object:
        data = dptune.Rows(private, W, like=public)
        return choose(proposals(), train, data=data, public=(X, Y), loss="log_loss", ledger=ledger)

    return act, {*inspect.signature(choose).parameters, LIKE}


def of_select(ledger: Ledger, public: Any, private: Any) -> object:
    models = [LogisticRegression(C=C).fit(X, Y) for C in (0.1, 1.0)]
    return dptune.select(models, ledger, data=dptune.Rows(private, W, like=public), loss="zero_one")


def of_places(ledger: Ledger, public: Any, private: Any) -> object:
    given: Any = {"data": places(private), "public": (public, Y), "loss": "log_loss", "ledger": ledger}
    return dptune_optuna.choose(study(), train, **given)


def names(*functions: Callable[..., Any]) -> set[str]:
    return {name for function in functions for name in inspect.signature(function).parameters}


OF_SEARCH = names(PrivateSearch, PrivateSearch.fit)
OF_SEARCH_REPORT = names(PrivateSearch.report, dptune.report) - {"ledger", "public", "n", "fit_params"}
FRONTS: dict[str, tuple[Callable[[Ledger, Any, Any], object], set[str]]] = {
    "search": (lambda ledger, P, S: search(ledger, P).fit(P, Y, X_val=S, y_val=W), OF_SEARCH),
    "search of places": (lambda ledger, P, S: search(ledger, P).fit(P, Y, data=places(S)), OF_SEARCH),
    "report of a search": (
        lambda ledger, P, S: fitted(ledger).report(P, Y, X_val=S, y_val=W, model=train(None, P, Y)),
        OF_SEARCH_REPORT,
    ),
    "report": (
        lambda ledger, P, S: dptune.report(train(None, P, Y), ledger, data=(S, W), public=(P, Y)),
        names(dptune.report),
    ),
    "report of held out rows": (
        lambda ledger, P, S: dptune.report(train(None, P, Y), ledger, data=(S, W), held_out=(P, Y)),
        names(dptune.report),
    ),
    "choice of Optuna": chooses(dptune_optuna.choose, study),
    "choice of places": (of_places, names(dptune_optuna.choose)),
    "choice of Ray": chooses(dptune_ray.choose, Results),
    "models": (of_select, {*names(dptune.select), LIKE}),
}


def named_in(message: str) -> set[str]:
    """Return the arguments that a message names, without those of calls that it shows."""
    while (shorter := re.sub(r"\w\([^()]*\)", "", message)) != message:
        message = shorter
    return set(re.findall(r"\b(\w+)=(?!=)", message))


def refused(act: Callable[[], object], ledger: Ledger, known: set[str], words: str) -> None:
    with pytest.raises((dptune.InputError, ValueError), match=words) as told:
        act()
    message = str(told.value)
    assert named_in(message) <= known, message
    assert "like=" not in message or ("X_val" not in known and {LIKE, "data"} & known), message
    assert ledger.charges() == []


@pytest.mark.parametrize("tables", TABLES)
@pytest.mark.parametrize("front", FRONTS)
def test_a_refused_table_has_the_name_that_the_user_gave_it(front: str, tables: str, fast_path: Path) -> None:
    """Also a made-up table of ``like=``, which has this name where the user calls ``dptune.Rows``."""
    ledger = Ledger(fast_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    (act, known), (public, private, words) = FRONTS[front], TABLES[tables]
    refused(lambda: act(ledger, public, private), ledger, known, words)


WEIGHTS = {"sample_weight": 1.0 + 4 * Y}
OF_REPORTS: dict[str, tuple[dict[str, Any], Any, str]] = {  # settings, (X, y), what the refusal is about
    "few rows": ({}, (X[:9], Y[:9]), "needs 20 rows at least; got 9"),
    "unknown labels": ({}, (X, Y + 1), "labels that the model does not know"),
    "one label": ({}, (X, 0 * Y), "one label only"),
    "weights that are not said": ({"trained": WEIGHTS}, (X, Y), "If fit\\(\\) had options, give them here, too"),
    "no option of fit": ({"options": {"weigth": 1}}, (X, Y), "unexpected keyword argument 'weigth'"),
    "options without refits": ({"options": WEIGHTS, "scores": Y}, (X, Y), "sample_weight=: .* a report trains nothing"),
    "a fold of groups": ({"cv": GroupKFold(4)}, (X, Y), "cv=a GroupKFold needs groups"),
    "a column": ({"by": "z"}, (X, Y), "by= must be a column"),
    "few scores": ({"scores": np.ones(3)}, (X, Y), "one entry for each of 40 public rows"),
}


@pytest.mark.parametrize("case", OF_REPORTS)
@pytest.mark.parametrize("of_a_search", [False, True])
def test_a_refused_report_names_the_arguments_of_its_function(of_a_search: bool, case: str, fast_path: Path) -> None:
    ledger = Ledger(fast_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    settings, (public, y), words = OF_REPORTS[case]
    given = {**settings}
    mine, options = fitted(ledger, **given.pop("trained", {})), given.pop("options", {})
    if of_a_search:
        refused(
            lambda: mine.report(public, y, X_val=V, y_val=W, **options, **given),
            ledger, {*OF_SEARCH_REPORT, *WEIGHTS}, words,
        )  # fmt: skip
        return
    given["fit_params"] = options
    refused(
        lambda: dptune.report(mine.best_estimator_, ledger, data=(V, W), public=(public, y), **given),
        ledger, {*names(dptune.report), *options}, words,
    )  # fmt: skip


class OwnFolds:
    """Folds of a user, which fail without groups in their own way."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return 2

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        if groups is None:
            raise TypeError("no groups")
        return GroupKFold(2).split(X, y, groups)


OF_GROUPS = {type(cv).__name__: cv for cv in (GroupKFold(4), StratifiedGroupKFold(4), LeaveOneGroupOut(), OwnFolds())}


@pytest.mark.parametrize("kind", OF_GROUPS)
@pytest.mark.parametrize("front", ["search", "plan", "report of a search", "report", "Optuna", "Ray"])
def test_folds_of_groups_without_groups_name_where_to_give_them(front: str, kind: str, fast_path: Path) -> None:
    cv = OF_GROUPS[kind]
    ledger = Ledger(fast_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    mine = search(ledger)
    mine.estimator.cv = cv
    choice: Any = {"data": (V, W), "public": (X, Y), "loss": "log_loss", "ledger": ledger, "cv": cv}
    act, known = {
        "search": (lambda: mine.fit(X, Y, X_val=V, y_val=W), OF_SEARCH | {"cv"}),
        "plan": (lambda: mine.plan(X, Y, n=60), OF_SEARCH | {"cv"}),
        "report of a search": (lambda: fitted(ledger).report(X, Y, X_val=V, y_val=W, cv=cv), OF_SEARCH_REPORT),
        "report": (
            lambda: dptune.report(LogisticRegression().fit(X, Y), ledger, data=(V, W), public=(X, Y), cv=cv),
            names(dptune.report),
        ),
        "Optuna": (lambda: dptune_optuna.choose(study(), train, **choice), names(dptune_optuna.choose)),
        "Ray": (lambda: dptune_ray.choose(Results(), train, **choice), names(dptune_ray.choose)),
    }[front]
    of_search = front in ("search", "plan", "report of a search")
    how = "give train_groups=" if of_search else r"give its folds, cv=list\(cv.split\(X, y, groups\)\)"
    refused(act, ledger, known, f"^cv=an? {kind} needs groups of the public rows: {how}.* charged.$")
