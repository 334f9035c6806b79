"""Adapters that give boosters and PyTorch modules the interface of scikit-learn estimators.

Example::

    @sampler.objective(loss="log_loss", data=(X_val, y_val))
    def model(trial):
        booster = xgboost.train({"eta": trial.suggest_float("eta", 0.01, 1), ...}, DMatrix(X_train, y_train))
        return BoosterModel(booster, labels=[0, 1])

Everything that takes a fitted estimator with ``loss=`` takes these. ``XGBClassifier``, ``LGBMClassifier`` and skorch's
``NeuralNetClassifier`` are estimators and need nothing. The guarantee is that of
:func:`dptune.losses.estimator.estimator_losses`: a model must answer each row by that row alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from dptune._arrays import Array
from dptune._checks import at_least, attempt
from dptune.errors import InputError
from dptune.losses.named import NamedLoss


class _Answers:
    """The base of both adapters: labels in the order of the columns, and predictions computed from answers."""

    def __init__(self, labels: Sequence[Any] | None) -> None:
        if labels is not None:
            self.classes_ = np.asarray(labels)

    def _answers(self, X: Any) -> Array:
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities (n, k), or (n,) of the second of two labels."""
        return self._answers(X)

    def predict(self, X: Any) -> Array:
        """Return labels (n,), or numbers (n,) of a model without labels."""
        answers = self._answers(X)
        if not hasattr(self, "classes_"):
            return answers.reshape(len(answers)) if answers.shape[1:] == (1,) else answers
        second = answers > 0.5 if answers.ndim == 1 else np.argmax(answers, axis=1)
        return self.classes_[np.asarray(second, dtype=np.intp)]


class BoosterModel(_Answers):
    """A native booster of XGBoost or LightGBM; stopped early, it answers with its best iteration.

    XGBoost's ``gblinear`` answers with its last weights, whatever its best iteration was: it keeps no others.

    Args:
        booster: trained, with an objective whose predictions are probabilities or numbers ("binary:logistic",
            "multi:softprob", "reg:squarederror"; "binary", "multiclass", "regression").
        labels: the public labels in the order of the booster's numbers 0, 1, ...; None for regression.

    Raises:
        InputError: ``booster`` is not a booster.
    """

    def __init__(self, booster: Any, *, labels: Sequence[Any] | None = None) -> None:
        super().__init__(labels)
        xgboost = hasattr(booster, "inplace_predict")
        if wrapper_of(booster) is not BoosterModel:
            raise InputError(f"a booster of XGBoost or LightGBM is expected; got {type(booster).__name__}.")
        self._booster, self._xgboost = booster, xgboost
        self._linear = (
            xgboost and "gblinear" in json.loads(booster.save_config())["learner"]["gradient_booster"]["name"]
        )
        self.n_features_in_ = int(booster.num_features() if xgboost else booster.num_feature())

    def _answers(self, X: Any) -> Array:
        booster = self._booster
        if self._linear:  # gblinear neither predicts in place nor keeps its iterations
            import xgboost

            return np.asarray(booster.predict(xgboost.DMatrix(X), validate_features=False))
        if not self._xgboost:
            return np.asarray(booster.predict(X))
        best = getattr(booster, "best_iteration", None)  # set if the booster was stopped early
        rounds = (0, 0 if best is None else best + 1)
        return np.asarray(booster.inplace_predict(X, iteration_range=rounds))


class TorchModel(_Answers):
    """A PyTorch module, or a function of tensors, asked in batches, in evaluation mode and without gradients.

    Args:
        module: tensor (b, ...) -> tensor (b, k), (b, 1) or (b,): logits or log-probabilities of a classifier, one of
            two labels; numbers of a regression. It is asked where its parameters are, and left in the mode it was in.
        labels: the public labels in the order of the outputs; None for regression.
        batch: rows in a batch.
        device, dtype: of the tensors that a function is given; default those of the module's first parameter, or the
            CPU and float32.
    """

    def __init__(
        self,
        module: Callable[[Any], Any],
        *,
        labels: Sequence[Any] | None = None,
        batch: int = 1024,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(labels)
        self._module = module
        self._batch = at_least("batch", batch, 1)
        self._device, self._dtype = device, dtype

    def _answers(self, X: Any) -> Array:
        import torch

        first = next(self._module.parameters(), None) if isinstance(self._module, torch.nn.Module) else None
        device = self._device or ("cpu" if first is None else first.device)
        dtype = self._dtype or (torch.float32 if first is None else first.dtype)
        rows: Any = torch.as_tensor(X.to_numpy() if hasattr(X, "to_numpy") else X)
        with _evaluating(self._module), torch.no_grad():
            parts = [self._module(part.to(device, dtype)).detach().double().cpu() for part in rows.split(self._batch)]
        outputs = torch.cat(parts).numpy()  # (n, k), (n, 1) or (n,)
        if not hasattr(self, "classes_"):
            return np.asarray(outputs)
        if outputs.shape[1:] in ((), (1,)):
            return np.asarray(expit(outputs.reshape(len(outputs))))
        return np.asarray(softmax(outputs, axis=1))


def wrapper_of(model: object) -> type[BoosterModel] | type[TorchModel] | None:
    """Return the adapter of a native booster or a PyTorch module; None for other models."""
    if hasattr(model, "inplace_predict") or hasattr(model, "current_iteration"):
        return BoosterModel
    nn = getattr(sys.modules.get("torch"), "nn", None)  # without it no model is a module
    return TorchModel if nn is not None and isinstance(model, nn.Module) else None


def as_model(model: Any, loss: NamedLoss, X: Any, y: Any) -> Any:
    """Return the model; a native booster or a PyTorch module is wrapped, with its labels from public rows.

    Args:
        X, y: public rows. Where y has none but 0, 1, ..., k - 1 these are the labels of k outputs, else y's in order.

    Raises:
        InputError: the public rows have more or fewer labels than the model has outputs.
    """
    wrapper = wrapper_of(model)
    if wrapper is None:
        return model
    if not loss.uses_labels:
        return wrapper(model)
    shape = np.shape(wrapper(model).predict(X[:2]))
    k = 2 if shape[1:] in ((), (1,)) else shape[1]
    labels = np.unique(np.asarray(y)).tolist()
    if not set(labels) <= set(range(k)) and len(labels) != k:
        raise InputError(
            f"the model has {k} outputs, and the public rows have {len(labels)} labels. Return "
            f"dptune.losses.models.{wrapper.__name__}(model, labels=[...]), with a label for each output in their "
            "order. Nothing was charged."
        )
    return wrapper(model, labels=range(k) if set(labels) <= set(range(k)) else labels)


def classes_of(model: Any) -> Any:
    """Return a classifier's labels (k,), or None of a regressor; those of CatBoost have an empty array."""
    classes = getattr(model, "classes_", None)
    return None if attempt(len, classes, failed=1) == 0 else classes


def how_to_wrap(model: object) -> str:
    """Return a sentence that names the adapter of the model; "" where it needs none."""
    wrapper = wrapper_of(model)
    return "" if wrapper is None else f"Wrap it: dptune.losses.models.{wrapper.__name__}(model, labels=[...])."


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Set evaluation mode temporarily: no dropout, and batch normalisation with the statistics of training."""
    parts = module.modules() if hasattr(module, "modules") else ()
    training = [part for part in parts if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
