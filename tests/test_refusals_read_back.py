"""What a refusal quotes is what was given, word by word: numbers, shapes, types and names in their places."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import dptune
from dptune import Budget
from dptune.choice.public import clip_from
from dptune.choice.report.forecast import Expected
from dptune.losses.functions import log_loss
from dptune.losses.named import NamedLoss, per_example_loss
from dptune.privacy.query import Ball, Interval, MeanQuery
from dptune_sklearn import PrivateSearch

rng = np.random.default_rng(0)
X, V = rng.normal(size=(40, 3)), rng.normal(size=(60, 3))  # public, private
Y, W = (X[:, 0] > 0).astype(int), (V[:, 0] > 0).astype(int)
P, L = np.abs(rng.normal(0.5, 0.1, (4, 40))), np.abs(rng.normal(0.5, 0.1, (4, 60)))
FIT, FRAME = LogisticRegression().fit(X, Y), pd.DataFrame(X, columns=list("abc"))
GAPS = np.where(np.arange(40)[:, None] < 3, np.nan, X)
FILLS = make_pipeline(SimpleImputer(), LogisticRegression()).fit(GAPS, Y)
Call = Callable[[dptune.PrivacyLedger], object]


def priv(ledger: dptune.PrivacyLedger, **more: Any) -> dptune.LossPrivatizer:
    return dptune.LossPrivatizer(ledger, **{"n": 60, "clip": (0.0, 1.0), **more})


def select(losses: Any = L, **more: Any) -> Call:
    return lambda ledger: dptune.select(losses, ledger, **{"public_losses": P, **more})


def twice(*settings: dict[str, Any]) -> Call:
    """Choices under the name "a", one after the other, with these settings."""
    return lambda ledger: [select(**{"name": "a", "mu": 0.5, **more})(ledger) for more in settings]


def ask(model: Any, data: Any = (V, W), loss: str = "log_loss", **more: Any) -> Call:
    return select([model] * 2, public_losses=P[:2], data=data, loss=loss, **more)


def report(model: Any = FIT, **more: Any) -> Call:
    return lambda ledger: dptune.report(model, ledger, **{"data": (V, W), "public": (X, Y), **more})


def reported_twice(*settings: dict[str, Any]) -> Call:
    return lambda ledger: [report(mu=0.5, **more)(ledger) for more in settings]


def search(X_val: Any = V, y_val: Any = W, public: Any = X, cv: Any = 3) -> Call:
    grid = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=cv)
    return lambda ledger: PrivateSearch(grid, ledger=ledger, loss="log_loss").fit(public, Y, X_val=X_val, y_val=y_val)


class Odd:
    """A model of three columns that answers by a function."""

    classes_, n_features_in_ = np.array([0, 1]), 3

    def __init__(self, predict_proba: Callable[[Any], Any]) -> None:
        self.predict_proba = predict_proba


CASES: dict[str, tuple[Call, str]] = {
    "a default that is no place": (
        select(default_place=4),
        "default_place=4 must be the place of one of the 4 candidates, from 0, that has public losses. "
        "Nothing was charged.",
    ),
    "a default below 0": (select(default_place=-1), "default_place must be a whole number >= 0; got -1."),
    "a default without public rows": (
        select(public_losses=None, default_place=4, clip=(0.0, 1.0)),
        "default_place= must be the place of one of the 4 candidates, from 0; got 4.",
    ),
    "candidates that are a number": (
        select(7, n=60),
        "the losses cannot be read (TypeError); got an int. Nothing was charged.",
    ),
    "public losses of five candidates": (
        select(public_losses=np.vstack([P, P[:1]])),
        "public_losses= has the losses of 5 candidates, and 4 were given. Nothing was charged.",
    ),
    "public losses of few rows": (
        select(public_losses=P[:, :9]),
        "public_losses= must be the cross-validated losses of 10 public rows or more, an array (candidates, "
        "rows); got a ndarray of shape (4, 9). Nothing was charged.",
    ),
    "public losses of one candidate": (
        select(public_losses=np.vstack([P[:1], np.full((3, 40), np.nan)])),
        "a choice needs two candidates or more with public losses; 1 of 4 have finite ones. Nothing was charged.",
    ),
    "a name with a lone surrogate": (
        select(name="a\ud800"),
        "name must be a text without NUL characters and lone surrogates; got 'a\\ud800'.",
    ),
    "a ledger that is a list": (
        lambda ledger: dptune.select(L, [1], public_losses=P),
        "ledger must be a PrivacyLedger, its path or URL, or a LossPrivatizer; got list. Nothing was charged.",
    ),
    "an unusual yes": (select(even_if_hopeless="no"), "even_if_hopeless must be True or False; got 'no'."),
    "folds that miss rows": (
        search(cv=TimeSeriesSplit(3)),
        "cv=a TimeSeriesSplit never tests 10 of the 40 public rows; every row must be in a test fold. Give a "
        "number of folds, KFold, StratifiedKFold, GroupKFold or repeated ones; not TimeSeriesSplit. Nothing "
        "was charged.",
    ),
    "no validation rows": (
        search(None),
        "X_val is None: give fit X_val= and y_val=, private rows that train nothing. X and y are the public "
        "rows that train, and are not protected.",
    ),
    "a frame and an array": (
        search(public=FRAME),
        "X is a DataFrame and X_val a ndarray: give both as data frames, or both as arrays. The last step of "
        "a Pipeline gets X transformed and X_val as it was. Put the steps before it into the estimator that "
        "is searched: PrivateSearch(GridSearchCV(make_pipeline(scaler, model), ...), ...).",
    ),
    "columns in another order": (
        search(pd.DataFrame(V, columns=list("acb")), public=FRAME),
        "X_val must have the columns of X, in their order: the order differs: give X_val[X.columns]. Nothing "
        "was charged.",
    ),
    "rows and answers": (
        search(V[:50]),
        "X_val, y_val and groups= (of the validation rows) must have as many rows each; got a ndarray of "
        "shape (50, 3) and a ndarray of shape (60,). The people of the training rows are train_groups=. "
        "Nothing was charged.",
    ),
    "an estimator": (
        lambda ledger: PrivateSearch(LinearSVC(), ledger=ledger, loss="hinge").fit(X, Y, X_val=V, y_val=W),
        "PrivateSearch wraps a search, and LinearSVC is not one. Write "
        "PrivateSearch(RandomizedSearchCV(LinearSVC(...), space), ledger=..., loss=...), or give a "
        "GridSearchCV, halving search, OptunaSearchCV or BayesSearchCV. Nothing was charged.",
    ),
    "clip of words": (
        lambda ledger: clip_from(["a"]),
        "clip_from needs losses of public rows, finite numbers; got a list of length 1.",
    ),
    "a report on a number": (report(5), "the model must be fitted and have predict; got 5. Nothing was charged."),
    "a label that is none of two": (
        report(positive=7),
        "positive= must be one of the two labels of a classifier; got 7 for [0, 1]. Nothing was charged.",
    ),
    "a report on few public rows": (
        report(public=(X[:9], Y[:9])),
        "public= needs 20 rows at least; got 9. Nothing was charged.",
    ),
    "too few scores": (
        report(scores=np.ones(9)),
        "scores= must have one entry for each of 40 public rows; got a ndarray of shape (9,). Nothing was charged.",
    ),
    "public labels that the model does not know": (
        report(public=(X, Y + 1)),
        "public= has labels that the model does not know: [0, 1]. Nothing was charged.",
    ),
    "a threshold that is text": (
        report(threshold="a"),
        "threshold must be a finite number; got 'a'. Nothing was charged.",
    ),
    "a threshold of 1": (
        report(threshold=1.0),
        "threshold= is a probability here: it must lie in [0, 1); got 1. Nothing was charged.",
    ),
    "a column that is none": (
        report(by="age"),
        "by= must be a column of public=, its name in a data frame or its place in an array, or the Places of"
        " data=; got a str of length 3. Nothing was charged.",
    ),
    "a column with missing values": (
        report(FILLS, by=2, public=(GAPS, Y)),
        "the column by= is missing in 3 of 40 public rows: give these a value of their own, such as 'unknown', in the "
        "private rows, too. Nothing was charged.",
    ),
    "a column of many values": (
        report(by=0),
        "the column by= must have 2 to 12 different values among the public rows; it has 40; so must places. "
        "Nothing was charged.",
    ),
    "one bin": (report(bins=1), "bins must be a whole number >= 2; got 1. Nothing was charged."),
    "private rows of another width": (
        report(data=(V[:, :2], W)),
        "the private X has shape (60, 2); allowed: (n, 3), like the public rows. Nothing was charged.",
    ),
    "private answers of another length": (
        report(data=(V, W[:50])),
        "X and y of data= must have 50 rows each, as the y given, n= or groups= says; got a ndarray of shape "
        "(60, 3) and a ndarray of shape (50,). Nothing was charged.",
    ),
    "private rows without answers": (
        report(data=V),
        "data= must be (X, y), Rows(X, y, like=...), or a function that returns them; got ndarray. Of several"
        " places give dptune.Places. Nothing was charged.",
    ),
    "an area below a half": (
        lambda ledger: Expected(100, 1.0, 0.5, 1, 0.4),
        "auc must lie between 0.5 and 1; got 0.4.",
    ),
    "a prevalence above 1": (lambda ledger: Expected(100, 1.0, 1.5), "prevalence must lie between 0 and 1; got 1.5."),
    "too many groups": (lambda ledger: Expected(100, 1.0, 0.5, 99), "groups must lie in [1, 12]; got 99."),
    "a pair that mu does not imply": (
        lambda ledger: Budget(2.0, 1.0, 1e-5),
        "mu=2.0 does not imply epsilon=1.0 at delta=1e-05; use Budget.approximate_dp.",
    ),
    "an epsilon below 0": (
        lambda ledger: Budget.approximate_dp(-1.0, 1e-5),
        "epsilon must be a number, positive and finite; got -1.0.",
    ),
    "an unknown option of a loss": (
        lambda ledger: per_example_loss("huber", d=1.0),
        "'huber' has no option ['d']; allowed: ['c']",
    ),
    "probabilities of another width": (
        lambda ledger: log_loss(np.zeros(3), np.ones((3, 3)), labels=[0, 1]),
        "proba has shape (3, 3) for 2 labels. Allowed: (n, 2), one column per label in the order of `labels`;"
        " for two labels also (n,), which is P(labels[1]).",
    ),
    "an own loss of another length": (
        lambda ledger: NamedLoss("mine", lambda y, p: [0.0])([1, 2], [1, 2]),
        "NamedLoss: the function of mine must return one loss per person.",
    ),
    "a radius of 0": (
        lambda ledger: Ball(0.0),
        "the clipping radius must be positive and finite, 1e-30 to 1e+30; got 0.0.",
    ),
    "a clip upside down": (
        lambda ledger: Interval(1.0, 0.0),
        "clip must be two finite numbers low < high; got (1.0, 0.0). Choose them from the meaning of the "
        "loss, not from the data.",
    ),
    "a clip too wide": (
        lambda ledger: Interval(0.0, 1e300),
        "clip must lie within +-1e+30 and be at least 1e-30 wide; scale the loss.",
    ),
    "too few weights": (
        lambda ledger: priv(ledger, person_weights=[1.0]),
        "person_weights must be 60 positive finite numbers, one per person, and public; got a list of length 1.",
    ),
    "people in a matrix": (
        lambda ledger: priv(ledger, n=None, groups=np.zeros((2, 2))),
        "groups must be a vector with one identifier per example; got a ndarray of shape (2, 2).",
    ),
    "people who are numbers with a point": (
        lambda ledger: priv(ledger, n=None, groups=[0.5, 1.0]),
        "groups must be whole numbers or text, without missing ones; got another entry.",
    ),
    "a regressor for probabilities": (
        ask(Ridge().fit(X, Y)),
        "log_loss needs predict_proba, which this Ridge does not have. Give a classifier, or a loss of "
        'numbers, such as "squared_error".',
    ),
    "a regressor for labels": (
        ask(LinearRegression().fit(X, Y), loss="zero_one"),
        "zero_one_loss needs a fitted classifier; this LinearRegression has no classes_.",
    ),
    "scores in place of models": (
        ask(0.5),
        "got a float, perhaps a score, in place of a fitted model. With loss= and data= a function returns the "
        "model itself, and dptune asks that for the log_loss of the private rows.",
    ),
    "a ledger without a place": (
        lambda ledger: dptune.PrivacyLedger("", Budget.gdp(1.0)),
        "the ledger's path or URL must say where, as text or a Path; got ''. Is an environment variable not set?",
    ),
    "a mu too large": (lambda ledger: Budget(1e300), "mu must lie in [1e-09, 1e+09]; got 1e+300. Usual is 0.1 to 3."),
    "answers of another width": (
        ask(Odd(lambda X: np.zeros((len(X), 3)))),
        "the predict_proba of this Odd answers one public row with shape (1, 3) and dtype float64; log_loss "
        "needs (1, 2), one answer a row",
    ),
    "private columns and another model": (
        ask(FIT, data=dptune.Rows(V[:, :2], W, like=X[:, :2])),
        "the private X has 2 columns, but this LogisticRegression was fitted on 3 columns",
    ),
    "a model that fails": (
        ask(Odd(lambda X: 1 / 0)),
        "the predict_proba of this Odd fails on one public row (ZeroDivisionError). Call it on that row to "
        "see why. This is a row of zeros in float64: give data=Rows(X, y, like=X_train).",
    ),
    "a loader that fails": (
        ask(FIT, data=lambda: 1 / 0, n=60),
        "the function given as data= failed (ZeroDivisionError); nothing was trained or charged. Call it "
        "yourself to see why.",
    ),
    "a loader of no pair": (
        ask(FIT, data=lambda: 5, n=60),
        "data= must be (X, y), Rows(X, y, like=...), or a function that returns them; got int.",
    ),
    "a frame without like=": (
        ask(FIT, data=(pd.DataFrame(V, columns=list("abc")), W)),
        "what columns of a data frame hold must not depend on private cells. Give data=Rows(X, y, "
        "like=X_train), public or made-up rows of the same columns, both as pandas data frames. If all are "
        "numbers, give arrays, such as X.to_numpy(). Got the private X as a DataFrame of pandas and like= as None.",
    ),
    "no rows as like=": (
        ask(FIT, data=dptune.Rows(V, W, like=X[:0])),
        "like= must be public rows, at least one, like those of the private X; got shape (0, 3).",
    ),
    "two targets": (
        ask(FIT, data=(V, np.c_[W, W])),
        "the y of data= has shape (60, 2); allowed: (60,), one answer a row. Of one-hot columns give the "
        "labels, such as y.argmax(axis=1). Of several targets use one at a time, each under a name= of its own.",
    ),
    "weights of another width": (
        lambda ledger: MeanQuery(("a", "b"), np.ones((1, 3)), Interval(0, 1), 1.0),
        "weights must be (p, 2) for these points; got (1, 3).",
    ),
    "weights that are text": (
        lambda ledger: MeanQuery(("a", "b"), "x", Interval(0, 1), 1.0),
        "weights must be a matrix of numbers; got a str of length 1.",
    ),
    "a limit that is text": (
        lambda ledger: MeanQuery(("a",), np.ones((1, 1)), Interval(0, 1), 1.0, failed_above="x"),
        "failed_above must be finite, or None; got 'x'.",
    ),
    "a clip of another loss": (
        lambda ledger: (p := dptune.LossPrivatizer(ledger, n=60), p.use_clip((0.0, 1.0)), p.use_clip((0.0, 2.0))),
        "this privatizer has the clip (0, 1), of another loss or of other public rows, and this one's is (0.0, 2.0): "
        "make another LossPrivatizer for it. Nothing was charged.",
    ),
    "a point without losses": (
        lambda ledger: (p := priv(ledger), p.release(p.mean_query("y", 0.1), scope="s", key="k")),
        "this process holds no losses for ['y']; losses live in the memory of the process that observed them."
        " Evaluate the points again.",
    ),
    "another price under an old name": (
        twice({}, {"mu": 0.6}),
        "the name 'a' belongs to another choice: it differs in mu (0.5, now 0.6). The answer of that choice "
        "stays recorded. Give this choice another name= (it is then a new choice, and is charged again), or "
        "what it had. Nothing was charged.",
    ),
    "other public losses under an old name": (
        twice({}, {"public_losses": P + 1}),
        "the name 'a' belongs to another choice: it differs in public losses (other public rows, folds, seeds"
        " or training code). The answer of that choice stays recorded. Give this choice another name= (it is "
        "then a new choice, and is charged again), or what it had. Nothing was charged.",
    ),
    "another threshold under an old name": (
        reported_twice({}, {"threshold": 0.25}),
        "the name 'report' belongs to something else in this ledger: it differs in threshold. Of the released report, "
        "report.at(threshold) reads any threshold at no cost. Give this report another name= (it is then a new report, "
        "and is charged). Nothing was charged.",
    ),
    "other bins under an old name": (
        reported_twice({"bins": 4}, {"bins": 3}),
        "the name 'report' belongs to something else in this ledger: it differs in bins. Give this report another "
        "name= (it is then a new report, and is charged). Nothing was charged.",
    ),
    "other people in a ledger": (
        twice({}, {"losses": L[:, :50]}),
        "this ledger has n=60, not 50; it is fixed when made or first charged. Open it as it was, or make a "
        "ledger of its own for other people's data. Nothing was charged.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_quotes_what_was_given(case: str, fast_path: Path) -> None:
    call, message = CASES[case]
    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0))
    with pytest.raises((dptune.DptuneError, ValueError)) as told:
        call(ledger)
    assert str(told.value) == message
