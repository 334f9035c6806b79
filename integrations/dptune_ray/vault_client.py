"""How a trial's process hands its losses to the vault, and hears what it answers.

Losses travel as arguments of at most 64 KiB. Ray sends arguments below 100 KiB inside the call; larger ones would lie
in its object store, which is shared with every process of the node and may be spilled to disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import dptune
from dptune.search.names import DEFAULT
from dptune_ray.actors import ActorClient, answer_of

PART = 8192  # losses in one call: 64 KiB
IN_FLIGHT = 128  # parts that may be on their way: 8 MiB
ATTEMPTS = 5  # of an upload whose vault is restarted meanwhile
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class VaultClient(ActorClient):
    """Reaches the vault that serves a run; ``VaultClient.of(ledger, scope)``."""

    _what: ClassVar[str] = "vault"

    def upload(
        self, method: str, trial: str, parameters: Mapping[str, Any], *losses: Vector | None, **further: Any
    ) -> Any:
        """Hand over losses (rows,), or None for a failure, to ``finish``, ``report``, ``estimate``; return its answer.

        ``estimate`` takes also the losses at the default configuration, if there is one.
        """
        actor = self.actor()
        rows = [None if one is None else len(one) for one in losses]
        for _ in range(ATTEMPTS):
            upload = secrets.token_hex(8)
            for name, one in zip((trial, DEFAULT), losses, strict=False):
                _put(actor, name, upload, np.zeros(0) if one is None else one)
            answer = answer_of(getattr(actor, method).remote(trial, dict(parameters), upload, *rows, **further))
            if answer is not None:
                return answer
        raise dptune.DptuneError("the vault was restarted too often while it took a trial's losses.")


def _put(actor: Any, trial: str, upload: str, losses: Vector) -> None:
    for firsts in _batches(len(losses)):
        puts = [actor.put.remote(trial, upload, at, losses[at : at + PART].tobytes()) for at in firsts]
        for put in puts:
            answer_of(put)


def _batches(rows: int) -> list[range]:
    """The first rows of parts, no more of them at a time than may be in flight."""
    step = IN_FLIGHT * PART
    return [range(start, min(start + step, rows), PART) for start in range(0, rows, step)]
