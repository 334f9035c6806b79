"""Rows of N people, a neighbour whose row BAD is NaN, and entries that raise when they are read."""

from typing import Any

import numpy as np
import pandas as pd

N, BAD = 40, 3
RNG = np.random.default_rng(8)
TRAIN, X = RNG.normal(3, 2, (150, 3)).round(2), RNG.normal(3, 2, (N, 3)).round(2)
LABELS, Y = (TRAIN.sum(axis=1) > 9).astype(int), (X.sum(axis=1) > 9).astype(int)
NEIGHBOUR = X.copy()
NEIGHBOUR[BAD, 1] = np.nan


class Panic(BaseException):
    """No Exception, as what Rust extensions raise."""


UNUSUAL = [RuntimeError, Panic, SystemExit, GeneratorExit]


def same_for_others(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape == (N,) and np.delete(a, BAD).tobytes() == np.delete(b, BAD).tobytes()


def with_entry(values: list[Any], entry: Any) -> list[Any]:
    """The list with another entry at BAD."""
    return [*values[:BAD], entry, *values[BAD + 1 :]]


def mixed(rows: np.ndarray) -> pd.DataFrame:
    """The rows as a frame of numbers, whole numbers, text and categories."""
    site = np.where(rows[:, 1] > 3, "north", "south")
    grade = pd.Categorical(np.where(rows[:, 2] > 3, "high", "low"), categories=["low", "high", "top"])
    return pd.DataFrame({"age": rows[:, 0], "visits": rows[:, 2].round().astype(int), "site": site, "grade": grade})


class Raises:
    """Refuses to become an array, a number, or to be looked at."""

    def __init__(self, error: type[BaseException] = RuntimeError) -> None:
        self.error = error

    def refuse(self, *args: Any, **kw: Any) -> Any:
        raise self.error("secret")

    __array__ = __float__ = __len__ = __getitem__ = __eq__ = __hash__ = refuse
    __array_interface__ = __array_struct__ = shape = dtype = property(refuse)


def as_objects(entries: list[Any]) -> np.ndarray:
    """A vector of objects, whatever they are."""
    array = np.empty(len(entries), dtype=object)
    for i, entry in enumerate(entries):
        array[i] = entry
    return array


def as_lists(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(zip(*(frame.iloc[:, j].tolist() for j in range(frame.shape[1])), strict=True))
