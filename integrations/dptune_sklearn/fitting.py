"""Models of the public half, trained in parallel; what goes wrong there is public, and is shown."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from dptune.errors import InputError
from dptune.losses.named import NamedLoss
from dptune.losses.reachable import refuse_reachable
from dptune.losses.user_function import call_guarded, losses_function
from dptune.privacy.private import PerExampleLosses
from dptune_sklearn.halves import Private, Training


@dataclass(frozen=True)
class Failed:
    """A training that raised: its traceback, as text."""

    traceback: str


class Models:
    """Trains in any number of processes; asks for private losses in this one only.

    Args:
        estimator: of the user; a clone of it is trained for each set of parameters.
        training: public rows.
        private: private rows; they must not be within reach of the estimator or of the training rows.
        loss: the per-example loss: a name, or a ``NamedLoss`` of the user's own.
        n_jobs: number of processes, as everywhere in scikit-learn.

    Raises:
        UnsupportedMetric: the loss is not a mean over people.
        InputError: private rows are within reach, or have no usable shape.
    """

    def __init__(
        self, estimator: Any, training: Training, private: Private, loss: str | NamedLoss, n_jobs: int | None
    ) -> None:
        self._train = partial(train, estimator, training)
        self._losses = losses_function(_itself, loss, private.rows, rows=len(private.rows.y))
        reached = {"the estimator": estimator, **{f"fit's {name}": held for name, held in vars(training).items()}}
        refuse_reachable(partial(clone, **reached), private.rows.X, private.rows.y)
        self._parallel = Parallel(n_jobs=n_jobs, return_as="generator")

    def trained(self, points: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
        """Return the models of several sets of parameters as they come, in order; :class:`Failed` with a warning."""
        for model in self._parallel(delayed(self._train)(parameters) for parameters in points):
            if isinstance(model, Failed):
                warnings.warn(f"A candidate could not be trained:\n{model.traceback}", FitFailedWarning, stacklevel=4)
            yield model

    def fitted(self, parameters: Mapping[str, Any]) -> Any:
        """Return one model.

        Raises:
            InputError: its training failed.
        """
        return usable(self._train(parameters))

    def losses(self, model: Any) -> PerExampleLosses | None:
        """Return the private losses of a model; None if it failed, of which nothing may be seen.

        Raises:
            InputError: the model does not answer a public row as the loss needs it.
        """
        return None if isinstance(model, Failed) else call_guarded(self._losses, model, PerExampleLosses).or_raise()


def usable(model: Any) -> Any:
    """Return a model, or raise what its training raised.

    Raises:
        InputError: the training failed; says why.
    """
    if isinstance(model, Failed):
        raise InputError(f"training failed, and nothing was paid for it:\n{model.traceback}")
    return model


def train(estimator: Any, training: Training, parameters: Mapping[str, Any]) -> Any:
    """Return a clone of the estimator, fitted with these parameters, or how it failed."""
    try:
        model = clone(estimator).set_params(**clone(dict(parameters), safe=False))
        return model.fit(training.X, training.y, **training.options)
    except Exception:  # noqa: BLE001 - whatever the user's estimator raises is public, and shown
        return Failed(traceback.format_exc())


def _itself(model: Any) -> Any:
    return model
