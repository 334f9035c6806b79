"""Named actors on the driver's node, and their clients in the job's processes.

An exception that crosses processes carries its traceback to consoles and error files. So dptune's own errors, whose
text is public, travel as data. For any other error, only the type is sent.

Arguments are at most 64 KiB. Ray sends arguments below 100 KiB, and 10 MB of them, inside the call. Larger ones go to
its object store, which all processes of the node share and which may spill to disk. A restarted actor may not find them
there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import ray
from ray import cloudpickle
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import dptune
from dptune.privacy.seal.private import without_traceback

T = TypeVar("T")
P = ParamSpec("P")
RESTARTS = 5
BYTES = 65536  # largest argument
TRAINABLE = "the searcher whose trainable this is: give it to the Tuner as its search_alg"


class Actor:
    """Serves an object that does not use Ray; ``parts`` are its class and arguments."""

    def __init__(self, *parts: bytes) -> None:
        self._kind, self._args = cloudpickle.loads(b"".join(parts))

    @cached_property
    def served(self) -> Any:
        """Return the object, constructed at the first call, so that its class's refusal is an answer."""
        return self._kind(*self._args)

    def call(self, method: str, *args: Any, **further: Any) -> Any:
        """Return the method's public result, or the public error that it raised."""
        try:
            return getattr(self.served, method)(*args, **further)
        except dptune.DptuneError as error:
            return without_traceback(error)
        except Exception as error:  # noqa: BLE001 - its text could quote a private value
            return dptune.DptuneError(f"the {self._kind.__name__.lower()} failed with {type(error).__name__}.")


def in_parts(kind: type, *args: Any) -> list[bytes]:
    """Return the public arguments of an :class:`Actor`, which its restarts read again."""
    pickled = cloudpickle.dumps((kind, args))
    return [pickled[first : first + BYTES] for first in range(0, len(pickled), BYTES)]


def start(options: dict[str, Any], kind: type, *args: Any) -> Any:
    """Start an actor with Ray's options; return its handle, which keeps it alive."""
    return ray.remote(Actor).options(**options).remote(*in_parts(kind, *args))


def answer_of(reference: Any, timeout: float | None = None) -> Any:
    """Wait for an answer, at most ``timeout`` seconds; return its value, or raise the actor's error."""
    answer = ray.get(reference, timeout=timeout)
    if isinstance(answer, dptune.DptuneError):
        raise without_traceback(answer)
    return answer


def on_this_node() -> NodeAffinitySchedulingStrategy:
    """Return the option that makes Ray start a process on this node, which has an SQLite ledger."""
    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


@dataclass(frozen=True)
class ActorClient:
    """Reaches an actor by its name, from any process of the Ray job."""

    name: str  # name of the actor in the job's namespace
    what: str  # description of the actor and its starter, in words
    starts: str = TRAINABLE

    @classmethod
    def of(cls, what: str, *arguments: object, starts: str = TRAINABLE) -> Self:
        """Return the client of a run's actor; ``about`` names the run."""
        return cls(f"dptune-{what}-" + hashlib.sha256(repr(arguments).encode()).hexdigest()[:16], what, starts)

    def launch(self, kind: type, *args: Any) -> Any:
        """Start the actor on this node, or find it; return the handle that keeps it alive."""
        again = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS, "scheduling_strategy": on_this_node()}
        return start({"name": self.name, "get_if_exists": True, "num_cpus": 0, **again}, kind, *args)

    def runs(self) -> bool:
        """Return whether the actor runs or is being restarted."""
        try:
            self.actor()
        except dptune.DptuneError:
            return False
        return True

    def stop(self) -> None:
        """End the actor; its unreleased losses are lost, its releases are in the ledger."""
        ray.kill(self.actor())

    def call(self, method: Callable[Concatenate[Any, P], T], *args: P.args, **further: P.kwargs) -> T:
        """Call a method of the actor's class, and wait for its answer.

        Raises:
            DptuneError: the actor's error, or the actor does not run.
        """
        try:
            answer: T = answer_of(self.actor().call.remote(method.__name__, *args, **further))
            return answer
        except RayActorError:
            raise dptune.DptuneError(
                f"the {self.what} has died more than {RESTARTS} times, perhaps because its node has too little memory. "
                "What was released is in the ledger and is not charged again. Start the driver again with the same "
                "name."
            ) from None

    def actor(self) -> Any:
        try:
            return ray.get_actor(self.name)
        except ValueError:
            raise dptune.DptuneError(
                f"the {self.what} does not run. It is started by {self.starts}, and ends with it."
            ) from None
