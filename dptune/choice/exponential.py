"""The choice among candidates whose losses the privatizer stores: one release by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy.mechanism import DEFAULT_ODDS, NoisyMin, odds_for
from dptune.privacy.privatizer import LossPrivatizer


def exponential(
    points: Sequence[str], privatizer: LossPrivatizer, mu: float, scope: str, *, default: int | None = None
) -> int:
    """Choose by one release: the index of a small mean (:class:`dptune.privacy.mechanism.NoisyMin`).

    The candidate at ``default`` has ten elevenths of the odds beforehand.
    """
    query = privatizer.means_query(points, mu)
    prior = [] if default is None else odds_for(default, len(points))
    return int(privatizer.release(query, scope=scope, key="index", mechanism=partial(NoisyMin, prior=prior)).scalar)


def lead(n: int, mu: float, candidates: int, *, default: bool = False) -> float:
    """Return by how much, in widths of the clip, the best mean loss must lead for :func:`exponential` to find it.

    At 95%, whatever the other losses are: its odds are at least e^(eta n lead / 2) to the sum of the others' odds, to
    which one that is kept as the ``default`` adds.
    """
    others = max(candidates - 1, 1) * (1 + DEFAULT_ODDS * default) - default
    return 2 * math.log(19 * others) / (bounded_range_from_mu(mu) * n)
