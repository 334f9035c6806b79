"""An agent's message in a round, and its checks before the server stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import whole
from dptune.errors import MessageRefused
from dptune.search.gp.points import FloatArray


@dataclass(frozen=True, repr=False, eq=False)
class Message:
    """One agent's private weights of one round, for the trusted server only; never printed."""

    agent: int  # n, from 0
    round: int  # t, from 0
    weights: npt.ArrayLike  # omega_n (M,)


def checked_message(message: object, *, agents: int, M: int) -> tuple[int, int, FloatArray]:
    """Return agent, round and a copy of the weights (M,) of a message that is valid by itself.

    Each attribute is read once. An error never quotes the message: the caller may have swapped the arguments.
    """
    if not isinstance(message, Message):
        raise MessageRefused("the server takes a Message(agent, round, weights).")
    agent, t, weights = whole(message.agent), whole(message.round), _vector(message.weights)
    if agent is None or not 0 <= agent < agents:
        raise MessageRefused(f"agents are numbered 0 to {agents - 1}, whole numbers; this message has no such agent.")
    if t is None or t < 0:
        raise MessageRefused("a round is a whole number from 0; this message has no such round.")
    if weights is None or weights.shape != (M,):
        raise MessageRefused(f"a message holds {M} real numbers in a vector, one per shared feature.")
    if not np.isfinite(weights).all():
        raise MessageRefused("a message must be finite: it held NaN or an infinity.")
    return agent, t, weights


def _vector(weights: Any) -> FloatArray | None:
    """Return a float64 copy of real numbers, or None."""
    try:
        raw = np.asarray(weights)
        with np.errstate(all="ignore"):  # a cast of long doubles may overflow, to an infinity
            return np.array(raw, dtype=np.float64) if raw.dtype.kind in "fiu" else None
    except Exception:  # noqa: BLE001 - an array library's message may quote the weights
        return None
