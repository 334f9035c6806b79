"""Simulated runs of the three algorithms, and how their settings are named in the tables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.ldp.problems import Problem, told_values
from dptune.local.bandits.ata import LDPATA
from dptune.local.bandits.bandit import LDPSettings, LocalBandit
from dptune.local.bandits.moma import LDPMoMA
from dptune.local.bandits.replies import Replies
from dptune.local.bandits.tgp import LDPTGP

Array = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[2]
RESULTS, FIGURES = ROOT / "docs" / "results", ROOT / "docs" / "figures"
ALGORITHMS: dict[str, type[LocalBandit]] = {"TGP": LDPTGP, "ATA": LDPATA, "MoMA": LDPMoMA}
LEADING = {"TGP": 2 * 2**0.5, "ATA": 4.0, "MoMA": 9.0}  # leading constants of the theorems' beta
POINTS = 60  # of a regret curve


@dataclass(frozen=True)
class Variant:
    """A way to set the constants.

    Attributes:
        name: in the table.
        settings: (algorithm's name, plain settings) -> settings.
    """

    name: str
    settings: Callable[[str, LDPSettings], LDPSettings]


def _theorem(_: str, s: LDPSettings) -> LDPSettings:
    plays = math.ceil(24 * math.log(4 * math.e * s.horizon / s.delta))
    return replace(s, lam=1.0, exploration=1.0, plays=plays)


def _order_wise(algorithm: str, s: LDPSettings) -> LDPSettings:
    return replace(s, lam=1.0, exploration=1 / LEADING[algorithm], plays=11)


THEOREM = Variant("theorem constants", _theorem)
ORDER_WISE = Variant("order-wise", _order_wise)
DEFAULT = Variant("dptune defaults", lambda _, s: s)


def multiplied(c: float, lam: float | None) -> Variant:
    return Variant(f"{c:g}", lambda _, s: replace(s, exploration=c, lam=lam))


def checkpoints(T: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(T / POINTS, T, POINTS).astype(np.int64))


def play(
    algorithm: str, problem: Problem, replies: Replies, T: int, seed: int, variant: Variant, **more: Any
) -> tuple[Array, float]:
    """Cumulative regret at the checkpoints (P,), and the regret of one play of the recommendation."""
    plain = LDPSettings(replies, problem.kernel, horizon=T, seed=seed, **more)
    bandit = ALGORITHMS[algorithm](problem.points, variant.settings(algorithm, plain))
    reply, gaps = told_values(problem, replies, T, seed), (problem.f.max() - problem.f).tolist()
    regret, total, marks = np.zeros(T), 0.0, checkpoints(T)
    for t in range(T):
        j = bandit.ask()
        total += gaps[j]
        regret[t] = total
        bandit.tell(j, reply(t, j))
    return regret[marks - 1], gaps[bandit.recommend()]


def save(name: str, data: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(_lines(data))


def _lines(data: dict[str, Any]) -> str:
    """JSON text with one line per key: readable, and small in a diff."""
    body = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in data.items())
    return "{\n" + body + "\n}\n"


def load(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def mean_error(values: list[float], digits: int = 3) -> str:
    """Mean and standard error."""
    if len(values) < 2:
        return f"{np.mean(values):.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"
