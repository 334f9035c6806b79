"""The two halves of a fit: public rows train models, and private rows only score them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning

from dptune import Rows
from dptune._checks import attempt, column_names, kind, shown
from dptune.errors import InputError
from dptune.privacy.seal.reachable import way_to


@dataclass(frozen=True, repr=False)
class TrainingRows:
    """The public half: rows, answers, other arguments of the estimator's ``fit``, and groups of rows for folds."""

    X: Any
    y: Any
    options: Mapping[str, Any]
    groups: npt.ArrayLike | None = None


@dataclass(frozen=True, repr=False)
class Private:
    """The private half; ``groups`` (rows,) names each row's person, None if every row is one person."""

    rows: Rows
    groups: npt.ArrayLike | None

    @property
    def people(self) -> dict[str, Any]:
        """Return the people as arguments of a privatizer."""
        return {"n": len(self.rows.y)} if self.groups is None else {"groups": self.groups}


def public_half(X: Any, y: Any, groups: Any, options: Mapping[str, Any]) -> TrainingRows:
    """Return the public half; refuse rows without answers, and complex ones."""
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None.")
    if missing := _missing(y):
        raise InputError(
            f"y has {len(missing)} missing answers, the first in row {missing[0]}. y is public and trains the models: "
            "omit these rows from X and y. Nothing was charged."
        )
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InputError("Complex data not supported: give X's real and imaginary parts as columns of their own.")
    return TrainingRows(X, _column(y), options, groups)


def given_halves(
    X: Any, y: Any, X_val: Any, y_val: Any, groups: Any, train_groups: Any, options: Mapping[str, Any]
) -> tuple[TrainingRows, Private]:
    """Return the halves; refuse missing ones, different lengths, and a data frame in only one of them."""
    training = public_half(X, y, train_groups, options)
    for name, each in {"X_val": X_val, "y_val": y_val}.items():
        if each is None:
            raise InputError(
                f"{name} is None: give fit X_val= and y_val=, private rows that train nothing. X and y are the public "
                "rows that train, and are not protected."
            )
    if (column_names(X) is None) != (column_names(X_val) is None):
        raise InputError(
            f"X is a {type(X).__name__} and X_val a {type(X_val).__name__}: give both as data frames, or both as "
            "arrays. The last step of a Pipeline gets X transformed and X_val as it was. Put the steps before it into "
            "the estimator that is searched: PrivateSearch(GridSearchCV(make_pipeline(scaler, model), ...), ...)."
        )
    public, private = _columns(X), _columns(X_val)
    if public is not None and private is not None and list(public) != list(private):
        raise InputError(
            f"X_val must have the columns of X, in their order: {_difference(public, private)}. Nothing was charged."
        )
    given = [each for each in (X_val, y_val, groups) if each is not None]
    rows = {attempt(_length, each, failed=None) for each in given}
    if len(rows) > 1 or None in rows:
        raise InputError(
            "X_val, y_val and groups= (of the validation rows) must have as many rows each; got "
            f"{' and '.join(map(kind, given))}. Nothing was charged."
        )
    return training, Private(Rows(X_val, _column(y_val), like=X), _identifiers(groups))


def _length(rows: Any) -> int:
    return len(rows) if getattr(rows, "shape", None) is None else int(rows.shape[0])  # SciPy's matrices have no length


def refuse_shared(training: TrainingRows, private: Private, **others: Any) -> None:
    """Refuse private rows that training, or another object, can reach."""
    of_training = {
        "X": training.X,
        "y": training.y,
        "train_groups": training.groups,
        "an option of fit": training.options,
    }
    way = way_to(partial(clone, **others, **of_training), private.rows.X, private.rows.y)
    if way is not None:
        raise InputError(
            f"X_val or y_val shares memory with {way}, which is public: training or early stopping would show private "
            "rows without noise. Give other rows there. If both are parts of one table, give copies: "
            "X_train = table[:n].copy(). Nothing was charged."
        )


def _columns(X: Any) -> Sequence[Any] | None:
    """Return the names of a table's columns, or their positions."""
    names = column_names(X)
    shape = attempt(lambda: tuple(X.shape), failed=())
    return names if names is not None or len(shape) != 2 else range(shape[1])


def _difference(public: Sequence[Any], private: Sequence[Any]) -> str:
    """Return in words how the columns of the two tables differ, with at most ten names."""
    if isinstance(public, range):
        return f"X has {len(public)}, X_val has {len(private)}"
    only = {"X": [name for name in public if name not in private], "X_val": [n for n in private if n not in public]}
    named = [
        f"only {table} has {', '.join(map(shown, names[:10]))}" + (f" and {len(names) - 10} more" if names[10:] else "")
        for table, names in only.items()
        if names
    ]
    return "; ".join(named) or "the order differs: give X_val[X.columns]"


def _missing(y: Any) -> list[int]:
    """Return the rows of public answers that are None, NaN, NaT or pandas.NA."""
    answers = np.ravel(np.asarray(y, dtype=object))
    return [i for i, each in enumerate(answers) if each is None or attempt(_is_odd, each, failed=True)]


def _is_odd(answer: Any) -> bool:
    return bool(np.any(answer != answer))  # NaN and NaT differ from themselves; pandas.NA raises


def _column(y: Any) -> Any:
    """Return one column of answers as a vector, with scikit-learn's warning about the shape."""
    if not (hasattr(y, "shape") and np.shape(y)[1:] == (1,)):
        return y
    warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=5)
    return np.ravel(y)


def _identifiers(groups: Any) -> Any:
    """Return groups as an array; texts of a frame's column, which are objects there, as texts."""
    array = None if groups is None else attempt(np.asarray, groups, failed=None)
    if array is None:
        return groups  # refused later if it is not readable
    text = array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(group, str) for group in array)
    return array.astype(str) if text else array
