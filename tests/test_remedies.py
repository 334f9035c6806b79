"""A refusal says what to do in the terms of the function that was called, and costs nothing."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import dptune
import dptune_optuna
from dptune.ledger import PlanLedger, SubsampledGaussian, schema
from dptune.ledger.events import SubsampledGaussianRelease
from dptune.local import LocalRandomizer, UserLedger
from dptune_optuna import LocalObjective
from dptune_sklearn import PrivateSearch

_rng = np.random.default_rng(0)
X, X_VAL = _rng.normal(size=(40, 3)), _rng.normal(size=(60, 3))
Y, Y_VAL = (X[:, 0] > 0).astype(int), (X_VAL[:, 0] > 0).astype(int)
TWO, TWO_VAL = X[:, :2], X_VAL[:, :2]
FRAME, FRAME_VAL = (pd.DataFrame(rows, columns=list("abc")) for rows in (X, X_VAL))
Ledger = dptune.PrivacyLedger
Call = Callable[[Ledger], object]


def dicts(rows: Any) -> list[dict[str, float]]:
    return [dict(zip("abc", map(float, row), strict=True)) for row in rows]


def search(model: Any, loss: str, public: Any = (X, Y), private: Any = (X_VAL, Y_VAL), **more: Any) -> Call:
    places = {f"{model.steps[-1][0]}__C" if hasattr(model, "steps") else next(iter(model.get_params())): [0.1, 1.0]}

    def fit(ledger: Ledger) -> object:
        grid = GridSearchCV(model, places, cv=3, scoring=lambda model, X, y: 0.0)
        mine = PrivateSearch(grid, ledger=ledger, loss=loss, **more)
        return mine.fit(*public, X_val=private[0], y_val=private[1])

    return fit


def logistic(trial: optuna.Trial, X: Any, y: Any) -> LogisticRegression:
    return LogisticRegression(C=trial.suggest_float("C", 0.01, 10, log=True)).fit(X, y)


def choose(train: Any = logistic, **given: Any) -> Call:
    """A choice of Optuna's best trials."""

    def call(ledger: Ledger) -> object:
        study = optuna.create_study(study_name="s", sampler=optuna.samplers.RandomSampler(seed=0))
        study.optimize(lambda trial: trial.suggest_float("C", 0.01, 10, log=True), n_trials=3)
        usual = {"loss": "log_loss", "data": (X_VAL, Y_VAL), "public": (X, Y), "ledger": ledger}
        return dptune_optuna.choose(study, train, **{**usual, **given})

    return call


def select(losses: Any, **given: Any) -> Call:
    return lambda ledger: dptune.select(losses, ledger, **{"clip": (0, 1), **given})


def report(model: Any = None, **given: Any) -> Call:
    fitted = LogisticRegression().fit(X, Y) if model is None else model
    return lambda ledger: dptune.report(fitted, ledger, **{"data": (X_VAL, Y_VAL), "public": (X, Y), **given})


