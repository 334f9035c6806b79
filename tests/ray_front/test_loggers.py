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
from dptune.privacy.held import HeldLosses
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


def logged(folder, front, half):
    folder.mkdir()
    options = dict(half)
    with every_logger() as lines:
        search = begin(FRONTS[front](open_privatizer(folder, n=ROWS, insecure_seed=5)))
        played(search, search.trainable(options.pop("function"), **options), most=8)
    return without_clocks(lines, folder)


def audit(folder, patch, front, halves, actors):
    """With canned answers, neighbours make the same lines; return how many."""
    patch.setattr(HeldLosses, "mean", lambda self, query: np.full(query.dimension, 0.25))
    transcripts = []
    for i, half in enumerate(halves):
        actors.clear()
        transcripts.append(logged(folder / str(i), front, half))
    for a, b in itertools.zip_longest(*transcripts):
        assert a == b, "a log line depends on private data"
    assert not any(str(SECRET) in line for line in transcripts[1])
    return len(transcripts[0])


FAST = ("array", "csv")  # the others are slow audits: SQL is logged, too
HELD = [pytest.param(h, id=name, marks=() if name in FAST else pytest.mark.slow) for name, h in CONTAINERS.items()]


@pytest.mark.parametrize("hold", HELD)
@pytest.mark.parametrize("difference", ["one NaN", "one text cell", "one text label", "one row that raises"])
def test_no_logger_tells_neighbours_apart_with_loss_and_data(fast_path, monkeypatch, local_actors, difference, hold):
    assert audit(fast_path, monkeypatch, "values", neighbours(difference, hold), local_actors) > 100


@pytest.mark.parametrize("front", ["gibo", "centred"])
def test_no_logger_of_the_other_searchers_tells_neighbours_apart(fast_path, monkeypatch, local_actors, front):
    halves = neighbours("one row that raises", np.array)
    assert audit(fast_path, monkeypatch, front, halves, local_actors) > 100


@pytest.mark.parametrize("entry", [np.nan, "n/a", None], ids=str)
@pytest.mark.parametrize("front", ["values", "centred"])
def test_no_logger_tells_neighbours_apart_when_losses_are_returned(fast_path, monkeypatch, local_actors, front, entry):
    assert audit(fast_path, monkeypatch, front, map(returned, (0.5, entry)), local_actors) > 100


def test_no_logger_tells_what_a_function_that_returns_losses_raised(fast_path, monkeypatch, local_actors):
    def sometimes(secret):
        def losses(config):
            if config["x"] > 0:
                raise ValueError(f"person 7 has {secret}")
            return np.full(ROWS, 0.5)

        return {"function": losses}

    assert audit(fast_path, monkeypatch, "values", map(sometimes, (1.5, SECRET)), local_actors) > 100


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO], ids=logging.getLevelName)
def test_a_line_about_private_data_is_found(fast_path, monkeypatch, local_actors, level):
    clean = HeldLosses.clean

    def leaking(self, values):
        logging.getLogger("ray.made.just.now").log(level, "%d losses are NaN", np.isnan(values).sum())
        return clean(self, values)

    monkeypatch.setattr(HeldLosses, "clean", leaking)
    with pytest.raises(AssertionError, match="depends on private data"):
        audit(fast_path, monkeypatch, "values", neighbours("one row that raises", np.array), local_actors)
