"""Early stopping on rows that training may see: carved from the training rows, never from the private ones."""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

from sklearn.base import clone
from sklearn.model_selection import train_test_split

from dptune._checks import share
from dptune_sklearn.delegation import Around


class StopsEarly(Around):
    """Fits XGBoost's or LightGBM's estimators with an ``eval_set`` that is held out of the rows ``fit`` is given.

    Within :class:`dptune_sklearn.PrivateSearch` these are the public training rows, so the number of rounds says
    nothing of private people.

    Args:
        estimator: whose ``fit`` takes ``eval_set``, with its own rule to stop, as in
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
        newer = "eval_X" in signature(estimator.fit).parameters  # LightGBM from 4.7 on, which warns of eval_set
        stop = {"eval_X": X_stop, "eval_y": y_stop} if newer else {"eval_set": [(X_stop, y_stop)]}
        self.estimator_ = estimator.fit(X_fit, y_fit, **stop, **options)
        return self