LOSSES, WORDS = np.zeros((60, 3)), np.array(["no", "yes"])
CASES: dict[str, tuple[Call, str]] = {
    "one half in polars": (
        search(LogisticRegression(), "log_loss", (FRAME, Y), (pl.DataFrame(X_VAL, schema=list("abc")), Y_VAL)),
        r"X_val is a data frame of polars: give X and X_val as pandas data frames, such as X_val.to_pandas\(\)",
    ),
    "one half in polars, for a choice": (
        choose(data=dptune.Rows(pl.DataFrame(X_VAL, schema=list("abc")), Y_VAL, like=FRAME)),
        r"data=Rows\(X, y, like=X_train\).* both as pandas.* X as a DataFrame of polars and like= as",
    ),
    "rows that are dicts": (
        search(make_pipeline(DictVectorizer(), LogisticRegression()), "log_loss", (dicts(X), Y), (dicts(X_VAL), Y_VAL)),
        r"X is a list of dicts: give tables, X=pandas.DataFrame\(X\) and X_val=pandas.DataFrame\(X_val\)",
    ),
    "dicts, for a choice": (
        choose(data=dptune.Rows(dicts(X_VAL), Y_VAL, like=dicts(X))),
        r"Of dicts give pandas.DataFrame\(rows\), of the private X and of like=",
    ),
    "two targets": (
        search(Ridge(), "squared_error", (X, TWO), (X_VAL, TWO_VAL)),
        r"y has shape \(40, 2\).* one search each, fit\(X, y\[:, 0\], ...\), with a name= of its own",
    ),
    "no margins": (
        choose(lambda trial, X, y: Probabilities(), loss="hinge"),
        'Give loss="log_loss" or "zero_one"',
    ),
    "a probability of 0": (
        lambda ledger: dptune.Budget.approximate_dp(1.0, 0),
        "give 1e-12 and an epsilon of at most 2.* pure",
    ),
    "a dict of hospitals": (
        choose(data={"north": (X_VAL, Y_VAL)}),
        r"data= must be \(X, y\).*; got dict\. Of several places give dptune\.Places",
    ),
    "groups of other rows": (
        choose(groups=np.arange(59)),
        "data= must have 59 rows each, as the y given, n= or",
    ),
    "a class as a model": (choose(lambda trial, X, y: Ridge), "return the fitted model; got the class Ridge"),
    "a class that trains": (
        choose(LogisticRegression),
        r"train must be a function .* or an estimator such as SVC\(\); got the class LogisticRegression. Give a f",
    ),
    "a class as an objective": (
        lambda ledger: LocalObjective(LogisticRegression, LocalRandomizer(1.0, 1.0)),
        "the objective must be a function of a trial; got the class LogisticRegression. Give a function that",
    ),
    "a class as a private objective": (
        lambda ledger: dptune_optuna.PrivateObjective(
            LogisticRegression, dptune.LossPrivatizer(ledger, n=60, clip=(0, 1)), n_trials=3
        ),
        "the objective must be a function; got the class LogisticRegression. Give a function that makes one, trains it",
    ),
    "two targets, for a report": (
        lambda ledger: dptune.report(Ridge().fit(X, TWO), ledger, data=(X_VAL, TWO_VAL), public=(X, TWO)),
        "use one at a time, each under a name= of its own",
    ),
    "rows without answers, for a choice without public rows": (
        select(X_VAL),
        r"and of private rows X give data=\(X, y\)\. Else give n=3",
    ),
    "one fold": (choose(cv=1), "^cv=1 and 40 public rows: .* Nothing was charged"),
    "more folds than rows": (choose(cv=41), "^cv=41 and 40 public rows: .* Nothing was charged"),
    "a price below 0": (choose(mu=-1), "^mu must be a number, positive and finite; got -1"),
    "people in rows, and their number": (select(LOSSES, n=60), "losses has one row for each candidate"),
    "a name that is a number": (choose(name=3), "^name must be a text that is not empty; got 3"),
    "one-hot labels": (choose(public=(X, np.eye(2)[Y])), r"the y of public= has .* give the labels, such as y.argmax"),
    "one-hot private labels": (choose(data=(X_VAL, np.eye(2)[Y_VAL])), r"the y of data= has .* such as y.argmax"),
    "a column of labels": (choose(public=(X, Y[:, None])), r"the y of public= .* Give a vector, .* numpy.ravel\(y\)"),
    "a column, for a report": (report(public=(X, Y[:, None])), r"the y of public= .* Give a vector"),
    "a column of private labels": (choose(data=(X_VAL, Y_VAL[:, None])), r"the y of data= .* Give a vector"),
    "few labels": (choose(public=(X, Y[:9])), "public= has 40 rows and 9 answers: give one for each"),
    "few labels, for a report": (report(public=None, held_out=(X, Y[:9])), "held_out= has 40 rows and 9 answers"),
    "labels for numbers": (
        choose(loss="squared_error", public=(X, WORDS[Y]), data=(X_VAL, WORDS[Y_VAL])),
        'needs answers that are numbers.* Of labels give loss="log_loss" or "zero_one"',
    ),
    "one model": (select(Ridge(), data=(X_VAL, Y_VAL), loss="zero_one"), "Give a list of models or losses"),
    "a class, for a report": (report(Ridge), "must be fitted; got the class Ridge"),
    "a choice, for a report": (report(SimpleNamespace(model=Ridge())), "Give its .model"),
    "a list as options": (report(fit_params=[1]), "fit_params= must be a dict"),
    "a search's name": (search(LogisticRegression(), "log_loss", name=3), "^name must be a text"),
}


