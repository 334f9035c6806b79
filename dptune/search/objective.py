"""A user's function and its loss, on which front ends agree with the privatizer and the run's ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from dptune._checks import shown
from dptune.errors import InputError
from dptune.ledger.ledger import PrivacyLedger
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data, Function, Training, declared_public, losses_function
from dptune.search.asked_loss import AskedLoss
from dptune.search.request import SearchRequest


class ObjectiveOptions(TypedDict, total=False):
    """The user's options of a function that a search calls.

    Attributes:
        loss: the per-example loss of a fitted estimator: a name, e.g. "log_loss", or a ``NamedLoss`` of your own.
        data: with ``loss``: (X, y) or ``dptune.Rows`` of the private examples, or a function that loads them once per
            process. If it fails, the trial fails before training and charges, and reports the error's type.
        training: with ``loss``, "public" means that the function trains on public rows: its errors are ordinary
            failures, which the framework shows and which cost nothing. With "private", errors are hidden and count as
            failures, and the ledger's statement names the run, also for a function that returns losses.
        public: the values of ``report_public(value, step)`` in words for the ledger's statement, such as "log loss on
            300 public rows". You declare that they depend on no private row. Pruners and schedulers then work as usual.
            A trial that they stop is one of the planned trials, submits no losses and costs nothing.
    """

    loss: str | NamedLoss | None
    data: Data | Callable[[], Data] | None
    training: Training
    public: str | None


def allows_unprotected(unprotected: object) -> bool:
    """Return whether values without a release may be stored: ``unprotected="refuse"`` or ``"allow"``."""
    if unprotected not in ("refuse", "allow"):
        raise InputError(f'unprotected must be "refuse" or "allow"; got {shown(unprotected)}.')
    return unprotected == "allow"


class Objective:
    """A user's function that a run calls for losses.

    Args:
        function: trial or configuration -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        request: the run's request.
        warn: shows a public line.
        loss, data, training, public: see :class:`ObjectiveOptions`.

    Attributes:
        losses: the function, with per-example losses as its result.
        loss: the queried loss.
        public: the user's public declaration, in words.
    """

    def __init__(
        self,
        function: Function,
        request: SearchRequest,
        warn: Callable[[str], object],
        *,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
        training: Training = "public",
        public: str | None = None,
    ) -> None:
        self.public = declared_public(public, training)
        self._trains_in_private = training == "private"
        self.losses = losses_function(function, loss, data, rows=request.privatizer.rows, training=training)
        self.loss = AskedLoss.agreed(loss, request.privatizer, warn)

    def declare(self, ledger: PrivacyLedger, scope: str) -> None:
        """Store the user's declarations for the ledger's statement, before the function may report anything."""
        if self.public is not None:
            ledger.declare_public(scope, self.public)
        if self._trains_in_private:
            ledger.declare_private_training(scope)
