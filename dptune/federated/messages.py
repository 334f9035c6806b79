"""What an agent sends in a round, and how it is checked before the server keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dptune.errors import MessageRefused

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Message:
    """One agent's weights of one round. Private: for the trusted server only.

    Attributes:
        agent: n, from 0.
        round: t, from 0.
        weights: omega_n (M,); not shown in the repr.
    """

    agent: int
    round: int
    weights: npt.ArrayLike = field(repr=False)

    def to_json(self) -> str:
        """Return the message as JSON text, for a transport; whoever carries it can read it."""
        weights = np.asarray(self.weights, dtype=np.float64).tolist()
        return json.dumps({"agent": int(self.agent), "round": int(self.round), "weights": weights}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Message:
        """Return the message that :meth:`to_json` wrote.

        Raises:
            MessageRefused: the text is not a message.
        """
        try:
            data = json.loads(text)
            return cls(data["agent"], data["round"], data["weights"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise MessageRefused("the text is not a message: it needs agent, round and weights.") from None


def checked_weights(message: Message, *, agents: int, M: int) -> Vector:
    """Return a copy of the weights (M,) of a message that makes sense by itself.

    Raises:
        MessageRefused: no such agent, or not M finite numbers. Says nothing about the weights but that.
    """
    if not _whole(message.agent) or not 0 <= message.agent < agents:
        raise MessageRefused(f"agents are numbered 0 to {agents - 1}; got {message.agent!r}.")
    if not _whole(message.round) or message.round < 0:
        raise MessageRefused(f"a round is a whole number from 0; got {message.round!r}.")
    try:
        raw = np.asarray(message.weights)
        numbers = raw.dtype.kind in "fiu" and raw.ndim == 1
        weights = np.array(raw, dtype=np.float64) if numbers else np.empty(0)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != (M,):
        raise MessageRefused(f"a message holds {M} real numbers in a vector, one per shared feature.")
    if not np.isfinite(weights).all():
        raise MessageRefused("a message must be finite: it held NaN or an infinity.")
    return weights


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
