"""One person's odd answer, in a list or an array of objects, changes only that person's loss."""

import copy
import io
import itertools
import warnings
from collections import UserList
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from dptune.losses.estimator import estimator_losses
from dptune.losses.functions import zero_one_loss
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import losses_function
from dptune.privacy.seal.private import loss_vector
from one_row import BAD, LABELS, NEIGHBOUR, TRAIN, UNUSUAL, N, Raises, X, Y, as_objects, same_for_others, with_entry

# --- outputs that are lists or objects ------------------------------------------------------------------------


class Listed:
    """Answers in plain Python; `odd` is what it says of a row with a NaN."""

    def __init__(self, k: int, usual: Any, odd: Any, wrap: Callable[[list[Any]], Any]) -> None:
        self.classes_, self.usual, self.odd, self.wrap = np.arange(k), usual, odd, wrap

    def predict_proba(self, rows: np.ndarray) -> Any:
        return self.wrap([self.odd if np.isnan(row).any() else copy.copy(self.usual) for row in rows])

    decision_function = predict = predict_proba


def as_an_array(entries: list[Any]) -> np.ndarray:
    """What np.array(entries, dtype=object) gives: a matrix if all rows are alike, a vector if one is not."""
    try:
        return np.array(entries, dtype=object)
    except BaseException:  # noqa: BLE001 - an entry that refuses to be looked at
        return as_objects(entries)


ODD = [None, [0.5], [0.1, 0.2, 0.3, 0.4], 0.5, "text", {}, [None, "x", 1j], np.ones((2, 2)), Raises()]
ODD += [Raises(SystemExit)]


@pytest.mark.parametrize(
    ("loss", "k", "usual", "fits"),
    [
        ("log_loss", 2, [0.9, 0.1], True),
        ("brier", 3, [0.9, 0.05, 0.05], True),
        ("log_loss", 2, 0.1, True),
        ("brier", 2, [0.5], True),
        ("log_loss", 3, [0.5, 0.5], False),
        ("brier", 2, np.array([0.9, 0.1]), True),
        ("mse", 2, 1, True),
        ("hinge", 2, 1, True),
        ("accuracy", 2, 1, True),
        ("hinge", 2, [1], True),
        ("hinge", 2, [1, 2], False),
    ],
)
@pytest.mark.parametrize("wrap", [list, as_an_array])
def test_one_odd_row_of_a_listed_output_costs_itself(loss: str, k: int, usual: Any, fits: bool, wrap: Any) -> None:
    a = estimator_losses(loss, Listed(k, usual, None, wrap), X, Y)
    assert np.isfinite(a).all() == fits
    for i, odd in enumerate(ODD):
        assert same_for_others(a, estimator_losses(loss, Listed(k, usual, odd, wrap), NEIGHBOUR, Y)), i


COST = np.array([[0.0, 1.0], [0.2, 0.0]])
COSTS = NamedLoss("costs", lambda y, p, labels: COST[y, p], uses_labels=True)


@pytest.mark.parametrize("odd", [0.5, 2, -9, "x", 1j, None, [0], 10**400], ids=repr)
def test_a_prediction_of_another_type_changes_no_other_under_an_own_loss(odd: Any) -> None:
    a = estimator_losses(COSTS, Listed(2, 1, None, np.array), X, Y)
    assert np.isfinite(a).all()
    assert same_for_others(a, estimator_losses(COSTS, Listed(2, 1, odd, np.array), NEIGHBOUR, Y))


def test_a_binary_prediction_row_is_a_pair_or_the_second_probability() -> None:
    model = Listed(2, [0.75, 0.25], 0.25, list)
    np.testing.assert_array_equal(
        estimator_losses("brier", model, NEIGHBOUR, Y), estimator_losses("brier", model, X, Y)
    )


# --- answers and losses ------------------------------------------------------------------------------------------

ENTRIES = [None, "text", b"x", 1j, np.complex128(1j), 10**400, [1.0], [1, 2], {}, np.array([1.0]), np.array([1, 2])]
ENTRIES += ["cut \ud83d", np.timedelta64(3, "D"), np.array(1j), np.ma.masked, *map(Raises, UNUSUAL)]
CLASSIFIER = LogisticRegression().fit(TRAIN, LABELS)
RIDGE = Ridge().fit(TRAIN, LABELS)


def own_loss(losses: Any) -> NamedLoss:
    """A loss that has these values, whatever the model answers; of public rows, zeros."""
    return NamedLoss("own", lambda y, prediction: losses if len(y) == N else np.zeros(len(y)))


READERS = {
    "loss_vector": loss_vector,
    "mse": lambda y: estimator_losses("mse", RIDGE, X, y),
    "log_loss": lambda y: estimator_losses("log_loss", CLASSIFIER, X, y),
    "accuracy": lambda y: estimator_losses("accuracy", CLASSIFIER, X, y),
    "zero_one_loss": lambda y: zero_one_loss(y, Y),
    "own": lambda losses: estimator_losses(own_loss(losses), RIDGE, X, Y),
    "objective": lambda y: losses_function(lambda _: RIDGE, "mse", (X, y), rows=N)(None),
}


