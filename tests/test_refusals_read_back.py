"""What a refusal quotes is what was given, word by word: numbers, shapes, types and names in their places."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
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


def ask(model: Any, data: Any = (V, W), loss: str = "log_loss", **more: Any) -> Call:
    return select([model] * 2, public_losses=P[:2], data=data, loss=loss, **more)


def report(model: Any = FIT, **more: Any) -> Call:
    return lambda ledger: dptune.report(model, ledger, **{"data": (V, W), "public": (X, Y), **more})


def search(X_val: Any = V, y_val: Any = W, public: Any = X, cv: Any = 3) -> Call:
    grid = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=cv)
    return lambda ledger: PrivateSearch(grid, ledger=ledger, loss="log_loss").fit(public, Y, X_val=X_val, y_val=y_val)


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
    "an unusual yes": (select(even_if_hopeless="no"), "even_if_hopeless must be True or False; got 'no'."),
    "folds that miss rows": (
        search(cv=TimeSeriesSplit(3)),
        "cv=a TimeSeriesSplit never tests 10 of the 40 public rows; every row must be in a test fold. Give a "
        "number of folds, KFold, StratifiedKFold, GroupKFold or repeated ones; not TimeSeriesSplit. Nothing "
        "was charged.",
    ),
    "a frame and an array": (
        search(public=FRAME),
        "X is a DataFrame and X_val a ndarray: give both as data frames, or both as arrays. The last step of "
        "a Pipeline gets X transformed and X_val as it was. Put the steps before it into the estimator that "
        "is searched: PrivateSearch(GridSearchCV(make_pipeline(scaler, model), ...), ...).",
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
        "the column by= must have 2 to 12 different values among the public rows; it has 40. Nothing was charged.",
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
    "a prevalence above 1": (lambda ledger: Expected(100, 1.0, 1.0), "prevalence must lie between 0 and 1; got 1.0."),
    "too many groups": (lambda ledger: Expected(100, 1.0, 0.5, 99), "groups must lie in [1, 12]; got 99."),
    "a pair that mu does not imply": (
        lambda ledger: Budget(2.0, 1.0, 1e-5),
        "mu=2.0 does not imply epsilon=1.0 at delta=1e-05; use Budget.approximate_dp.",
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
    "a mu too large": (lambda ledger: Budget(1e300), "mu must lie in [1e-09, 1e+09]; got 1e+300. Usual is 0.1 to 3."),
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
    "a clip of another loss": (
        lambda ledger: (p := priv(ledger, clip=None), *map(p.use_clip, [(0, 1), (0.0, 1.0), (0.0, 2.0)])),
        "this privatizer has the clip (0, 1), of another loss or of other public losses, and this one's is (0.0, 2.0): "
        "make another LossPrivatizer for it. Nothing was charged.",
    ),
    "another threshold under an old name": (
        lambda ledger: [report(mu=0.5, **more)(ledger) for more in ({}, {"threshold": 0.25})],
        "the name 'report' belongs to something else in this ledger: it differs in threshold. Of the released report, "
        "report.at(threshold) reads any threshold at no cost. Give this report another name= (it is then a new report, "
        "and is charged). Nothing was charged.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_quotes_what_was_given(case: str, fast_path: Path) -> None:
    call, message = CASES[case]
    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0))
    with pytest.raises((dptune.DptuneError, ValueError)) as told:
        call(ledger)
    assert str(told.value) == message
