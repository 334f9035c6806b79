"""Refusals of losses, models and rows, word by word: what is wrong, what is allowed, and what it costs."""

from collections.abc import Callable
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from dptune.errors import DptuneError
from dptune.losses.estimator import estimator_losses
from dptune.losses.functions import hinge_loss, huber_loss, log_loss, pinball_loss, squared_error, zero_one_loss
from dptune.losses.models import BoosterModel, as_model
from dptune.losses.named import NamedLoss, per_example_loss
from dptune.losses.rows import Rows, read_rows
from dptune.losses.user_function import declared_public, losses_function
from dptune.privacy.seal.private import loss_vector
from dptune.privacy.seal.reachable import refuse_reachable
from one_row import LABELS, TRAIN, N, Raises, X, Y

RIDGE, FIT = Ridge().fit(TRAIN, LABELS), LogisticRegression().fit(TRAIN, LABELS)
FRAME, KEPT = pd.DataFrame(X, columns=list("abc")), X.copy()
COLUMNS = FRAME.assign(c=pd.Timestamp("2020-01-01"))
VERSIONS = pd.DataFrame({"v": ["1.1", "1.10"] * 2})

NAMES = (
    "absolute_error, accuracy, brier, brier_loss, brier_score_loss, cross_entropy, error_rate, hinge, hinge_loss, "
    "huber, huber_loss, log_loss, mae, mean_absolute_error, mean_pinball_loss, mean_squared_error, mse, "
    "neg_brier_score, neg_log_loss, neg_mean_absolute_error, neg_mean_pinball_loss, neg_mean_squared_error, pinball, "
    "pinball_loss, squared_error, zero_one, zero_one_loss"
)


class Odd:
    """A model of three columns that answers by a function."""

    classes_, n_features_in_ = np.array([0, 1]), 3

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.predict = self.predict_proba = self.decision_function = answer


class Unreadable:
    """Rows of which none can be taken by its position."""

    shape = (N, 3)

    def __getitem__(self, rows: Any) -> Any:
        raise TypeError


class Booster:
    """As much of a native booster of XGBoost as has a number of columns."""

    def inplace_predict(self, rows: Any, iteration_range: Any) -> Any:
        return np.full((len(rows), 3), 1 / 3)

    def num_features(self) -> int:
        return 3

    def save_config(self) -> str:
        return '{"learner": {"gradient_booster": {"name": "gbtree"}}}'


def reads() -> Any:
    return KEPT


def asked(model: Any, loss: Any = "squared_error", X: Any = X, y: Any = Y, like: Any = None) -> Any:
    return lambda: estimator_losses(loss, model, X, y, like=like)


def trial(loss: Any = "squared_error", data: Any = (X, Y), function: Any = len, **more: Any) -> Any:
    return lambda: losses_function(function, loss, data, rows=N, **more)


def own(function: Any, model: Any = RIDGE, **more: Any) -> Any:
    """A user's loss, tried out on the public rows."""
    return asked(model, NamedLoss("own", function, **more), like=TRAIN)


