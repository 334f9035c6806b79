"""What a privatizer gives away: a noisy vector, and what paid for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dptune.accounting.ledger import Charge


@dataclass(frozen=True)
class Released:
    """A released vector and the charge that paid for it. Built by ``LossPrivatizer.release`` only.

    Attributes:
        value: (p,), read-only; public.
        charge: the ledger's record of it.
        sigma: standard deviation of the noise per coordinate.
    """

    value: npt.NDArray[np.float64]
    charge: Charge
    sigma: float

    @property
    def scalar(self) -> float:
        """The value of a release with p = 1, as a Python float."""
        return float(self.value.item())
