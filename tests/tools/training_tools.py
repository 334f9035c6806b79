"""Ledgers of a selection for tests: two with a known number of repeats, and one that stores nothing."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from dptune.training.repeats import Selected, repeat_and_select

N, LAW, ONE = 40, Repeats.geometric(5), TrainingPlan(2.0, 0.1, 20)


def certain(times: int, law: Repeats = LAW) -> Repeats:
    """Return a law that draws the same number at any time."""
    return type("Certain", (Repeats,), {"draw": lambda self: times})(law.mean, law.shape)


def ledgers(
    folder: Path, *, law: Repeats = LAW, times: int | None = None, kind: type[TrainingLedger] = TrainingLedger
) -> list[TrainingLedger]:
    """Return those of the people who train and of N who score, in files."""
    train = kind(folder / "train.db", SelectionPlan(law, ONE), n=90)
    val = kind(folder / "val.db", SelectionPlan(law, score_mu=0.5), n=N, dataset="scorers")
    if times is not None:
        known = certain(times, law)
        train.plan, val.plan = replace(train.plan, repeats=known), replace(val.plan, repeats=known)
    return [train, val]


class Unwritten(TrainingLedger):
    """A ledger of one selection that keeps nothing."""

    identity, n = "", 0

    def __init__(self, plan: SelectionPlan, n: int) -> None:
        self.plan, self.n = plan, n

    def begin_selection(self, *_: object, **__: object) -> Any:
        return type("Charge", (), {"value": (), "private": True})()

    def count(self) -> int:
        return 0

    def fix(self, scope: str, name: str, value: object) -> object:
        return value


def selections(
    once: Callable[[], Any], count: int, *, law: Repeats, n: int, score_mu: float, **settings: Any
) -> list[Selected]:
    """Make ``count`` of them: the whole of ``repeat_and_select``."""
    ledger = Unwritten(SelectionPlan(law, score_mu=score_mu), n)
    return [repeat_and_select(once, [ledger], **{"clip": (0.0, 1.0), **settings}) for _ in range(count)]


def proved(a: np.ndarray, b: np.ndarray, delta: float) -> float:
    """Epsilon at delta proved with confidence 1 - 1e-6 in the second half; the first chooses the thresholds."""
    found = 0.0
    for x, y in ((a, b), (b, a), (-a, -b), (-b, -a)):
        t = max(np.quantile(x, np.linspace(0.02, 0.98, 49)), key=lambda t: ratio(x[::2] > t, y[::2] > t, delta, 0.1))
        found = max(found, ratio(x[1::2] > t, y[1::2] > t, delta, 1e-6))
    return found


def ratio(hits: np.ndarray, misses: np.ndarray, delta: float, error: float) -> float:
    k, m, n = hits.sum(), misses.sum(), len(hits)
    low = float(beta.ppf(error / 2, k, n - k + 1)) if k else 0.0
    high = float(beta.ppf(1 - error / 2, m + 1, n - m)) if m < n else 1.0
    return math.log((low - delta) / high) if low > delta else 0.0
