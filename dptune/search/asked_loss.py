"""The queried loss, on which front ends agree with the privatizer and the run's ledger."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dptune.errors import BudgetMismatch
from dptune.ledger.ledger import PrivacyLedger
from dptune.losses.named import NamedLoss, as_loss, too_wide
from dptune.privacy.privatizer import LossPrivatizer

UNNAMED = "loss"  # name for a function that returns losses
_LOSS = "loss of the trials"  # a fact of a run in the ledger: the name of the loss


@dataclass(frozen=True)
class AskedLoss:
    """The queried loss: its name, and its largest value."""

    name: str
    most: float

    @classmethod
    def agreed(
        cls, loss: str | NamedLoss | None, privatizer: LossPrivatizer, warn: Callable[[str], object]
    ) -> AskedLoss:
        """Return the loss, None for a function that returns losses; the privatizer adopts its range."""
        asked = cls(UNNAMED, math.inf) if loss is None else cls(as_loss(loss).name, as_loss(loss).most)
        privatizer.use_clip(None if loss is None else as_loss(loss).own_range)
        if why := too_wide(loss, privatizer.loss_range):
            warn(why)
        return asked

    def refuse_other(self, ledger: PrivacyLedger, scope: str) -> None:
        """Refuse a run whose trials used another named loss."""
        before = ledger.fact(scope, _LOSS)
        if self.name != UNNAMED and before not in (None, self.name):
            raise BudgetMismatch(
                f"the run {scope!r} minimises {before}, and this objective returns {self.name}. Its answers do not "
                "apply. Nothing was trained or charged. Give the new run another name, and mu= if the first run is to "
                "continue."
            )

    def keep(self, ledger: PrivacyLedger, scope: str) -> None:
        """Store the loss of a run that has begun."""
        self.refuse_other(ledger, scope)
        if self.name != UNNAMED and ledger.fact(scope, _LOSS) is None:
            ledger.fix(scope, _LOSS, self.name)
