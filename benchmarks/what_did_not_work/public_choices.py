"""Other laws of a choice on public rows: `python -m benchmarks.what_did_not_work.public_choices`.

Finalists, price, mechanism and division of the budget are the package's, epsilon = 1 at delta = 1e-5. What differs is
what a person's losses are centred at, how they are bounded, and the odds beforehand. The radius is WIDER times the
quantile USUAL of what public rows differ, without a simulation. A cell is as in
:mod:`benchmarks.public.constants`, on the same splits.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from tqdm import tqdm

from benchmarks.data import Array
from benchmarks.public.constants import TABLES, collected, mean, planned
from benchmarks.public.measure import EXACT, PEOPLE, rivals
from benchmarks.public.tables import ANSWER, ONE, Table
from benchmarks.report import machine, markdown
from dptune.choice import planning, public
from dptune.choice.public import distances, law, prior

Centre = Callable[[Array], Array]  # losses (s, rows) -> (rows,)
CENTRES: dict[str, Centre] = {
    "median": lambda L: np.median(L, axis=0),
    "mean": lambda L: L.mean(axis=0),
    "mid-range": lambda L: (L.max(axis=0) + L.min(axis=0)) / 2,
    "loss under the best on public rows": lambda L: L[0],
}
Odds = Callable[[Array, float, float], Array]  # public losses (s, rows), r, eta -> (s,)
ODDS: dict[str, Odds] = {
    "e^-2z": lambda V, r, eta: prior(V, 1.0),
    "a public row counts as a person": lambda V, r, eta: _mixed(_cut(V, r) * eta / (4 * r)),
    "normal law of z": lambda V, r, eta: _mixed(distances(V) ** 2 / 2),
    "Student's law of z, 2 degrees": lambda V, r, eta: _mixed(1.5 * np.log1p(distances(V) ** 2 / 2)),
    "equal": lambda V, r, eta: np.full(len(V), 1 / len(V)),
}
LAWS = [
    *((centre, "cut", "e^-2z") for centre in CENTRES),
    *((centre, "shrunk", "e^-2z") for centre in ("median", "mid-range")),
    *(("median", "cut", odds) for odds in list(ODDS)[1:]),
]  # (centred at, bounded, odds)


def _mixed(exponents: Array) -> Array:
    return (1 - public.MIXED) * law(exponents) + public.MIXED / len(exponents)


def _cut(L: Array, r: float) -> Array:
    return np.asarray(np.clip(L - np.median(L, axis=0), -r, r).sum(axis=1))


def expected(table: Table, n: int, named: tuple[str, str, str]) -> float:
    """Return the judge's loss after a choice, by its exact law."""
    centre, bounded, odds = CENTRES[named[0]], named[1], ODDS[named[2]]
    made = planned(table, n, "epsilon = 1")
    V, L = (losses - centre(losses) for losses in (made.V, made.L))
    r = planning.WIDER * float(np.quantile(np.abs(V), planning.USUAL)) or 1.0
    if bounded == "cut":
        sums = np.clip(L, -r, r).sum(axis=1)
    else:  # a person's losses keep their order
        sums = (L * np.minimum(1.0, r / np.maximum(np.abs(L).max(axis=0), 1e-12))).sum(axis=1)
    return float(made.law(sums * made.eta / (4 * r) - np.log(odds(made.V, r, made.eta))) @ made.judge)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of collected losses")
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tables = collected(asked.tables)
    rows = []
    for named in tqdm(LAWS, mininterval=5):
        row = []
        for form in (ONE, ANSWER):
            for n in PEOPLE:
                logs: dict[str, list[float]] = {}
                for (task, _, of), table in tables.items():
                    if of == form:
                        ratio = expected(table, n, named) / rivals(table, n, "epsilon = 1")[EXACT]
                        logs.setdefault(task, []).append(math.log(ratio))
                row.append(mean(logs.values()))
        rows.append([*named, *row])
    head = ["centred at", "bounded", "odds", *(f"{form}, {n}" for form in ("one", "another") for n in PEOPLE)]
    print(json.dumps(machine()), markdown(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
