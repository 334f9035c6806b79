"""Wrappers of estimators: methods that they pass on, and one that stops early on rows that training may see."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from inspect import signature
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dptune._checks import share


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
        """Hold rows out, fit on the others, and stop on those."""
        held = share("fraction", self.fraction)
        X_fit, X_stop, y_fit, y_stop = train_test_split(X, y, test_size=held, random_state=self.random_state)
        estimator = clone(self.estimator)
        newer = "eval_X" in signature(estimator.fit).parameters  # LightGBM from 4.7 on, which deprecates eval_set
        stop = {"eval_X": X_stop, "eval_y": y_stop} if newer else {"eval_set": [(X_stop, y_stop)]}
        self.estimator_ = estimator.fit(X_fit, y_fit, **stop, **options)
        return self
