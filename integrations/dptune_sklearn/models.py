"""The two halves of a fit: training rows are public and train models; private rows are asked for losses only.

Models are trained in parallel, and what goes wrong there is public, and is shown.
"""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib.parallel import get_active_backend
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from dptune import Rows
from dptune._checks import attempt, column_names, kind, shown
from dptune.errors import InputError
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import call_guarded, losses_function
from dptune.privacy.seal.private import PerExampleLosses
from dptune.privacy.seal.reachable import way_to
from dptune_sklearn.digest import of_parameters


@dataclass(frozen=True, repr=False)
class TrainingRows:
    """The public half: rows, answers, what else ``fit`` of the estimator is given, and whose a row is, for folds."""

    X: Any
    y: Any
    options: Mapping[str, Any]
    groups: npt.ArrayLike | None = None


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
    X: Any, y: Any, X_val: Any, y_val: Any, groups: Any, train_groups: Any, options: Mapping[str, Any]
) -> tuple[TrainingRows, Private]:
    """Return the halves; refuse missing ones, different lengths, and a data frame beside what is none."""
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None.")
    if missing := _missing(y):
        raise InputError(
            f"y has {len(missing)} missing answers, the first in row {missing[0]}. y is public and trains the models: "
            "omit these rows from X and y. Nothing was charged."
        )
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InputError("Complex data not supported: give X's real and imaginary parts as columns of their own.")
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
            "the estimator that is searched: PrivateSearch(make_pipeline(scaler, model), ...)."
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
    return TrainingRows(X, _column(y), options, train_groups), Private(
        Rows(X_val, _column(y_val), like=X), _identifiers(groups)
    )


def _length(rows: Any) -> int:
    return len(rows) if getattr(rows, "shape", None) is None else int(rows.shape[0])  # no matrix of SciPy has a length


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
    """Return the names of a table's columns, or their places."""
    names = column_names(X)
    shape = attempt(lambda: tuple(X.shape), failed=())
    return names if names is not None or len(shape) != 2 else range(shape[1])


def _difference(public: Sequence[Any], private: Sequence[Any]) -> str:
    """Return how the columns of the two tables differ, in words; of many names the first ten."""
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
    """Answers as a vector, where they are one column; a warning as scikit-learn's, by their shape."""
    if not (hasattr(y, "shape") and np.shape(y)[1:] == (1,)):
        return y
    warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=5)
    return np.ravel(y)


def _identifiers(groups: Any) -> Any:
    """Groups as an array; texts as texts, which a column of a frame holds as objects."""
    array = None if groups is None else attempt(np.asarray, groups, failed=None)
    if array is None:
        return groups  # which is refused if it can be read no other way
    text = array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(group, str) for group in array)
    return array.astype(str) if text else array


@dataclass(frozen=True)
class Failed:
    """A training that raised: its traceback, as text."""

    traceback: str


class Models:
    """Trains in any number of processes; asks for private losses in this one only."""

    def __init__(
        self,
        estimator: Any,
        training: TrainingRows,
        private: Private,
        loss: str | NamedLoss,
        n_jobs: int | None,
        *,
        search: Any = None,
    ) -> None:
        self.estimator, self.training = estimator, training
        self._train = partial(train, estimator, training)
        refuse_shared(training, private, **{"the estimator": estimator, "the search": search})
        self._losses = losses_function(lambda model: model, loss, private.rows, rows=len(private.rows.y))
        self._kept: dict[str, Any] = {}  # models by their parameters' digest; they are never asked themselves
        self._recurring: set[str] = set()
        self._all_recur = False
        as_they_come = getattr(get_active_backend()[0], "supports_return_generator", False)  # not multiprocessing, Ray
        self._parallel = Parallel(n_jobs=n_jobs, return_as="generator" if as_they_come else "list")

    def trained(self, points: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
        """Return the models of several sets of parameters as they come, in order; :class:`Failed` with a warning."""
        asked = [(of_parameters(parameters), parameters) for parameters in points]
        fresh = {key: parameters for key, parameters in asked if key not in self._kept}
        training = zip(fresh, self._parallel(delayed(self._train)(each) for each in fresh.values()), strict=True)
        here: dict[str, Any] = {}
        left = Counter(key for key, _ in asked)
        for key, _ in asked:
            while key not in self._kept and key not in here:
                come, model = next(training)
                (self._kept if self._keeps(come) else here)[come] = model
            trained = self._kept[key] if key in self._kept else here[key]
            left[key] -= 1
            if left[key] == 0:
                here.pop(key, None)
            if isinstance(trained, Failed):
                warnings.warn(f"A candidate could not be trained:\n{trained.traceback}", FitFailedWarning, stacklevel=5)
            yield trained
        next(training, None)  # so that joblib's generator ends, and is not closed by the garbage collector

    def fitted(self, parameters: Mapping[str, Any]) -> Any:
        """Return one model; raises what :func:`usable` raises."""
        key = of_parameters(parameters)
        model = self._kept[key] if key in self._kept else self._train(parameters)
        if self._keeps(key):
            self._kept[key] = model
        return usable(model)

    def keep(self, *recurring: Mapping[str, Any], all_of_them: bool = False) -> None:
        """Train these sets of parameters once, or all: their models are held until the search ends."""
        self._recurring |= set(map(of_parameters, recurring))
        self._all_recur = self._all_recur or all_of_them

    def _keeps(self, key: str) -> bool:
        return self._all_recur or key in self._recurring

    def losses(self, model: Any) -> PerExampleLosses | None:
        """Return the private losses of a model; None if it failed, of which nothing may be seen."""
        return None if isinstance(model, Failed) else call_guarded(self._losses, model, PerExampleLosses).or_raise()


def usable(model: Any, *, but: str = "") -> Any:
    """Return a model, or raise an InputError that says what its training raised; ``but``: what was charged before."""
    if isinstance(model, Failed):
        raise InputError(f"training failed. Nothing was charged{but}. What it raised:\n{model.traceback}")
    return model


def train(estimator: Any, training: TrainingRows, parameters: Mapping[str, Any]) -> Any:
    """Return a clone of the estimator, fitted with these parameters, or how it failed."""
    try:
        model = clone(estimator).set_params(**clone(dict(parameters), safe=False))
        return model.fit(training.X, training.y, **training.options)
    except Exception:  # noqa: BLE001 - whatever the user's estimator raises is public, and shown
        return Failed(traceback.format_exc())
