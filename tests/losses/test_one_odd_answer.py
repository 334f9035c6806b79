"""One person's odd answer, in a list or an array of objects, costs that person alone."""

from __future__ import annotations

import copy
import warnings
from collections import UserList
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_row import BAD, LABELS, NEIGHBOUR, TRAIN, N, Raises, X, Y, same_for_others
from sklearn.linear_model import LogisticRegression, Ridge

from dptune.errors import InputError
from dptune.losses.estimator import estimator_losses
from dptune.losses.named import zero_one_loss
from dptune.losses.user_function import losses_function
from dptune.privacy.seal.private import loss_vector

# --- outputs that are lists or objects ------------------------------------------------------------------------


class Listed:
    """Answers in plain Python; `odd` is what it says of a row with a NaN."""

    def __init__(self, k: int, usual: Any, odd: Any, wrap: Callable[[list[Any]], Any]) -> None:
        self.classes_, self.usual, self.odd, self.wrap = np.arange(k), usual, odd, wrap

    def predict_proba(self, rows: np.ndarray) -> Any:
        return self.wrap([self.odd if np.isnan(row).any() else copy.copy(self.usual) for row in rows])

    decision_function = predict = predict_proba


def as_objects(entries: list[Any]) -> np.ndarray:
    """What np.array(entries, dtype=object) gives: a matrix if all rows are alike, a vector if one is not."""
    try:
        return np.array(entries, dtype=object)
    except BaseException:  # noqa: BLE001 - an entry that refuses to be looked at
        array = np.empty(len(entries), dtype=object)
        for i, entry in enumerate(entries):
            array[i] = entry
        return array


ODD = [
    None,
    [0.5],
    [0.1, 0.2, 0.3, 0.4],
    0.5,
    "text",
    {},
    [None, "x", 1j],
    np.ones((2, 2)),
    Raises(),
    Raises(SystemExit),
]


WRAPS = {"list": list, "tuple": tuple, "UserList": UserList, "objects": as_objects}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize(
    ("k", "usual"),
    [(2, [0.9, 0.1]), (3, [0.9, 0.05, 0.05]), (2, 0.1), (2, [0.5]), (3, [0.5, 0.5]), (2, np.array([0.9, 0.1]))],
)
@pytest.mark.parametrize("loss", ["log_loss", "brier"])
def test_one_odd_row_of_a_listed_output_costs_itself(loss: str, k: int, usual: Any, wrap: Any) -> None:
    labels = np.zeros(N, dtype=int)
    for i, odd in enumerate(ODD):
        a, b = (estimator_losses(loss, Listed(k, usual, odd, wrap), rows, labels) for rows in (X, NEIGHBOUR))
        assert np.array_equal(np.delete(a, BAD), np.delete(b, BAD), equal_nan=True), i
        assert np.isfinite(a).all() == (np.size(usual) in (1, k) and np.shape(usual) in ((), (k,)))


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("loss", ["mse", "hinge", "accuracy"])
@pytest.mark.parametrize("usual", [1, [1]])
def test_one_odd_prediction_costs_itself(loss: str, wrap: Any, usual: Any) -> None:
    for i, odd in enumerate(ODD):
        a, b = (estimator_losses(loss, Listed(2, usual, odd, wrap), rows, Y) for rows in (X, NEIGHBOUR))
        assert np.array_equal(np.delete(a, BAD), np.delete(b, BAD), equal_nan=True), i
        assert np.isfinite(a).all() == (usual == 1)


def test_with_two_labels_a_listed_row_is_a_pair_or_the_probability_of_the_second() -> None:
    model = Listed(2, [0.75, 0.25], 0.25, list)
    np.testing.assert_array_equal(
        estimator_losses("brier", model, NEIGHBOUR, Y), estimator_losses("brier", model, X, Y)
    )


@pytest.mark.parametrize("shape", [(N, 1), (N, 3), (N, 2, 1)])
def test_the_shape_of_an_array_of_numbers_is_public_and_still_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"one public row with shape .* needs \(1, 2\)"):
        estimator_losses("log_loss", Listed(2, 0, 0, lambda _: np.zeros(shape)), X, Y)


# --- answers and losses ------------------------------------------------------------------------------------------


ENTRIES = [None, "text", b"x", 1j, np.complex128(1j), 10**400, [1.0], [1, 2], {}, np.array([1.0]), np.array([1, 2])]


ENTRIES += [np.array(1j), np.ma.masked, Raises(), Raises(SystemExit), Raises(GeneratorExit)]


SEQUENCES = {"list": list, "tuple": tuple, "UserList": UserList}


@pytest.mark.parametrize("hold", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("entry", ENTRIES, ids=[str(i) for i in range(len(ENTRIES))])
def test_one_odd_entry_of_the_answers_or_the_losses_costs_itself(entry: Any, hold: Any) -> None:
    model, values = Ridge().fit(TRAIN, LABELS), Y.astype(float).tolist()
    odd = [*values[:BAD], entry, *values[BAD + 1 :]]
    classifier = LogisticRegression().fit(TRAIN, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in (
            loss_vector,
            lambda y: estimator_losses("mse", model, X, y),
            lambda y: estimator_losses("log_loss", classifier, X, y),
            lambda y: estimator_losses("accuracy", classifier, X, y),
            lambda y: zero_one_loss(y, Y),
            lambda y: losses_function(lambda _: model, "mse", (X, y), rows=N)(None),
        ):
            a, b = f(hold(values)), f(hold(odd))
            assert same_for_others(a, b)
            assert np.isfinite(a).all()


@pytest.mark.parametrize("usual", [np.array([0.1]), [0.1]], ids=["array", "list"])
def test_a_list_of_what_is_no_number_is_no_matrix(usual: Any) -> None:
    a, b = loss_vector([usual] * N), loss_vector([*[usual] * (N - 1), np.nan])
    np.testing.assert_array_equal(a, b)
    assert np.isnan(a).all()


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
