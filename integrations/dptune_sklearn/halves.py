"""The two halves of a fit: training rows, which are public, and private rows, which only their losses leave."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils import _safe_indexing, check_consistent_length, indexable

from dptune import Rows
from dptune._checks import share
from dptune.errors import InputError


@dataclass(frozen=True, repr=False)
class Training:
    """The public half: rows, answers, and what else ``fit`` of the estimator is given."""

    X: Any
    y: Any
    options: Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class Private:
    """The private half; ``groups`` (rows,) says whose a row is, None: everybody has one."""

    rows: Rows
    groups: npt.ArrayLike | None

    @property
    def people(self) -> dict[str, Any]:
        """Who they are, as a privatizer is told."""
        return {"n": len(self.rows.y)} if self.groups is None else {"groups": self.groups}


def given_halves(
    X: Any, y: Any, X_val: Any, y_val: Any, groups: Any, options: Mapping[str, Any]
) -> tuple[Training, Private]:
    """Return the halves of a user who has both; ``groups`` belong to the validation rows.

    Raises:
        InputError: one of the answers is missing, or lengths differ.
    """
    if y is None or y_val is None:
        raise InputError(f"fit requires y to be passed, but the target {'y' if y is None else 'y_val'} is None.")
    _same_length("X_val, y_val and groups= (of the validation rows)", X_val, y_val, groups)
    return Training(X, _column(y), options), Private(Rows(X_val, _column(y_val), like=X), _identifiers(groups))


def split_halves(
    X: Any, y: Any, groups: Any, options: Mapping[str, Any], *, held_out: float, seed: int
) -> tuple[Training, Private]:
    """Hold a share of the people out; whole groups, and by their places alone.

    Nothing is stratified: a split that looks at answers would let one person's answer move the others about.

    Args:
        groups: (n,) whose a row is; None: everybody has one row.
        held_out: share of the people that become private validation rows; the others train, and are not protected.

    Raises:
        InputError: y is missing, or lengths differ.
    """
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None.")
    _same_length("X, y and groups=", X, y, groups)
    X, y = indexable(X, _column(y))
    people = np.arange(len(y)) if groups is None else _identifiers(groups)
    split = GroupShuffleSplit(1, test_size=share("validation", held_out), random_state=seed)
    train, val = next(split.split(people, groups=people))
    mine = {name: _safe_indexing(each, train) if _has_length(each, len(y)) else each for name, each in options.items()}
    X_train, y_train, X_val, y_val = (_safe_indexing(each, rows) for rows in (train, val) for each in (X, y))
    private = Private(Rows(X_val, y_val, like=X_train), None if groups is None else people[val])
    return Training(X_train, y_train, mine), private


def _column(y: Any) -> Any:
    """Answers as a vector, where they are one column; a warning as scikit-learn's, by their shape."""
    if not (hasattr(y, "shape") and np.shape(y)[1:] == (1,)):
        return y
    warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=5)
    return np.ravel(y)


def _identifiers(groups: Any) -> Any:
    """Groups as an array; texts as texts, which a column of a frame holds as objects."""
    array = None if groups is None else np.asarray(groups)
    text = array is not None and array.dtype.kind == "O" and all(isinstance(group, str) for group in array)
    return array.astype(str) if array is not None and text else array


def _same_length(what: str, *arrays: Any) -> None:
    try:
        check_consistent_length(*arrays)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must have as many rows each. {error}") from None


def _has_length(each: Any, n: int) -> bool:
    return hasattr(each, "__len__") and not isinstance(each, str | Mapping) and len(each) == n
