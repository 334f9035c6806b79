"""The two halves of a fit, and the methods that a fitted search passes on; private rows only score models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dptune import Places, Rows
from dptune._checks import at_least, attempt, column_names, kind, length_of, not_a_vector, nothing_charged, share, shown
from dptune.choice.crossval import divided
from dptune.choice.places import refuse_reaching
from dptune.errors import InputError
from dptune.losses.columns import Names
from dptune.losses.rows import refuse_one_sparse, rows_named
from dptune.privacy.seal.reachable import way_to

LARGEST_SEED = 2**32 - 1  # NumPy takes no larger one
_NAMES = Names("X_val", "X")


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

    rows: Rows | Places
    groups: npt.ArrayLike | None

    @property
    def people(self) -> dict[str, Any]:
        """Return the people as arguments of a privatizer."""
        if isinstance(self.rows, Places):
            return {"places": self.rows}
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
    if isinstance(X, list) and X and isinstance(X[0], Mapping):
        raise InputError(
            "X is a list of dicts: give tables, X=pandas.DataFrame(X) and X_val=pandas.DataFrame(X_val). Nothing was "
            "charged."
        )
    shape = attempt(np.shape, y, failed=())
    if shape[1:] not in ((), (1,)):
        raise InputError(
            f"y has shape {shape}: allowed is one answer a row. Of one-hot columns give the labels, such as "
            "y.argmax(axis=1). Of several targets make one search each, fit(X, y[:, 0], ...), with a name= of its own. "
            "Nothing was charged."
        )
    rows, entries = map(length_of, (X, groups))
    if groups is not None and rows != entries:
        raise InputError(
            f"train_groups= must have an entry for each of the {rows} rows of X; got {kind(groups)}. The people of "
            "X_val are groups=. Nothing was charged."
        )
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InputError("Complex data not supported: give X's real and imaginary parts as columns of their own.")
    return TrainingRows(X, _column(y), options, groups)


def given_halves(
    X: Any, y: Any, X_val: Any, y_val: Any, groups: Any, train_groups: Any, options: Mapping[str, Any], data: Any
) -> tuple[TrainingRows, Private]:
    """Return the halves; refuse missing ones, different lengths, and a data frame in only one of them."""
    training = public_half(X, y, train_groups, options)
    if data is not None:
        if not isinstance(data, Places):
            raise InputError(
                f"data= must be dptune.Places; got {kind(data)}. Of one table give X_val= and y_val=. Nothing was "
                "charged."
            )
        if not X_val is y_val is groups is None:
            raise InputError(
                "the Places of data= have the private rows and know their people: give no X_val=, y_val= or groups=. "
                "Nothing was charged."
            )
        return training, Private(data, None)
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
    for name, table in {"X": X, "X_val": X_val}.items():
        if column_names(table) is not None and not hasattr(table, "iloc"):
            raise InputError(
                f"{name} is a data frame of {type(table).__module__.split('.')[0]}: give X and X_val as pandas data "
                f"frames, such as {name}.to_pandas(), or both as arrays. Nothing was charged."
            )
    with nothing_charged():
        refuse_one_sparse(X_val, X, _NAMES)
    public, private = _columns(X), _columns(X_val)
    if public is not None and private is not None and list(public) != list(private):
        raise InputError(
            f"X_val must have the columns of X, in their order: {_difference(public, private)}. Nothing was charged."
        )
    given = [each for each in (X_val, y_val, groups) if each is not None]
    rows = set(map(length_of, given))
    if len(rows) > 1 or None in rows:
        raise InputError(
            "X_val, y_val and groups= (of the validation rows) must have as many rows each; got "
            f"{' and '.join(map(kind, given))}. The people of the training rows are train_groups=. Nothing was charged."
        )
    y_val = _column(y_val)
    if mistake := not_a_vector("y_val", y_val):
        raise InputError(f"{mistake} Nothing was charged.")
    return training, Private(rows_named(X_val, y_val, X, _NAMES), groups)


def refuse_shared(training: TrainingRows, private: Private, **others: Any) -> None:
    """Refuse private rows that training, or another object, can reach; places in other processes do so themselves."""
    if isinstance(private.rows, Places):
        given = {f"{name}=": each for name, each in vars(training).items()}
        return refuse_reaching({**others, **given}, private.rows)
    of_training = {
        "X": training.X,
        "y": training.y,
        "train_groups": training.groups,
        **{f"an option of fit: {name}": each for name, each in training.options.items()},
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


def _passed_on(name: str, doc: str) -> Any:
    """Return a method of the fitted estimator for its wrapper, which lacks it if the estimator does."""

    def method(self: WrappedEstimator, X: Any) -> Any:
        return getattr(self._fitted, name)(X)

    method.__name__, method.__doc__ = name, doc
    return if_it_has(method)


def if_it_has(method: Callable[..., Any]) -> Any:
    """Return a method that a wrapper has if its estimator has it."""

    def check(outer: WrappedEstimator) -> bool:
        getattr(getattr(outer, outer.fitted_as, outer.estimator), method.__name__)  # raises if the method is missing
        return True

    return available_if(check)(method)


class WrappedEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A wrapper of ``estimator``, which it stores under ``fitted_as`` when fitted."""

    fitted_as: ClassVar[str]
    estimator: Any

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, self.fitted_as)
        return getattr(self, self.fitted_as)

    @property
    def classes_(self) -> Any:
        """Return labels of the fitted estimator."""
        return self._fitted.classes_

    @property
    def n_features_in_(self) -> int:
        """Return the number of columns that the estimator was fitted on."""
        return int(self._fitted.n_features_in_)

    predict = _passed_on("predict", "Predict with the fitted estimator.")
    predict_proba = _passed_on("predict_proba", "Probabilities by the fitted estimator.")
    predict_log_proba = _passed_on("predict_log_proba", "Logarithms of probabilities by the fitted estimator.")
    decision_function = _passed_on("decision_function", "Margins by the fitted estimator.")
    transform = _passed_on("transform", "Transform by the fitted estimator.")

    @if_it_has
    def score(self, X: Any, y: Any = None) -> float:
        """Return the fitted estimator's own score, without noise, for rows that are not private."""
        return float(self._fitted.score(X, y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = deepcopy(own.classifier_tags), deepcopy(own.regressor_tags)
        tags.input_tags.sparse = own.input_tags.sparse
        tags.target_tags.required = True
        return tags


class StopsEarly(WrappedEstimator):
    """Fits XGBoost's or LightGBM's estimators with an ``eval_set`` that is held out of the rows ``fit`` is given.

    Within :class:`dptune_sklearn.PrivateSearch` these are the public training rows, so the number of rounds says
    nothing of private people.

    Args:
        estimator: whose ``fit`` takes ``eval_set``, with its own rule to stop, such as
            ``XGBClassifier(early_stopping_rounds=10)`` or ``LGBMClassifier(early_stopping_round=10)``. Its parameters
            are searched as ``estimator__name``.
        fraction: of the training rows, held out to stop on.
        random_state: of the split.

    Example::

        StopsEarly(XGBClassifier(n_estimators=500, early_stopping_rounds=10)).fit(X_train, y_train)
    """

    fitted_as = "estimator_"

    def __init__(self, estimator: Any, *, fraction: float = 0.2, random_state: int = 0) -> None:
        self.estimator = estimator
        self.fraction = fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **options: Any) -> Self:
        """Hold rows out, fit on the others, and stop on those; an option with an entry for each row is divided, too."""
        held = share("fraction", self.fraction)
        seed = at_least("random_state", self.random_state, 0, LARGEST_SEED)
        split = train_test_split(X, y, np.arange(len(y)), test_size=held, random_state=seed)
        X_fit, X_stop, y_fit, y_stop, rows, _ = split
        options = {name: divided(each, rows, len(y)) for name, each in options.items()}
        estimator = clone(self.estimator)
        newer = "eval_X" in signature(estimator.fit).parameters  # LightGBM from 4.7 on, which deprecates eval_set
        stop = {"eval_X": X_stop, "eval_y": y_stop} if newer else {"eval_set": [(X_stop, y_stop)]}
        self.estimator_ = estimator.fit(X_fit, y_fit, **stop, **options)
        return self
