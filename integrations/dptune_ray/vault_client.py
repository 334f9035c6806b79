"""The client of a run's vault in a trial's process: it uploads losses in parts of at most 64 KiB."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

import dptune
from dptune.search.final_estimate import DEFAULT, FINAL
from dptune_ray.actors import BYTES, ActorClient, answer_of
from dptune_ray.vault import LossesMissing, Upload, Vault

ROWS = BYTES // 8  # losses in one call
IN_FLIGHT = 128  # largest number of concurrent calls: 8 MiB
ATTEMPTS = 5  # attempts of an upload whose vault restarts meanwhile
Losses = npt.NDArray[np.float64]
T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class VaultClient(ActorClient):
    """Reaches a vault; ``VaultClient.of("vault", ledger, scope)``."""

    def finish(self, trial: str, parameters: Mapping[str, Any], losses: Losses | None) -> float:
        """Upload a trial's losses (rows,), None for a failure; return its value by :meth:`Vault.finish`."""
        return self._uploaded((trial,), (losses,), Vault.finish, trial, dict(parameters))

    def estimate(self, parameters: Mapping[str, Any], *losses: Losses | None) -> dptune.results.Estimate:
        """Upload the losses (rows,) at ``parameters`` and at the default configuration for :meth:`Vault.estimate`."""
        return self._uploaded((FINAL, DEFAULT)[: len(losses)], losses, Vault.estimate, dict(parameters))

    def _uploaded(
        self,
        names: tuple[str, ...],
        losses: tuple[Losses | None, ...],
        method: Callable[Concatenate[Any, Upload, P], T],
        *args: P.args,
        **further: P.kwargs,
    ) -> T:
        """Upload losses under these names, and return the result of the vault's method."""
        rows = tuple(None if one is None else len(one) for one in losses)
        for _ in range(ATTEMPTS):
            upload = Upload(secrets.token_hex(8), names, rows)
            for name, one in zip(names, losses, strict=True):
                self._put(name, upload.identifier, np.zeros(0) if one is None else one)
            try:
                return self.call(method, upload, *args, **further)
            except LossesMissing:  # the vault restarted meanwhile
                continue
        raise dptune.DptuneError("the vault was restarted too often while it took a trial's losses.")

    def _put(self, name: str, upload: str, losses: Losses) -> None:
        """Send the parts, at most ``IN_FLIGHT`` at a time."""
        actor = self.actor()
        starts = range(0, len(losses), ROWS)
        for first in range(0, len(starts), IN_FLIGHT):
            some = starts[first : first + IN_FLIGHT]
            parts = [losses[at : at + ROWS].tobytes() for at in some]
            sent = [actor.call.remote("put", name, upload, at, part) for at, part in zip(some, parts, strict=True)]
            for one in sent:
                answer_of(one)
