"""A user's models of public rows: trained and cross-validated, or loaded and asked about rows that were held out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import users_function
from dptune.choice.configurations import Parameters
from dptune.choice.crossval import (
    Answers,
    cross_validated_answers,
    indexable,
    losses_of,
    public_folds,
    refuse_other_answers,
)
from dptune.choice.proposals import ChoiceOptions
from dptune.errors import InputError
from dptune.losses.models import as_model
from dptune.losses.named import NamedLoss, as_loss


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
        self.public = _pair(options.public, "train needs public=(X, y), the public rows.")
        self._loss, self._averages = as_loss(options.loss), options.averages
        given = options.public_losses is not None
        self._folds = () if given else public_folds(*self.public, cv=options.cv, loss=self._loss)

    def losses(self, at: Any) -> npt.NDArray[np.float64] | Answers:
        """Return the losses of the public rows (N,) at a configuration, without the row's fold; see ``Trainer``."""
        fit = functools.partial(self._trained, at)
        answers = cross_validated_answers(fit, *self.public, self._folds, self._loss, {})
        return answers if self._averages else losses_of(answers, self._loss)

    @property
    def evidence(self) -> object:
        """Return what all losses depend on."""
        return self._train, self.public, self._folds, self._averages

    def model(self, at: Any) -> Any:
        """Return the model at a configuration, trained on all public rows."""
        return self._trained(at, *self.public)

    def _trained(self, at: Any, X: Any, y: Any) -> Any:
        return as_model(self._train(at, X, y), self._loss, X, y)


class HeldOut:
    """Models that exist, such as those in checkpoints: they are loaded, and asked about rows that trained none of them.

    Args:
        load: configuration -> fitted model; nothing is trained.
    """

    def __init__(self, load: Callable[[Any], Any], options: ChoiceOptions) -> None:
        wanted = "load needs public=(X, y), public rows on which no trial was trained."
        self._load, self.public = load, _pair(options.public, wanted)
        self._loss, self._averages = as_loss(options.loss), options.averages

    def losses(self, at: Any) -> npt.NDArray[np.float64] | Answers:
        """Return the losses of the public rows (N,) under a configuration's model; see ``Trainer``."""
        return held_out_losses(self.model(at), *self.public, self._loss, self._averages)

    def model(self, at: Any) -> Any:
        return as_model(self._load(at), self._loss, *self.public)


def held_out_losses(model: Any, X: Any, y: Any, loss: NamedLoss, averages: bool) -> npt.NDArray[np.float64] | Answers:
    """Return the losses of public rows (N,) that did not train the model; with ``averages`` its answers."""
    rows = np.arange(len(y))
    answers = cross_validated_answers(lambda X, y: model, X, y, [(rows[:0], rows)], loss, {})
    return answers if averages else losses_of(answers, loss)


def _pair(public: Any, wanted: str) -> tuple[Any, Any]:
    if not isinstance(public, tuple | list) or len(public) != 2:
        raise InputError(f"{wanted} Nothing was charged.")
    refuse_other_answers("public=", *public)
    X, y = indexable(*public)
    return X, y


def _trained_at(estimator: Any, parameters: Callable[[Any], Parameters], at: Any, X: Any, y: Any) -> Any:
    from sklearn.base import clone

    return clone(estimator).set_params(**parameters(at)).fit(X, y)


def is_estimator(train: object) -> bool:
    """Return whether it is an estimator of scikit-learn's kind, whose parameters are searched."""
    return all(hasattr(train, method) for method in ("fit", "get_params", "set_params"))


def required(function: Callable[..., Any]) -> int:
    """Return the number of positional arguments without a default."""
    parameters = inspect.signature(function).parameters.values()
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(each.default is each.empty and each.kind in positional for each in parameters)
