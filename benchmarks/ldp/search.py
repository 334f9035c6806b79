"""The tables of the search for the default exploration and k, from the runs stored in docs/results/ldp_multiplier.json.

Keys are "T=... | lambda=..." -> algorithm -> multiplier -> runs, and "T=... | plays" -> k -> runs. A run is the regret
over that of uniform play; the runs of a seed, one per kernel and epsilon, follow each other, and every cell begins with
the same seed. So cells with different numbers of seeds are compared on the seeds that both have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.ldp.runs import ALGORITHMS, mean_error, table

RUNS_PER_SEED = 6  # two kernels, three epsilons
MATCHED, PAPERS, PLAYS = "T=10000 | lambda=matched", "T=10000 | lambda=1.0", "T=10000 | plays"
Cells = Mapping[str, list[float]]


def cell(runs: Cells, name: str) -> str:
    """Mean ± standard error over runs [seeds]."""
    return f"{mean_error(runs[name])} [{len(runs[name]) // RUNS_PER_SEED}]" if name in runs else ""


def multiplier_tables(data: Mapping[str, Any]) -> str:
    """Regret by multiplier, one table for each lambda."""
    parts = []
    for key, by in data.items():
        if "lambda" in key:
            grid = sorted({c for runs in by.values() for c in runs}, key=float)
            rows = [[c, *(cell(by[a], c) for a in by)] for c in grid]
            parts.append(f"*{key}*\n\n{table(['exploration', *by], rows)}")
    return "\n\n".join(parts)


def plays_table(data: Mapping[str, Any]) -> str:
    """MoMA's regret by k."""
    runs = data[PLAYS]
    return table(["k", *runs], [["MoMA", *(cell(runs, k) for k in runs)]])


def paired_table(data: Mapping[str, Any]) -> str:
    """Each default against the multiplier that comes closest to it, at either lambda, and k against its neighbours."""
    rows = []
    for name, algorithm in ALGORITHMS.items():
        default = f"{algorithm.EXPLORATION:g}"
        runs = data[MATCHED][name][default]
        others = {c: r for c, r in data[MATCHED][name].items() if c != default}
        rows.append([f"{name} {default}", *_closest(runs, others, "")])
        rows.append([f"{name} {default}", *_closest(runs, data[PAPERS][name], ", λ=1")])
    ks = data[PLAYS]
    rows += [["MoMA k=5", *_closest(ks["5"], {f"k={k}": ks[k]}, "")] for k in ("1", "3", "11")]
    return table(["default", "against", "seeds", "default's regret", "the other's", "difference"], rows)


def _closest(runs: list[float], others: Cells, what: str) -> list[str]:
    """The cell with the least regret relative to the default's, on the seeds that both have."""
    compared = {c: _difference(runs, other) for c, other in others.items()}
    best = min(compared, key=lambda c: float(compared[c].mean()))
    n = len(compared[best])
    means = [f"{np.mean(values[:n]):.3f}" for values in (runs, others[best])]
    return [best + what, str(n // RUNS_PER_SEED), *means, mean_error(compared[best].tolist())]


def _difference(runs: list[float], other: list[float]) -> Any:
    n = min(len(runs), len(other))
    return np.array(other[:n]) - np.array(runs[:n])
