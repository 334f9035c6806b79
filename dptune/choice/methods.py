"""The two ways to choose among candidates whose losses the privatizer holds, and which to use by default."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from dptune.choice.race import Race
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy.mechanism import DEFAULT_ODDS, noisy_min, odds_for
from dptune.privacy.privatizer import LossPrivatizer

Method = Callable[[Sequence[str], LossPrivatizer, float, str], int]  # points, privatizer, mu, scope -> index

FEW = 100  # n mu, up to which the race does better; found by ``python -m benchmarks.centred.selection --rule``


def exponential(
    points: Sequence[str], privatizer: LossPrivatizer, mu: float, scope: str, *, default: int | None = None
) -> int:
    """Choose by one release: the index of a small mean (:func:`dptune.privacy.mechanism.noisy_min`).

    The candidate at ``default`` has ten elevenths of the odds beforehand.
    """
    query, prior = privatizer.means_query(points, mu), [] if default is None else odds_for(default, len(points))
    return int(privatizer.release(query, scope=scope, key="index", mechanism=partial(noisy_min, prior=prior)).scalar)


def race(points: Sequence[str], privatizer: LossPrivatizer, mu: float, scope: str) -> int:
    """Choose by rounds of joint answers about the survivors (:class:`dptune.choice.race.Race`)."""
    racing = Race(points, mu=mu, loss_range=privatizer.loss_range)
    while (asked := racing.question()) is not None:
        released = privatizer.release(asked.query, scope=scope, key=asked.key, note=asked.note)
        racing.learn(released.value, released.sigma)
    return points.index(racing.alive[0])


METHODS: dict[str, Method] = {"exponential": exponential, "race": race}


def usual_method(n: int, mu: float) -> Method:
    """Return the method that does better with ``n`` people and a budget ``mu``; docs/centred.md has the figures.

    Where noise is large, the race's smaller ball pays; where it is small, the bias of clipping to the ball costs.
    """
    return exponential if n * mu > FEW else race


def lead(n: int, mu: float, candidates: int, *, default: bool = False) -> float:
    """Return by how much, in widths of the clip, the best mean loss must lead for :func:`exponential` to find it.

    At 95%, whatever the other losses are: its odds are at least e^(eta n lead / 2) to the sum of the others' odds, to
    which one that is kept as the ``default`` adds.
    """
    others = max(candidates - 1, 1) * (1 + DEFAULT_ODDS * default) - default
    return 2 * math.log(19 * others) / (bounded_range_from_mu(mu) * n)
