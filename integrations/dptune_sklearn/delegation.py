"""What an estimator around another one passes on to it, so that scikit-learn takes it for one of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

F = TypeVar("F", bound=Callable[..., Any])


def _if_it_has(method: F) -> F:
    """Hide a method that the estimator does not have."""

    def check(outer: Around) -> bool:
        getattr(getattr(outer, outer.fitted_as, outer.estimator), method.__name__)  # raises what it lacks
        return True

    decorated: F = available_if(check)(method)
    return decorated


class Around(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator with another one in it, ``estimator``, which it keeps when it is fitted under ``fitted_as``."""

    fitted_as: ClassVar[str]
    estimator: Any

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, self.fitted_as)
        return getattr(self, self.fitted_as)

    @property
    def classes_(self) -> Any:
        """Labels of the fitted estimator."""
        return self._fitted.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the estimator was fitted on."""
        return int(self._fitted.n_features_in_)

    @_if_it_has
    def predict(self, X: Any) -> Any:
        """Predict with the fitted estimator."""
        return self._fitted.predict(X)

    @_if_it_has
    def predict_proba(self, X: Any) -> Any:
        """Probabilities by the fitted estimator."""
        return self._fitted.predict_proba(X)

    @_if_it_has
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of probabilities by the fitted estimator."""
        return self._fitted.predict_log_proba(X)

    @_if_it_has
    def decision_function(self, X: Any) -> Any:
        """Margins by the fitted estimator."""
        return self._fitted.decision_function(X)

    @_if_it_has
    def transform(self, X: Any) -> Any:
        """Transform by the fitted estimator."""
        return self._fitted.transform(X)

    @_if_it_has
    def score(self, X: Any, y: Any = None) -> float:
        """The fitted estimator's own score, without noise: of rows that are not private."""
        return float(self._fitted.score(X, y))

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = deepcopy(own.classifier_tags), deepcopy(own.regressor_tags)
        tags.input_tags.sparse, tags.target_tags.required = own.input_tags.sparse, True
        return tags
