"""A clip that is chosen privately: losses to choose it from, and its statistic by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dptune.privacy.auto_clip import ClipRule


def losses(scale: float = 1.0, n: int = 100, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).exponential(scale, n)


def by_hand(values: Any, weights: Any, rule: ClipRule) -> list[float]:
    """u of each bound, by counting."""
    known = [v if math.isfinite(v) else rule.never for v in values]

    def share_above(t: float) -> float:
        return sum(w for v, w in zip(known, weights, strict=True) if v > t)

    u = []
    for j, t in enumerate(rule.over):
        near = rule.above + rule.far - (share_above(t / 2) if j >= 8 else 1.0)
        u.append(max(abs(share_above(t) - rule.above), near))
    return u