class Probabilities:
    classes_ = (0, 1)

    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_says_what_to_do_and_charges_nothing(case: str, fast_path: Path) -> None:
    call, words = CASES[case]
    ledger = Ledger(fast_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    with pytest.raises((dptune.InputError, ValueError), match=words):
        call(ledger)
    assert ledger.charges() == []


def test_a_tiny_delta_makes_a_choice_pure_as_its_refusal_says(fast_path: Path) -> None:
    ledger = Ledger(fast_path / "ledger.db", dptune.Budget.approximate_dp(1.0, 1e-12))
    public, private = (np.abs(_rng.normal(0.5 + 0.1 * np.arange(4)[:, None], 0.1, (4, n))) for n in (60, 900))
    dptune.select(private, ledger, public_losses=public, default_place=3)
    (divided,) = (text for name, text in ledger.statement().rows() if name == "Divided")
    assert "epsilon = 1 at delta = 0" in divided


# ---- a disk that is full after the charge -----------------------------------------------------------------

FULL = "CREATE TRIGGER full BEFORE INSERT ON {} BEGIN SELECT RAISE(ABORT, '{}'); END"


def released(path: Path) -> Callable[[], object]:
    privatizer = dptune.LossPrivatizer(Ledger(path, dptune.Budget.gdp(1.0)), n=4, clip=(0.0, 1.0))
    privatizer.observe("x", [0.5] * 4)
    return lambda: privatizer.release(privatizer.mean_query("x", 0.5), scope="svm", key="k")


def broadcast(path: Path) -> Callable[[], object]:
    ledger = PlanLedger(path, SubsampledGaussian(q=0.35, z=1.0, steps=60), n=29)
    event = SubsampledGaussianRelease(0.35, 1.0, 1.0, 1.1, 2, "messages")
    return lambda: ledger.record(ledger.charge(0, event, digest="d"), [1.0, 2.0])


def replied(path: Path) -> Callable[[], object]:
    ledger = UserLedger(path, cap=2.0)
    return lambda: ledger.reply(LocalRandomizer(0.75, 1.0), 0.3, user="ann", key="k")


@pytest.mark.parametrize(
    ("make", "table", "names"),
    [(released, "releases", "The release 'k' of 'svm'"), (broadcast, "releases", "The release 'round/0'"),
     (replied, "values", "The reply 'k'")],
)  # fmt: skip
@pytest.mark.parametrize("why", ["disk is full", "locked"])
def test_an_answer_that_cannot_be_stored_is_said_to_be_charged(
    make: Any, table: str, names: str, why: str, fast_path: Path
) -> None:
    """A lock fails with a message that says "nothing was charged" elsewhere."""
    act = make(fast_path / "ledger.db")
    engine = schema.connect(schema.normalise_url(fast_path / "ledger.db"))
    with engine.begin() as connection:
        connection.execute(sa.text(FULL.format(f"dptune_{table}", f"{why}; nothing was charged")))
    with pytest.raises(dptune.LedgerError, match=f"{why}.* {names}.* is charged, and its answer was not") as told:
        act()
    assert "othing was charged" not in str(told.value)
    assert "answered at no further cost" in str(told.value)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER full"))
    act()
    with engine.begin() as connection:
        charges = "replies" if table == "values" else "charges"
        assert connection.execute(sa.text(f"SELECT COUNT(*) FROM dptune_{charges}")).scalar() == 1
