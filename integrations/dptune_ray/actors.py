"""Named actors that run on the driver's node, and how a process of the job talks to one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import dptune
from dptune_ray.answers import Answer

RESTARTS = 5


@dataclass(frozen=True)
class ActorClient:
    """Reaches an actor by its name, from any process of the Ray job; holds nothing else.

    Attributes:
        name: of the actor, in the job's namespace.
    """

    name: str
    _what: ClassVar[str]
    _who_starts_it: ClassVar[str] = "the searcher whose trainable this is: give it to the Tuner as its search_alg"

    @classmethod
    def of(cls, *about: object) -> Self:
        """Return the client of the actor that serves a run, which ``about`` names."""
        return cls(f"dptune-{cls._what}-" + hashlib.sha256(repr(about).encode()).hexdigest()[:16])

    def launch(self, kind: type, *args: Any, **options: Any) -> Any:
        """Start an actor of ``kind`` on this node, or find it; return what keeps it alive as long as it is held.

        Args:
            kind: its class, whose methods return :class:`Answer`.
            args: of the class; public, a restart of the actor needs them again.
            options: of the actor, besides the usual ones.
        """
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        usual = {
            "name": self.name,
            "get_if_exists": True,
            "num_cpus": 0,
            "max_restarts": RESTARTS,
            "max_task_retries": RESTARTS,
            "scheduling_strategy": here,
        }
        kept = [ray.put(argument) for argument in args]
        return ray.remote(kind).options(**usual, **options).remote(*kept), kept

    def runs(self) -> bool:
        """Tell whether the actor is there, or is being started again."""
        try:
            self._actor()
        except dptune.DptuneError:
            return False
        return True

    def stop(self) -> None:
        """End the actor; what it has not released is gone, what it has is in the ledger."""
        ray.kill(self._actor())

    def call(self, method: str, *args: Any) -> Any:
        """Call a method and wait for its answer.

        Raises:
            DptuneError: what the actor refused, or that it does not run.
        """
        return answer_of(getattr(self._actor(), method).remote(*args))

    def _actor(self) -> Any:
        try:
            return ray.get_actor(self.name)
        except ValueError:
            raise dptune.DptuneError(
                f"the {self._what} does not run. It is started by {self._who_starts_it}, and ends with it."
            ) from None


def answer_of(reference: Any) -> Any:
    """Wait for an answer and return its value."""
    answer: Answer = ray.get(reference)
    return answer.get()
