"""The vault as a named Ray actor, and how the driver and the trials talk to it.

Losses go to the actor as arguments of at most 64 KiB. Ray sends arguments below 100 KiB inside the call; larger ones
would lie in its object store, which is shared with every process of the node and may be spilled to disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import dptune
from dptune_ray.actors import ActorClient, answer_of
from dptune_ray.runs import RunSettings
from dptune_ray.vault import Vault

PART = 8192  # losses in one call: 64 KiB
ATTEMPTS = 5  # of an upload whose vault is restarted meanwhile


@dataclass(frozen=True)
class VaultClient(ActorClient):
    """Reaches the vault that serves a run; ``VaultClient.of(ledger, scope)``."""

    _what: ClassVar[str] = "vault"

    def start(self, privatizer: dptune.LossPrivatizer, settings: RunSettings) -> Any:
        """Start the vault on this node, unless it runs; return what keeps it alive as long as it is held.

        Raises:
            BudgetMismatch: a run of this name has other settings or another privatizer.
            BudgetExhausted: the ledger has not that much left for a new run.
        """
        held = self.launch(Vault, privatizer, settings)
        self.call("begin", settings, privatizer.fingerprint())
        return held

    def ask(self, trial: str) -> dict[str, Any] | None:
        """Return what the trial should try; see :meth:`Vault.ask`."""
        asked: dict[str, Any] | None = self.call("ask", trial)
        return asked

    def withdraw(self, trial: str) -> None:
        """Say that the trial will not begin; see :meth:`Vault.withdraw`."""
        self.call("withdraw", trial)

    def check(self, trial: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Refuse a trial before a model is trained; see :meth:`Vault.check`."""
        self.call("check", trial, parameters)

    def finish(self, trial: str, parameters: Mapping[str, Any], losses: npt.NDArray[np.float64] | None) -> float:
        """Hand over the losses (rows,), or None for a failure, and return the released value."""
        return float(self._upload("finish", trial, parameters, losses))

    def check_estimate(self, parameters: Mapping[str, Any]) -> None:
        """Refuse an estimate before a model is trained."""
        self.call("check_estimate", dict(parameters))

    def estimate(
        self, trial: str, parameters: Mapping[str, Any], losses: npt.NDArray[np.float64] | None
    ) -> dptune.Estimate:
        """Hand over the losses (rows,), or None for a failure, and return the released estimate."""
        estimate: dptune.Estimate = self._upload("estimate", trial, parameters, losses)
        return estimate

    def progress(self) -> dict[str, object]:
        """Return released facts only."""
        progress: dict[str, object] = self.call("progress")
        return progress

    def _upload(
        self, method: str, trial: str, parameters: Mapping[str, Any], losses: npt.NDArray[np.float64] | None
    ) -> Any:
        actor, rows = self._actor(), None if losses is None else len(losses)
        for _ in range(ATTEMPTS):
            name = secrets.token_hex(8)
            puts = [actor.put.remote(trial, name, first, part) for first, part in _parts(losses)]
            last = getattr(actor, method).remote(trial, dict(parameters), name, rows)
            for put in puts:
                answer_of(put)
            released = answer_of(last)
            if released is not None:
                return released
        raise dptune.DptuneError("the vault was restarted too often while it took a trial's losses.")


def _parts(losses: npt.NDArray[np.float64] | None) -> Iterator[tuple[int, bytes]]:
    if losses is not None:
        for first in range(0, len(losses), PART):
            yield first, losses[first : first + PART].tobytes()
