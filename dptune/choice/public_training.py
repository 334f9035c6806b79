"""A user's training on public rows: cross-validated losses of a configuration, and its model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import users_function
from dptune.choice.crossval import Answers, cross_validated_answers, indexable, losses_of, public_folds
from dptune.choice.proposals import ChoiceOptions, Parameters
from dptune.errors import InputError
from dptune.losses.models import as_model
from dptune.losses.named import as_loss


class PublicTraining:
    """A user's ``train(configuration, X, y)``, called on the public rows, also in other processes.

    Args:
        train: the function, or an estimator of scikit-learn's kind whose parameters were searched.
        parameters: configuration -> its parameters, for an estimator.
    """

    def __init__(
        self, train: Any, options: ChoiceOptions, *, parameters: Callable[[Any], Parameters] = lambda at: at
    ) -> None:
        known = is_estimator(train) and not isinstance(train, type)
        self._train = functools.partial(_trained_at, train, parameters) if known else train
        users_function("train", self._train, " (configuration, X, y) -> fitted model, or an estimator such as SVC()")
        public = options.public
        if not isinstance(public, tuple | list) or len(public) != 2:
            raise InputError("train needs public=(X, y), the public rows. Nothing was charged.")
        X, y = indexable(*public)
        self.public = (X, y)
        self._loss, self._averages = as_loss(options.loss), options.averages
        has_losses = options.public_losses is not None
        folds = None if has_losses else public_folds(*self.public, cv=options.cv, loss=self._loss)
        self._folds = folds

    def losses(self, at: Any) -> npt.NDArray[np.float64] | Answers:
        """Return the losses of the public rows (N,) at a configuration, without the row's fold; see ``Trainer``."""
        fit, folds = functools.partial(self._trained, at), self._folds or ()
        answers = cross_validated_answers(fit, *self.public, folds, self._loss, {})
        return answers if self._averages else losses_of(answers, self._loss)

    def model(self, at: Any) -> Any:
        """Return the model at a configuration, trained on all public rows."""
        return self._trained(at, *self.public)

    def _trained(self, at: Any, X: Any, y: Any) -> Any:
        return as_model(self._train(at, X, y), self._loss, X, y)


def _trained_at(estimator: Any, parameters: Callable[[Any], Parameters], at: Any, X: Any, y: Any) -> Any:
    from sklearn.base import clone

    return clone(estimator).set_params(**parameters(at)).fit(X, y)


def is_estimator(train: object) -> bool:
    """Return whether it is an estimator of scikit-learn's kind, whose parameters are searched."""
    return all(hasattr(train, method) for method in ("fit", "get_params", "set_params"))
