"""Rows of containers that are neither lists nor NumPy's, such as tensors and datasets of HDF5, by their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dptune._arrays import Indices
from dptune._checks import attempt, column_names, kind
from dptune.errors import InputError


def row_shape(X: Any, like: Any, name: str) -> tuple[int, ...]:
    """Return the public shape of one row of a container that is neither a list nor NumPy's; ``name`` is its own."""
    if column_names(X) is not None:
        raise InputError(f"{name} is a {type(X).__name__}; of a data frame that is not pandas' give X.to_pandas().")
    if not hasattr(X, "shape"):
        raise InputError(
            f"{name} must be an array, a list of rows, a sparse matrix or a data frame; got {type(X).__name__}"
        )
    shape = tuple(X.shape[1:])
    public = attempt(lambda: tuple(like.shape[1:]), failed=shape)
    if public != shape:
        raise of_shape(tuple(X.shape), public, name)
    return shape


def of_shape(given: tuple[int, ...], public: tuple[int, ...] | None, name: str) -> InputError:
    """Return the refusal of private rows of a shape (n, ...), by the public shape of one row."""
    wanted = ", ".join(map(str, public or ("d",)))
    return InputError(f"{name} has shape {given}; allowed: (n, {wanted}), like the public rows.")


def by_positions(X: Any, rows: Indices) -> Any:
    """Return rows of a container; X itself, such as a dataset of HDF5, is asked for increasing positions only."""
    increasing, places = np.unique(rows, return_inverse=True)
    taken = (X.iloc if hasattr(X, "iloc") else X)[increasing]
    return (taken.iloc if hasattr(taken, "iloc") else taken)[places]


def takes_positions(X: Any) -> bool:
    """Return whether a container gives rows by positions, the same one twice; unreadable rows do not decide."""

    def twice(i: int) -> bool:
        by_positions(X, np.array([i, i]))
        return True

    return any(attempt(twice, i, failed=False) for i in range(X.shape[0]))


def one_by_one(X: Any, name: str) -> list[Any]:
    """Return the rows of a container that gives one row at a time; None for a row that cannot be read."""
    rows = [attempt(X.__getitem__, i, failed=None) for i in range(X.shape[0])]
    if all(row is None for row in rows):
        raise InputError(
            f"{name} is {kind(X)}, whose rows cannot be read by position, X[i]. Give an array, such as np.asarray(X)."
        )
    return rows
