"""Rows of N people, a neighbour whose row BAD holds a NaN, and entries that refuse to be looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

N, BAD = 12, 3
RNG = np.random.default_rng(3)
TRAIN, X = RNG.normal(3, 2, (100, 3)), RNG.normal(3, 2, (N, 3))
LABELS, Y = (TRAIN[:, 0] > 3).astype(int), (X[:, 0] > 3).astype(int)
NEIGHBOUR = X.copy()


def same_for_others(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape == (N,) and np.array_equal(np.delete(a, BAD), np.delete(b, BAD))


class Raises:
    """Refuses to become an array, a number, or to be looked at."""

    def __init__(self, error: type[BaseException] = RuntimeError) -> None:
        self.error = error

    def refuse(self, *args: Any, **kw: Any) -> Any:
        raise self.error("secret")

    __array__ = __float__ = __len__ = __getitem__ = __eq__ = __hash__ = refuse
    __array_interface__ = __array_struct__ = shape = dtype = property(refuse)


def as_lists(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(zip(*(frame.iloc[:, j].tolist() for j in range(frame.shape[1])), strict=True))
