"""The two halves of a fit: training rows, which are public, and private rows, which only their losses leave."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_consistent_length

from dptune import Rows
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
    """Return the halves; ``groups`` belong to the validation rows.

    Raises:
        InputError: rows or answers are missing, lengths differ, or one half is a data frame and the other is not.
    """
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None.")
    for name, each in {"X_val": X_val, "y_val": y_val}.items():
        if each is None:
            raise InputError(
                f"{name} is None: give fit X_val= and y_val=, private rows that train nothing. X and y are the public "
                "rows that train, and are not protected."
            )
    if hasattr(X, "columns") != hasattr(X_val, "columns"):
        raise InputError(
            f"X is a {type(X).__name__} and X_val a {type(X_val).__name__}: give both as data frames, or both as "
            "arrays. The last step of a Pipeline gets X transformed and X_val as it was: put the steps before it into "
            "the estimator that is searched, PrivateSearch(make_pipeline(scaler, model), ...)."
        )
    _same_length("X_val, y_val and groups= (of the validation rows)", X_val, y_val, groups)
    return Training(X, _column(y), options), Private(Rows(X_val, _column(y_val), like=X), _identifiers(groups))


def _column(y: Any) -> Any:
    """Answers as a vector, where they are one column; a warning as scikit-learn's, by their shape."""
    if not (hasattr(y, "shape") and np.shape(y)[1:] == (1,)):
        return y
    warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=4)
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