def named(**change: Any) -> Any:
    return lambda: NamedLoss(**{"name": "own", "function": len, **change})


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: squared_error(Raises(), [1.0]),
     "y cannot be read as an array; it is a Raises. Of a tensor give x.detach().float().cpu().numpy()"),
    (lambda: squared_error(np.zeros((2, 1)), [1.0, 2.0]),
     "y has shape (2, 1); allowed: (n,), one entry per person (try .ravel())"),
    (lambda: zero_one_loss([1, 2, 3], [1]),
     "y has shape (3,) and prediction has shape (1,); both must describe the same people"),
    (lambda: huber_loss([1.0], [1.0], c=0), "huber_loss: c must be a number, positive and finite; got 0."),
    (lambda: pinball_loss([1.0], [1.0], quantile=1.0),
     "pinball_loss: quantile=1.0 must lie strictly between 0 and 1"),
    (lambda: log_loss([1], [0.5], labels=[0, 1], eps=0.0), "log_loss: eps=0.0 must lie strictly between 0 and 1"),
    (lambda: hinge_loss([1], [0.5], labels=[0, 1, 2]),
     "hinge_loss is for exactly two labels; for more, use log_loss or zero_one_loss"),
    (lambda: zero_one_loss([1], [1], labels=[1, "1", 0]),
     "labels must be distinct as numbers, too, and at least one: 1, 1.0, '1' and True are one"),
    (lambda: zero_one_loss([1], [1], labels=[[1], [0]]), "labels must be plain values: text, numbers or booleans"),
    (named(name=""), "NamedLoss: name must be a text that is not empty; got ''."),
    (named(function=3), "NamedLoss: function must be a function; got 3. Nothing was charged."),
    (named(uses_labels=1), "NamedLoss: uses_labels must be True or False; got 1."),
    (named(known_clip="yes"), "NamedLoss: known_clip must be True or False; got 'yes'."),
    (named(checked=None), "NamedLoss: checked must be True or False; got None."),
    (named(most=-1.0), "NamedLoss: most must be a number, positive and finite; got -1.0."),
    (named(output="transform"),
     "NamedLoss: output must be one of ('predict', 'predict_proba', 'decision_function'); got 'transform'."),
    (lambda: per_example_loss("log_loss")([1], [0.5]),
     "log_loss needs labels=, the public labels in the order of the columns"),
    (lambda: per_example_loss("pinball"), "'pinball' needs quantile=, strictly between 0 and 1"),
    (lambda: per_example_loss("acuracy"),
     f"'acuracy' is not the name of a loss. Did you mean 'accuracy'? Allowed: {NAMES}, or a NamedLoss of your own"),
    (lambda: per_example_loss(squared_error),
     "a function is not the name of a loss. Did you mean 'squared_error'? "
     f"Allowed: {NAMES}, or a NamedLoss of your own"),
    (lambda: BoosterModel({}), "a booster of XGBoost or LightGBM is expected; got dict."),
    (lambda: per_example_loss(3), f"an int is not the name of a loss. Allowed: {NAMES}, or a NamedLoss of your own"),
    (asked(None),
     "got None in place of a fitted model. With loss= and data= a function returns the model itself, and dptune "
     "asks that for the squared_error of the private rows."),
    (asked(1),
     "got an int, perhaps a score, in place of a fitted model. With loss= and data= a function returns the model "
     "itself, and dptune asks that for the squared_error of the private rows."),
    (asked(object()), "squared_error needs predict, which this object does not have. Give a model with predict."),
    (asked(LinearSVC().fit(TRAIN, LABELS), "log_loss"),
     "log_loss needs predict_proba, which this LinearSVC does not have. Give CalibratedClassifierCV(model), which "
     'has probabilities, or loss="zero_one"; of two labels "hinge".'),
    (asked(RIDGE, "hinge"),
     "hinge_loss needs decision_function, which this Ridge does not have. Give a classifier, or a loss of numbers,"
     ' such as "squared_error".'),
    (asked(RIDGE, "zero_one"), "zero_one_loss needs a fitted classifier; this Ridge has no classes_."),
    (asked(LinearRegression()), "this LinearRegression is not fitted; fit it before asking for its losses"),
    (asked(RIDGE, X=X[:, :2]), "the private X has 2 columns, but this Ridge was fitted on 3 columns"),
    (asked(Odd(lambda rows: 1 / 0)),
     "the predict of this Odd fails on one public row (ZeroDivisionError). Call it on that row to see why. This "
     "is a row of zeros in float64: give data=Rows(X, y, like=X_train)."),
    (asked(Odd(lambda rows: {})),
     "the predict of this Odd answers one public row with shape () and dtype object; squared_error needs (1,), one"
     " answer a row"),
    (asked(Odd(lambda rows: Raises())),
     "what the predict of this Odd returns, Raises, cannot be read as an array. Of a tensor give "
     "x.detach().float().cpu().numpy()"),
    (asked(Odd(lambda rows: np.ones((len(rows), 3))), "log_loss"),
     "the predict_proba of this Odd answers one public row with shape (1, 3) and dtype float64; log_loss needs (1,"
     " 2), one answer a row"),
    (asked(Odd(lambda rows: np.ones((len(rows), 2))), "hinge"),
     "the decision_function of this Odd answers one public row with shape (1, 2) and dtype float64; hinge_loss "
     "needs (1,), one answer a row; for more than two labels use log_loss or zero_one_loss"),
    (asked(Odd(lambda rows: rows[:, 0] - rows.mean()), like=TRAIN),
     "the predict of this Odd answers a public row differently when another row of the call is replaced or the "
     "call is repeated. One person's row would move everybody's loss. Fit every step on training rows, predict in "
     "evaluation mode, and avoid random predictions, such as those of IterativeImputer(sample_posterior=True). "
     "Nothing was charged for this model."),
    (asked(SimpleNamespace(predict=len, lock=Lock())),
     "this SimpleNamespace cannot be copied (TypeError: cannot pickle '_thread.lock' object). dptune reads private"
     " losses from a copy, so that the model you keep holds nothing of private rows. Return a model that pickle "
     "can store; or leave loss= and data= out and return the losses yourself. Nothing was charged for this model."),
    (lambda: as_model(Booster(), per_example_loss("log_loss"), X, np.array(["a", "b"] * 20)),
     "the model has 3 outputs, and the public rows have 2 labels. Return dptune.losses.models.BoosterModel(model, "
     "labels=[...]), with a label for each output in their order. Nothing was charged."),
    (asked(Booster(), "log_loss"),
     "log_loss needs predict_proba, which this Booster does not have. Wrap it: "
     "dptune.losses.models.BoosterModel(model, labels=[...])."),
    (own(lambda y, p: 1 / 0),
     "The function of own fails (ZeroDivisionError: division by zero) for every public pair of an answer and a "
     "prediction. It must return one number for each row, also for a single one. Answers come as float64, NaN for "
     "what is not a number. For labels set NamedLoss(..., uses_labels=True). Nothing was charged for this model."),
    (own(lambda y, p, labels: [None] * len(y), FIT, uses_labels=True),
     "The function of own gives no number for every public pair of an answer and a prediction. It must return one "
     "number for each row, also for a single one. Answers come as labels in the type of the model's classes_, "
     "int64. Nothing was charged for this model."),
    (own(lambda y, p: y - float(p[0]) if len(y) == 1 else 1 / 0),
     "The function of own fails on several rows, and not on one (ZeroDivisionError: division by zero). Nothing was"
     " charged for this model."),
    (own(lambda y, p: (p - p.mean()) ** 2),
     "The function of own gives a public row another loss when other rows are in the call, or when it is called "
     "again. One person's row would move everybody's loss. Entry i must depend on the i-th answer and prediction "
     "only: do not rank rows, subtract their mean, or draw at random. Nothing was charged for this model."),
    (asked(RIDGE, y=Y.astype("M8[D]")),
     "y has the type datetime64; allowed: numbers, text and labels. Of dates give numbers, such as days, and of a "
     'structure one field, such as y["answer"].'),
    (trial(data=(X, COLUMNS.c)),
     "y has the type datetime64; allowed: numbers, text and labels. Of dates give numbers, such as days, and of a "
     'structure one field, such as y["answer"].'),
    (trial(data=(X, Y.astype([("answer", int)]))),
     "y has the type void; allowed: numbers, text and labels. Of dates give numbers, such as days, and of a "
     'structure one field, such as y["answer"].'),
    (asked(RIDGE, X=X.astype("M8[D]")),
     "the private X has the type datetime64; allowed: numbers and text. Of dates give numbers, such as days, and of a "
     "structure its fields as columns."),
    (asked(RIDGE, X=np.zeros(N, dtype="f8,f8,f8")),
     "the private X has the type void; allowed: numbers and text. Of dates give numbers, such as days, and of a "
     "structure its fields as columns."),
    (lambda: read_rows(COLUMNS, FRAME),
     "column 'c' of the private X holds dates. Convert it as in like=, for example into days."),
    (asked(RIDGE, X=SimpleNamespace(shape=(N, 2)), like=TRAIN),
     "the private X has shape (40, 2); allowed: (n, 3), like the public rows."),
    (asked(RIDGE, X=Unreadable()),
     "the private X is an Unreadable of shape (40, 3), whose rows cannot be read by position, X[i]. Give an array, "
     "such as np.asarray(X)."),
    (asked(RIDGE, y=Y[1:]), "X has 40 rows and y has shape (39,); allowed: (n, d) and (n,)"),
    (asked(RIDGE, X=COLUMNS, like=COLUMNS.copy()),
     "column 'c' of like= holds neither numbers, text nor categories. Convert it in like= and in the private X,"
     " for example dates into days. Text must be valid Unicode."),
    (lambda: read_rows(VERSIONS, VERSIONS),
     "column 'v' of like= holds different values that are one number, such as '1.1' and '1.10'. Private cells are "
     "compared by their number. Turn the column into numbers, or write its values so that they are not numbers "
     "(for example 'v1.10'), in like= and in the private X."),
    (lambda: read_rows(FRAME, FRAME.rename(columns={"b": "d"})),
     "the private X and like= (public rows, such as those that train) must have the same columns; like= has 40 rows "
     "of 'a', 'd', 'c'."),
    (lambda: read_rows(FRAME, FRAME[:0]),
     "the private X and like= (public rows, such as those that train) must have the same columns; like= has 0 rows "
     "of 'a', 'b', 'c'."),
    (lambda: read_rows(FRAME, pd.DataFrame()),
     "the private X and like= (public rows, such as those that train) must have the same columns; like= has 0 rows "
     "of no named columns."),
    (asked(SimpleNamespace(predict=lambda rows: rows[:, 0]), X=X.tolist()),
     "the number of columns of a list or a vector of rows must come from public facts. This model has no "
     "n_features_in_: is it fitted? Give data=Rows(X, y, like=public or made-up rows), or an array of numbers."),
    (lambda: read_rows(X.tolist(), [[COLUMNS.c[0]] * 3]),
     "like= must hold numbers and text; got an array or a list that holds something else. Of dicts give "
     "pandas.DataFrame(rows), of the private X and of like=."),
    (lambda: read_rows(pl.DataFrame(X)),
     "the private X is a DataFrame; of a data frame that is not pandas' give X.to_pandas()."),
    (lambda: read_rows({1, 2}),
     "the private X must be an array, a list of rows, a sparse matrix or a data frame; got set"),
    (trial(data=(X, Raises())),
     "the y of data= cannot be read as an array of 40 answers; it is a Raises. Give an array or a list (of a "
     "tensor, y.detach().cpu().numpy())."),
    (lambda: losses_function(len, "squared_error", lambda: 1 / 0, rows=N)(None),
     "the function given as data= failed (ZeroDivisionError); nothing was trained or charged. Call it yourself to "
     "see why."),
    (trial(training="secret"), "training must be \"public\" or \"private\"; got 'secret'."),
    (trial(data=None),
     "loss='squared_error' needs data=(X, y), whose losses are asked of the model that is returned."),
    (trial(loss=None),
     'data= needs loss=, what is minimised: a name as "log_loss", "zero_one" (1 - accuracy) or "squared_error", or'
     " a NamedLoss. Without data= return the losses yourself."),
    (lambda: declared_public("sizes", "private"),
     'public= cannot go with training="private": a model that was trained on private people depends on them, and '
     "so does whatever it says about public rows."),
    (trial(data=(KEPT, Y), function=reads),
     "the function can reach the private data= through KEPT: training, early stopping or an eval_set on private "
     "rows would show them without noise. Stop early on public rows. Use copies of the public part that are made "
     "outside of the function (X_train = X[:n].copy()) instead of KEPT, or let data= be a function that loads the "
     "private rows, data=load."),
    (lambda: refuse_reachable(reads, KEPT, loaded=True),
     "the function can reach the private data= through KEPT: training, early stopping or an eval_set on private "
     "rows would show them without noise. Stop early on public rows. Use copies of the public part that are made "
     "outside of the function (X_train = X[:n].copy()) instead of KEPT, or let the function data= read the private"
     " rows from a file instead of from KEPT."),
    (trial(data=reads, function=lambda _: reads()),
     "the function can reach the private data= through reads, which loads the private rows: training, early stopping "
     "or an eval_set on private rows would show them without noise. Load public rows outside of the function, or by "
     "a function of their own."),
    (lambda: losses_function(len, NamedLoss("own", lambda y, out: reads()), reads, rows=N),
     "the loss: reads loads the private rows of data=, which nothing else may load: it would show them without noise. "
     "Load public rows by a function of their own. Nothing was charged."),
    (lambda: losses_function(len, "squared_error", Rows(KEPT, Y, like=KEPT[:5]), rows=N),
     "like= shares memory with the private rows of data=, which nothing else may hold: it would show them without "
     "noise. Give public rows, and train on public rows. If both are parts of one table, give copies: X_train = "
     "table[:n].copy(). Nothing was charged."),
    (lambda: loss_vector(np.array(["2020-01-01"], dtype="M8[D]")),
     "per-example losses must be an array of real numbers; got ndarray of datetime64."),
    (lambda: loss_vector(COLUMNS.c), "per-example losses must be an array of real numbers; got Series of datetime64."),
    (lambda: loss_vector(np.ones((3, 1))),
     "per-example losses must be a vector with one loss per example; got ndarray of shape (3, 1). Return the "
     "losses before averaging, not a mean, a score or an empty result. Of a column return losses.ravel(). With "
     "loss= and data= return the fitted model."),
    (lambda: loss_vector([]),
     "per-example losses must be a vector with one loss per example; got list of shape (0,). Return the losses "
     "before averaging, not a mean, a score or an empty result. Of a column return losses.ravel(). With loss= and "
     "data= return the fitted model."),
    (lambda: loss_vector(Raises()),
     "per-example losses must be an array of real numbers; got Raises, which cannot be read as one. Of a tensor "
     "give losses.detach().float().cpu().numpy()."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_a_loss_a_model_and_rows_are_refused_in_these_words(call: Callable[[], object], message: str) -> None:
    with pytest.raises(DptuneError) as told:
        call()
    assert str(told.value) == message
