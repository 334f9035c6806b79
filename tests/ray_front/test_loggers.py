"""No logger of the driver or of a trial, at any level, tells neighbours apart on Ray: trials are run by hand."""

from __future__ import annotations

import io
import itertools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from every_logger import every_logger, without_clocks

from by_hand import begin, local, open_private, played
from dptune import LossPrivatizer, Rows
from dptune.privacy.noise import SeededNoise
from dptune.privacy.stored_losses import StoredLosses
from ray_harness import open_centred, open_privatizer, open_search

pytestmark = local
ROWS, ODD, SECRET = 12, 5, 4711.25
CELLS = np.linspace(0.0, 1.0, 2 * ROWS).reshape(ROWS, 2)
FRONTS: dict[str, Callable[[LossPrivatizer], Any]] = {
    "centred": open_centred,
    "gibo": open_search,
    "values": lambda privatizer: open_private(privatizer, n_trials=4),
}


class Model:
    """Predicts its constant; fails on a row beyond 1000."""

    n_features_in_ = 2

    def __init__(self, constant):
        self.constant = constant
        self.classes_ = np.array([0, 1])

    def predict(self, rows):
        if (np.asarray(rows, dtype=float) > 1000).any():
            raise ValueError(f"{np.asarray(rows).max()} is too large")
        return np.full(len(rows), int(self.constant > 0))


def csv(rows):
    return pd.read_csv(io.StringIO(pd.DataFrame(rows, columns=["a", "b"]).to_csv(index=False)))


CONTAINERS: dict[str, Callable[[list[list[Any]]], Any]] = {
    "array": np.array,
    "objects": lambda rows: np.array(rows, dtype=object),
    "list": list,
    "frame": lambda rows: pd.DataFrame(rows, columns=["a", "b"]),
    "csv": csv,
}


def with_cell(cell):
    rows: list[list[Any]] = CELLS.tolist()
    rows[ODD][1] = cell
    return rows


def asked(X, y):
    """The options and the function of a search that is given the private rows."""
    like = pd.DataFrame(CELLS, columns=["a", "b"]) if hasattr(X, "columns") else None
    return {"function": lambda config: Model(config["x"]), "loss": "zero_one_loss", "data": Rows(X, y, like)}


LABELS: list[Any] = [0, 1] * (ROWS // 2)


def neighbours(difference, hold):
    """Two searches whose people differ by one cell, one label, or one row on which the model raises."""
    if difference == "one text label":
        return (asked(hold(CELLS.tolist()), [*LABELS[:ODD], label, *LABELS[ODD + 1 :]]) for label in (1, str(SECRET)))
    cell = {"one NaN": np.nan, "one text cell": "n/a", "one row that raises": SECRET}[difference]
    return (asked(hold(with_cell(each)), LABELS) for each in (0.5, cell))


def returned(entry):
    """A search whose function returns the losses itself, one of them this, or raises it."""

    def losses(config):
        if isinstance(entry, Exception):
            raise entry
        return [*[float(config["x"] ** 2)] * ODD, entry, *[0.5] * (ROWS - ODD - 1)]

    return {"function": losses}


def sometimes(secret):
    """A search whose function raises half the time, and says what."""

    def losses(config):
        if config["x"] > 0:
            raise ValueError(f"person 7 has {secret}")
        return np.full(ROWS, 0.5)

    return {"function": losses}


@pytest.fixture
def audit(fast_path, monkeypatch, local_actors):
    """With canned answers, neighbours make the same lines, and not few."""
    monkeypatch.setattr(StoredLosses, "mean", lambda self, query: np.full(query.dimension, 0.25))

    def audited(front, halves):
        transcripts = []
        for half in map(dict, halves):
            local_actors.clear()
            folder = fast_path / str(len(transcripts))
            folder.mkdir()
            with every_logger() as lines:
                search = begin(FRONTS[front](open_privatizer(folder, n=ROWS, noise=SeededNoise(5))))
                played(search, search.trainable(half.pop("function"), **half), most=8)
            transcripts.append(without_clocks(lines, folder))
        for a, b in itertools.zip_longest(*transcripts):
            assert a == b, "a log line depends on private data"
        assert not any(str(SECRET) in line for line in transcripts[1])
        assert len(transcripts[0]) > 100

    return audited


DIFFERENCES = {"one NaN": "array", "one text cell": "csv", "one text label": "array", "one row that raises": "csv"}
HELD = [  # each difference in one container; in the others they are slow audits: SQL is logged, too
    pytest.param(each, hold, id=f"{each}-{name}", marks=() if name == fast else pytest.mark.slow)
    for each, fast in DIFFERENCES.items()
    for name, hold in CONTAINERS.items()
]


@pytest.mark.parametrize(("difference", "hold"), HELD)
def test_no_logger_tells_neighbours_apart_with_loss_and_data(audit, difference, hold):
    audit("values", neighbours(difference, hold))


@pytest.mark.parametrize("front", ["gibo", "centred"])
def test_no_logger_of_the_other_searchers_tells_neighbours_apart(audit, front):
    audit(front, neighbours("one row that raises", np.array))


@pytest.mark.parametrize(
    ("front", "entry"),
    [
        *(("values", entry) for entry in (np.nan, "n/a")),
        *(pytest.param("centred", entry, marks=pytest.mark.slow) for entry in (np.nan, "n/a")),
        *(pytest.param("values", None, marks=pytest.mark.slow), ("centred", None)),
    ],
)
def test_no_logger_tells_neighbours_apart_when_losses_are_returned(audit, front, entry):
    audit(front, map(returned, (0.5, entry)))


def test_no_logger_tells_what_a_function_that_returns_losses_raised(audit):
    audit("values", map(sometimes, (1.5, SECRET)))


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO], ids=logging.getLevelName)
def test_a_line_about_private_data_is_found(audit, monkeypatch, level):
    clean = StoredLosses.clean

    def leaking(self, values):
        logging.getLogger("ray.made.just.now").log(level, "%d losses are NaN", np.isnan(values).sum())
        return clean(self, values)

    monkeypatch.setattr(StoredLosses, "clean", leaking)
    with pytest.raises(AssertionError, match="depends on private data"):
        audit("values", neighbours("one row that raises", np.array))