@pytest.mark.parametrize(
    ("reader", "hold"),
    [
        ("loss_vector", list),
        ("loss_vector", UserList),
        ("mse", tuple),
        ("log_loss", list),
        ("accuracy", UserList),
        ("zero_one_loss", tuple),
        ("objective", list),
        ("own", tuple),
        ("own", as_objects),
        ("own", pd.Series),
    ],
)
def test_one_odd_entry_of_the_answers_or_the_losses_costs_itself(reader: str, hold: Any) -> None:
    f, values = READERS[reader], Y.astype(float).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = f(hold(values))
        assert np.isfinite(a).all()
        for i, entry in enumerate(ENTRIES):
            assert same_for_others(a, f(hold(with_entry(values, entry)))), i


@pytest.mark.parametrize("usual", [np.array([0.1, 0.2]), [0.1, 0.2]], ids=["array", "list"])
def test_a_list_of_what_is_no_number_is_no_matrix(usual: Any) -> None:
    a, b = loss_vector([usual] * N), loss_vector([*[usual] * (N - 1), np.nan])
    np.testing.assert_array_equal(a, b)
    assert np.isnan(a).all()


@pytest.mark.parametrize(
    "each",
    [lambda v: [v], lambda v: (v,), np.array, lambda v: np.array([v]), lambda v: np.array([[v]]), lambda v: [str(v)]],
    ids=["list", "tuple", "no dimension", "one dimension", "two dimensions", "text"],
)
def test_a_list_of_columns_of_one_entry_is_read(each: Any) -> None:
    """A column (n, 1) of answers is refused as an array; as a list, nothing public would say so."""
    for reader, values in {"loss_vector": X[:, 0], "mse": X[:, 0], "log_loss": Y, "zero_one_loss": Y}.items():
        read = READERS[reader]
        np.testing.assert_array_equal(read([each(value) for value in values.tolist()]), read(values))


def test_an_array_of_one_number_keeps_its_precision() -> None:
    values = X[:, 0].astype(np.float32)
    np.testing.assert_array_equal(loss_vector([np.array([v]) for v in values]), loss_vector(list(values)))


def test_a_sequence_that_cannot_give_one_entry_gives_the_others() -> None:
    class Lazy:
        """As a data set on disk of which one record is broken."""

        def __init__(self, broken: int) -> None:
            self.broken = broken

        def __len__(self) -> int:
            return N

        def __getitem__(self, i: int) -> float:
            if i == self.broken:
                raise OSError("secret")
            if i >= N:
                raise IndexError
            return 0.5

    assert loss_vector(Lazy(N)).tolist() == [0.5] * N
    assert np.flatnonzero(np.isnan(loss_vector(Lazy(BAD)))).tolist() == [BAD]


# --- labels and numbers in the containers of users -------------------------------------------------------------------

ANSWERS: dict[str, Callable[[list[Any]], Any]] = {
    "np.array": np.array,
    "objects": lambda y: np.array(y, dtype=object),
    "list": list,
    "series": pd.Series,
    "nullable": lambda y: pd.Series(y).convert_dtypes(),
    "csv": lambda y: pd.read_csv(io.StringIO(pd.DataFrame({"y": y}).to_csv(index=False)))["y"],
    "category": lambda y: pd.Series(y, dtype="category"),
}


@cache
def fitted_to(classes: Any) -> LogisticRegression:
    return LogisticRegression().fit(TRAIN, LABELS.astype(bool if classes is bool else int).astype(classes))


def labels(written: Any) -> list[Any]:
    return [str(label) for label in Y.tolist()] if written is str else Y.astype(written).tolist()


PAIRS = [*itertools.product([(int, int), (str, str)], ANSWERS)]
PAIRS += itertools.product([(float, int), (bool, bool), (str, int), (int, bool)], ["np.array", "csv"])


@pytest.mark.parametrize(("types", "container"), PAIRS)
def test_one_odd_label(types: tuple[Any, Any], container: str) -> None:
    (written, classes), hold = types, ANSWERS[container]
    y, model = labels(written), fitted_to(classes)
    a = estimator_losses("log_loss", model, X, hold(y))
    if {written, classes} <= {int, float} or written is classes:
        assert np.isfinite(a).all()
    for odd in (None, "?", np.nan, 7, 1.5, 10**400, "1.0", np.timedelta64(5, "D")):  # beside which 1 is a timedelta
        b = estimator_losses("log_loss", model, X, hold(with_entry(y, odd)))
        assert same_for_others(a, b) or (np.isnan(a).all() and np.isnan(np.delete(b, BAD)).all()), odd


@pytest.mark.parametrize("hold", ANSWERS.values(), ids=ANSWERS)
def test_one_odd_number(hold: Any) -> None:
    own = NamedLoss("own", lambda y, prediction: (y - prediction) ** 2)
    for loss, y in (("mse", X[:, 0].tolist()), (own, X[:, 0].tolist()), ("mse", Y.tolist())):
        a = estimator_losses(loss, RIDGE, X, hold(y))
        assert np.isfinite(a).all()
        for odd in (None, "?", np.nan, 10**400, np.timedelta64("NaT"), pd.Timedelta("5D")):
            b = estimator_losses(loss, RIDGE, X, hold(with_entry(y, odd)))
            assert same_for_others(a, b), odd
            assert not np.isfinite(b[BAD]) or odd == pd.Timedelta("5D")
