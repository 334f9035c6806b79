"""The vault as a named Ray actor, and how the driver and the trials talk to it.

Losses go to the actor as arguments of at most 64 KiB. Ray sends arguments below 100 KiB inside the call; larger ones
would lie in its object store, which is shared with every process of the node and may be spilled to disk.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import dptune
from dptune_ray.runs import RunSettings
from dptune_ray.vault import Answer, Vault

PART = 8192  # losses in one call: 64 KiB
ATTEMPTS = 5  # of an upload whose vault is restarted meanwhile
RESTARTS = 5


@dataclass(frozen=True)
class VaultClient:
    """Reaches the vault by its name, from any process of the Ray job; holds nothing else.

    Attributes:
        name: of the actor, in the job's namespace.
    """

    name: str

    @classmethod
    def of(cls, ledger: dptune.PrivacyLedger, scope: str) -> VaultClient:
        """Return the client of the vault that serves a run."""
        return cls("dptune-vault-" + hashlib.sha256(f"{ledger!r}/{scope}".encode()).hexdigest()[:16])

    def start(self, privatizer: dptune.LossPrivatizer, settings: RunSettings) -> Any:
        """Start the vault on this node, unless it runs; return what keeps it alive as long as it is held.

        Raises:
            BudgetMismatch: a run of this name has other settings.
            BudgetExhausted: the ledger has not that much left for a new run.
        """
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        options = {
            "name": self.name,
            "get_if_exists": True,
            "num_cpus": 0,
            "max_restarts": RESTARTS,
            "max_task_retries": RESTARTS,
            "scheduling_strategy": here,
        }
        kept = ray.put(privatizer)  # public; a restart of the actor needs it again
        actor = ray.remote(Vault).options(**options).remote(kept, settings)
        _get(actor.begin.remote(settings))
        return actor, kept

    def stop(self) -> None:
        """End the vault; what it has not released is gone, what it has is in the ledger."""
        ray.kill(self._actor())

    def ask(self, trial: str) -> dict[str, Any] | None:
        """Return what the trial should try; see :meth:`Vault.ask`."""
        asked: dict[str, Any] | None = _get(self._actor().ask.remote(trial))
        return asked

    def check(self, trial: str) -> None:
        """Refuse a trial before a model is trained; see :meth:`Vault.check`."""
        _get(self._actor().check.remote(trial))

    def finish(self, trial: str, parameters: Mapping[str, Any], losses: npt.NDArray[np.float64] | None) -> float:
        """Hand over the losses (rows,), or None for a failure, and return the released value."""
        return float(self._upload("finish", trial, parameters, losses))

    def check_estimate(self) -> None:
        """Refuse an estimate before a model is trained."""
        _get(self._actor().check_estimate.remote())

    def estimate(
        self, trial: str, parameters: Mapping[str, Any], losses: npt.NDArray[np.float64] | None
    ) -> dptune.Estimate:
        """Hand over the losses (rows,), or None for a failure, and return the released estimate."""
        estimate: dptune.Estimate = self._upload("estimate", trial, parameters, losses)
        return estimate

    def progress(self) -> dict[str, object]:
        """Return released facts only."""
        progress: dict[str, object] = _get(self._actor().progress.remote())
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
                _get(put)
            released = _get(last)
            if released is not None:
                return released
        raise dptune.DptuneError("the vault was restarted too often while it took a trial's losses.")

    def _actor(self) -> Any:
        try:
            return ray.get_actor(self.name)
        except ValueError:
            raise dptune.DptuneError(
                "the vault does not run: give the Tuner the searcher whose trainable this is as its search_alg."
            ) from None


def _parts(losses: npt.NDArray[np.float64] | None) -> Iterator[tuple[int, bytes]]:
    if losses is not None:
        for first in range(0, len(losses), PART):
            yield first, losses[first : first + PART].tobytes()


def _get(reference: Any) -> Any:
    answer: Answer = ray.get(reference)
    return answer.get()
