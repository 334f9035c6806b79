"""What the server computes from the messages: clip each, weigh, sum over the sample. Pure functions of arrays.

Dai, Low, Jaillet (NeurIPS 2021), Algorithm 1, lines 4-7 without the noise. A sum over an empty sample is 0. Sums
are never divided by the number of sampled agents or of messages.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def clipped(messages: Matrix, clip: float) -> Matrix:
    """Scale every row of (N, M) finite messages back to norm <= clip; shorter rows stay as they are.

    Dividing by the largest entry first keeps the squares of huge and tiny entries from overflowing or vanishing.
    """
    largest = np.abs(messages).max(axis=1)  # (N,)
    unit = messages / np.where(largest > 0, largest, 1.0)[:, None]
    norms = np.sqrt(np.einsum("nm,nm->n", unit, unit))  # (N,) between 1 and sqrt(M), or 0
    return np.asarray(unit * np.minimum(largest, clip / np.maximum(norms, 1.0))[:, None])


def weighted_sums(messages: Matrix, sample: Mask, weights: Matrix, *, clip: float, q: float) -> Matrix:
    """Row i: sum over the sampled n of (phi_n^(i) / q) times the clipped message of n; (P, M).

    Args:
        messages: (N, M), 0 for an agent that sent nothing.
        sample: (N,) who is in S_t; secret.
        weights: phi (N, P), public.
        clip: S / sqrt(P).
        q: sampling probability.
    """
    chosen = np.where(sample[:, None], weights, 0.0) / q  # (N, P)
    return np.asarray(chosen.T @ clipped(messages, clip))
