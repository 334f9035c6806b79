"""What bounds one person's part in a release: the norm or the ends that a query states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dptune.privacy.query import Ball, Interval, NormQuery, Query

Vector = npt.NDArray[np.float64]


def per_person(g: Vector, query: Query, centre: float) -> Vector:
    """Each person's bounded contribution less the centre, (p, people), from the columns of g."""
    if isinstance(query, NormQuery):  # a norm that is NaN or infinite compares as too large
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", g, g)) <= query.radius, dtype=np.float64)[None, :] - centre
    return _clip(g, _centred(query.clip, centre))


def _centred(clip: Interval | Ball, centre: float) -> Interval | Ball:
    return replace(clip, low=clip.low - centre, high=clip.high - centre) if isinstance(clip, Interval) else clip


def _clip(g: Vector, clip: Interval | Ball) -> Vector:
    """Clip each person's column of g (p, people); what overflowed becomes the upper end or zero."""
    if isinstance(clip, Interval):
        finite = np.nan_to_num(g, nan=clip.high, posinf=clip.high, neginf=clip.low)
        return np.asarray(np.clip(finite, clip.low, clip.high))
    norms = np.sqrt(np.einsum("ij,ij->j", g, g))  # (people,)
    factor = np.minimum(1.0, clip.radius / np.maximum(norms, np.finfo(float).tiny))
    finite = np.isfinite(norms)
    if finite.all():
        return np.asarray(g * factor)
    return np.asarray(np.where(finite, g, 0.0) * np.where(finite, factor, 0.0))
