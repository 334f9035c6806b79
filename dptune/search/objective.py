"""A user's function and its loss, as every front end agrees on them with the privatizer and with the run's ledger."""

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
    """What a user says of a function that a search calls.

    Attributes:
        loss: the per-example loss of a fitted estimator: a name, e.g. "log_loss", or a ``NamedLoss`` of your own.
        data: with ``loss``: (X, y) or ``dptune.Rows`` of the private examples, or a function that loads them, once in
            a process; if it fails, the trial fails before anything is trained or paid, and tells the error's type.
        training: with ``loss``: "public": the function trains on public rows, so what it raises is an ordinary failure
            of the trial, shown by the framework, and costs nothing. "private": it is hidden, counts as a failure, and
            the ledger's statement names the run, also of a function that returns losses.
        public: what the function reports by ``report_public(value, step)``, in words for the ledger's statement, as
            "log loss on 300 public rows": you say that it depends on no private row. Pruners and schedulers then work
            as usual. A trial that they stop is one of the planned trials, hands in no losses and costs nothing.
    """

    loss: str | NamedLoss | None
    data: Data | Callable[[], Data] | None
    training: Training
    public: str | None


def allows_unprotected(unprotected: object) -> bool:
    """Whether values that no release paid for may be stored: ``unprotected="refuse"`` or ``"allow"``."""
    if unprotected not in ("refuse", "allow"):
        raise InputError(f'unprotected must be "refuse" or "allow"; got {shown(unprotected)}.')
    return unprotected == "allow"


class Objective:
    """A user's function that a run asks for losses.

    Args:
        function: trial or configuration -> per-example losses (rows,), or a fitted estimator if ``loss`` is given.
        request: of the run.
        warn: shows a public line.
        loss, data, training, public: see :class:`ObjectiveOptions`.

    Attributes:
        losses: the function, with per-example losses as its result.
        loss: what they are.
        public: what the user has declared public, in words.
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
        """Keep for the ledger's statement what the user says about the function, before it may report anything."""
        if self.public is not None:
            ledger.declare_public(scope, self.public)
        if self._trains_in_private:
            ledger.declare_private_training(scope)
