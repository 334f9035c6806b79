"""The table by which the choice's constants were chosen: `python -m benchmarks.public.constants`.

On splits that no other table uses: one constant is changed, the others are as in the package. A cell is the test loss
over that of the exact choice among TPE's trials, in expectation by the exact law of the choice, as a geometric mean
over tasks. Losses are those of :mod:`benchmarks.public.tables`, collected where `--tables` does not hold them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from scipy.special import ndtr
from tqdm import tqdm

from benchmarks.public.measure import BUDGETS, EXACT, rivals
from benchmarks.public.tables import Table, slots, stored
from benchmarks.report import machine, markdown
from dptune.choice import planning, public
from dptune.choice.public import PublicLosses, centred, law, prior
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import bounded_range_from_mu

Variant = tuple[ModuleType, str, float | tuple[float, ...]]
Place = tuple[int, str]  # n, budget
PLACES: list[Place] = [
    (300, "mu = 0.25"), (300, "epsilon = 1"), (300, "epsilon = 4"), (1000, "epsilon = 1"), (1000, "epsilon = 4"),
]  # fmt: skip
VARIANTS: list[Variant] = [
    (public, "STEEP", 0.0), (public, "STEEP", 1.0), (public, "STEEP", 4.0),
    (public, "MIXED", 0.01), (public, "MIXED", 0.5),
    (public, "NEAR", 2.0), (public, "NEAR", 2.5), (public, "NEAR", 4.0),
    (public, "ALWAYS", 5), (public, "ALWAYS", 50),
    (planning, "MOST", 50), (planning, "MOST", 199),
    (planning, "BY_RANK", 0), (planning, "BY_RANK", 50),
    (planning, "WIDER", 0.0), (planning, "WIDER", 1.0), (planning, "WIDER", 2.0),
    (planning, "SMALL_SHARES", ()), (planning, "SMALL_SHARES", (0.02,)), (planning, "ENOUGH", math.inf),
]  # fmt: skip


def expected(table: Table, place: Place) -> tuple[float, float]:
    """Return the judge's loss after a choice with the package's defaults, and the chance that it says "better"."""
    n, budget = place[0], BUDGETS[place[1]]
    losses = PublicLosses.of(table.public, None)
    L = np.clip(np.nan_to_num(table.private[:, :n].astype(float), nan=losses.high), losses.low, losses.high)
    rest = Allowance(budget.mu, budget.mu, (), budget if budget.stated_epsilon is not None else None)
    wanted = planning.Wanted(mu=None, public_weight=1.0, estimate_share=None, finalists=None)
    plan = planning.plan(losses, rest, wanted, n=n, default=0, unit=lambda mu: 1 / (n * mu))
    kept, r, eta = list(plan.finalists), plan.radius, bounded_range_from_mu(plan.choice_mu)
    exponents = np.clip(centred(L[kept]), -r, r).sum(axis=1) * eta / (4 * r)
    odds = law(exponents - np.log(prior(losses.clipped[kept], 1.0)))
    apart, sigma = plan.estimate_radius, 2 * plan.estimate_radius / (n * plan.estimate_mu)
    gains = np.clip(L[0] - L[kept], -apart, apart).mean(axis=1)
    said = np.where(np.array(kept) == 0, 0.0, ndtr(gains / sigma - planning.Z_95))
    return float(odds @ table.judge[kept]), float(odds @ said)


def row(tables: dict[tuple[str, int, bool], Table]) -> list[str]:
    """Return the cells of a table's row: one population, then the shifted form."""
    logs: dict[tuple[bool, Place], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (task, _, shifted), table in tables.items():
        for place in PLACES:
            ratio = expected(table, place)[0] / rivals(table, *place)[EXACT]
            logs[shifted, place][task].append(math.log(ratio))
    return [_mean(logs[shifted, place].values()) for shifted in (False, True) for place in PLACES]


def _mean(logs: Iterable[list[float]]) -> str:
    return f"{math.exp(float(np.mean([np.mean(of_task) for of_task in logs]))):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--tables", type=Path, default=Path("out/public"), help="folder of collected losses")
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    asked.tables.mkdir(parents=True, exist_ok=True)
    wanted = list(itertools.product(slots(), asked.splits, (False, True)))
    tables = {
        (task, split, shifted): stored(asked.tables, task, split, shifted=shifted)
        for task, split, shifted in tqdm(wanted, mininterval=5)
    }
    rows = [["as it is", "", *row(tables)]]
    for module, name, value in tqdm(VARIANTS, mininterval=5):
        with patch.object(module, name, value):
            rows.append([f"`{name}`", str(value), *row(tables)])
    head = ["constant", "value", *(f"{form}, {n}, {budget}" for form in ("one", "another") for n, budget in PLACES)]
    print(json.dumps(machine()), markdown(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
