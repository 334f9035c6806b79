"""Private rows and answers are read once, whatever the number of finalists and releases, and by NumPy where it can."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dptune
from dptune.losses.functions import label_codes
from dptune.privacy.seal.parsing import numbers_in
from noises import NoNoise

N, M = 60, 6
RNG = np.random.default_rng(0)
X_TRAIN = RNG.normal(size=(80, 2))
Y_TRAIN = (X_TRAIN[:, 0] > 0).astype(int)


class Cell:
    """A number that counts how often it is read."""

    reads = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        Cell.reads += 1
        return float(self.value)


@pytest.mark.parametrize("one_object", [True, False])
@pytest.mark.parametrize("loss", ["log_loss", "brier", "hinge", "zero_one"])
def test_finalists_estimate_and_report_share_one_reading(ledger, loss, one_object):
    X = np.array([[Cell(v) for v in row] for row in RNG.normal(size=(N, 2))], dtype=object)
    y = np.array([Cell(v) for v in RNG.integers(0, 2, N)], dtype=object)
    rows = dptune.Rows(X, y, like=X_TRAIN) if one_object else (X, y)
    models = [LogisticRegression(C=10.0**k).fit(X_TRAIN, Y_TRAIN) for k in range(M)]
    public = RNG.random((M, 80))
    Cell.reads = 0
    dptune.select(
        models, ledger, data=rows, loss=loss, public_losses=public, default_place=0, mu=2.0, even_if_hopeless=True
    )
    dptune.report(models[0], ledger, data=rows, public=(X_TRAIN, Y_TRAIN))
    assert Cell.reads == (3 if one_object else 6) * N  # of two calls each reads a pair once


class Turned:
    """A model whose labels are in the other order."""

    def __init__(self, model):
        self.model, self.classes_, self.n_features_in_ = model, model.classes_[::-1], 2

    def predict_proba(self, X):
        return self.model.predict_proba(X)[:, ::-1]


def test_each_model_is_asked_in_the_order_of_its_own_labels(ledger):
    """The best one, with turned labels, is chosen among models in the usual order."""
    good = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    others = [LogisticRegression(C=C).fit(X_TRAIN[:, ::-1], Y_TRAIN) for C in (1e-3, 1.0)]
    X = RNG.normal(size=(N, 2))
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0, 4), noise=NoNoise())
    found = dptune.select([*others, Turned(good)], privatizer, data=(X, (X[:, 0] > 0).astype(int)), loss="log_loss")
    assert found.index == 2


HELD = [0.0, 1.0, 2.0, 0.1, -3.0, 7.0, 2047.0, 2049.0, 65504.0]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g", "i1", "i8", "u8", "b1"])
@pytest.mark.parametrize("labels", [[0, 1], [2.0, 0.1, 1.0], ["a", "1", "7"], [True, False], [np.nan, 3.0, -3.0]])
def test_codes_of_an_array_are_those_of_its_entries(kind, labels):
    """One odd answer makes objects of all others: whatever the array's type, each keeps its code."""
    with np.errstate(all="ignore"):
        array = np.array([*HELD, *([np.nan, np.inf] if kind in ("f2", "f4", "f8", "g") else [])]).astype(kind)
    mixed = np.empty(len(array) + 1, dtype=object)
    mixed[:-1], mixed[-1] = list(array), "odd"
    assert label_codes(array, labels).tolist() == label_codes(mixed, labels).tolist()[:-1]


@pytest.mark.parametrize("kind", ["f2", "f4"])
def test_low_precision_is_read_as_its_shortest_decimals(kind):
    values = RNG.normal(size=4000).astype(kind)
    wide = (10.0 ** RNG.uniform(-4, 4.5, 4000)).astype(kind)
    whole = np.arange(-3000, 3000).astype(kind)
    odd_ones = np.array([np.nan, np.inf, -np.inf, 60000.0 if kind == "f2" else 123456792.0]).astype(kind)
    array = np.concatenate([values, wide, whole, odd_ones])
    read, odd = numbers_in(np.dtype("f8"), array)
    assert np.array_equal(read, [float(str(x)) + 0.0 for x in array], equal_nan=True)
    assert not odd.any()
