"""Named actors on the driver's node, and how a process of the job talks to one.

An exception that crosses processes carries its traceback to consoles and error files. So dptune's own errors, whose
text is public, travel as data, and of any other error only the type is told.

Losses travel as arguments of at most 64 KiB. Ray sends arguments below 100 KiB, and 10 MB of them, inside the call.
Others lie in its object store, which is shared with every process of the node and may be spilled to disk, and where an
actor that is started again may not find them.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import dptune
from dptune.privacy.private import bare
from dptune.search.fold import DEFAULT

RESTARTS = 5
BYTES = 65536  # bytes of an argument
ROWS = BYTES // 8  # losses in one call
IN_FLIGHT = 128  # parts that may be on their way: 8 MiB
ATTEMPTS = 5  # of an upload whose vault is restarted meanwhile
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """What an actor answers: a public value, or a public error."""

    value: Any = None  # what was asked for; plain data
    error: dptune.DptuneError | None = None  # why there is none

    def get(self) -> Any:
        """Return the value.

        Raises:
            DptuneError: what the actor refused.
        """
        if self.error is not None:
            raise bare(self.error)
        return self.value


def answered(method: Callable[..., Any]) -> Callable[..., Answer]:
    """Make a method return an :class:`Answer`."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Answer:
        try:
            return Answer(method(self, *args, **kwargs))
        except dptune.DptuneError as error:
            return Answer(error=bare(error))
        except Exception as error:  # noqa: BLE001 - its text could quote a private value
            name = type(self).__name__.lower()
            return Answer(error=dptune.DptuneError(f"the {name} failed with {type(error).__name__}."))

    return call


def in_parts(*args: Any, **kwargs: Any) -> list[bytes]:
    """Return the arguments of a :func:`taking_parts` class."""
    pickled = cloudpickle.dumps((args, kwargs))
    return [pickled[first : first + BYTES] for first in range(0, len(pickled), BYTES)]


def taking_parts(kind: Any) -> Any:
    """Return a class like ``kind`` whose constructor takes :func:`in_parts` of the arguments."""

    def start(self: Any, *parts: bytes) -> None:
        args, kwargs = cloudpickle.loads(b"".join(parts))
        kind.__init__(self, *args, **kwargs)

    return type(kind.__name__, (kind,), {"__init__": start})


def answer_of(reference: Any) -> Any:
    """Wait for an answer and return its value."""
    answer: Answer = ray.get(reference)
    return answer.get()


@dataclass(frozen=True)
class ActorClient:
    """Reaches an actor by its name, from any process of the Ray job; holds nothing else."""

    name: str  # of the actor, in the job's namespace
    _what: ClassVar[str]
    _starts: ClassVar[str] = "the searcher whose trainable this is: give it to the Tuner as its search_alg"

    @classmethod
    def of(cls, *about: object) -> Self:
        """Return the client of the actor that serves a run, which ``about`` names."""
        return cls(f"dptune-{cls._what}-" + hashlib.sha256(repr(about).encode()).hexdigest()[:16])

    def launch(self, kind: type, *args: Any) -> Any:
        """Start an actor on this node, or find it; return what keeps it alive as long as it is held.

        Args:
            kind: its class, whose methods return :class:`Answer`.
            args: of the class, together less than 10 MB; public, because a restart of the actor reads them again.
        """
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        again = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS, "scheduling_strategy": here}
        actor = ray.remote(taking_parts(kind)).options(name=self.name, get_if_exists=True, num_cpus=0, **again)
        return actor.remote(*in_parts(*args))

    def runs(self) -> bool:
        """Tell whether the actor is there, or is being started again."""
        try:
            self.actor()
        except dptune.DptuneError:
            return False
        return True

    def stop(self) -> None:
        """End the actor; what it has not released is gone, what it has released is in the ledger."""
        ray.kill(self.actor())

    def call(self, method: str, *args: Any) -> Any:
        """Call a method and wait for its answer.

        Raises:
            DptuneError: what the actor refused, or that it does not run.
        """
        return answer_of(getattr(self.actor(), method).remote(*args))

    def actor(self) -> Any:
        """Return Ray's handle of the actor.

        Raises:
            DptuneError: it does not run.
        """
        try:
            return ray.get_actor(self.name)
        except ValueError:
            raise dptune.DptuneError(
                f"the {self._what} does not run. It is started by {self._starts}, and ends with it."
            ) from None


@dataclass(frozen=True)
class VaultClient(ActorClient):
    """How a trial's process reaches the vault of its run; ``VaultClient.of(ledger, scope)``."""

    _what: ClassVar[str] = "vault"

    def hand_in(
        self, purpose: str, trial: str, parameters: Mapping[str, Any], *losses: Vector | None, **further: Any
    ) -> Any:
        """Hand over losses (rows,), or None for a failure, and return the vault's answer: :meth:`Vault.receive`."""
        actor = self.actor()
        rows = [None if one is None else len(one) for one in losses]
        for _ in range(ATTEMPTS):
            upload = secrets.token_hex(8)
            for name, one in zip((trial, DEFAULT), losses, strict=False):
                _put(actor, name, upload, np.zeros(0) if one is None else one)
            answer = answer_of(actor.receive.remote(purpose, trial, dict(parameters), upload, rows, **further))
            if answer is not None:
                return answer
        raise dptune.DptuneError("the vault was restarted too often while it took a trial's losses.")


def _put(actor: Any, trial: str, upload: str, losses: Vector) -> None:
    """Send the parts, no more of them at a time than may be in flight."""
    starts = range(0, len(losses), ROWS)
    for first in range(0, len(starts), IN_FLIGHT):
        sent = [
            actor.put.remote(trial, upload, at, losses[at : at + ROWS].tobytes())
            for at in starts[first : first + IN_FLIGHT]
        ]
        for one in sent:
            answer_of(one)
