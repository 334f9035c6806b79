"""What the choice's constants change: `python -m benchmarks.public.constants`.

On one of the five splits on which STEEP and NEAR were chosen, and of the three on which MIXED, SHARES and USUAL_OF_PURE
were. One constant is changed, and the others are as in the package. A cell is the test loss over that of the exact
choice among TPE's trials, in expectation by the exact law of the choice, as a geometric mean over tasks. Losses are
those of :mod:`benchmarks.public.tables`; what `--tables` lacks is collected.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from tqdm import tqdm

from benchmarks.data import Array
from benchmarks.public.measure import BUDGETS, EXACT, rivals
from benchmarks.public.tables import ANSWER, ONE, Table, slots, stored
from benchmarks.report import machine, markdown
from dptune.choice import planning, public
from dptune.choice.public import Law, PublicLosses, centred, prior
from dptune.ledger import filter as ledger_filter
from dptune.ledger.filter import Allowance

SPLITS, TABLES = (100,), Path("out/public")
Place = tuple[int, str]  # n, budget
PLACES: list[Place] = [(300, "epsilon = 1"), (1000, "epsilon = 1"), (1000, "epsilon = 4")]
VARIANTS: list[tuple[ModuleType, str, object]] = [
    (public, "STEEP", 1.0), (public, "STEEP", 4.0),
    (public, "MIXED", 0.1), (public, "MIXED", 0.5),
    (public, "NEAR", 2.0), (public, "NEAR", 4.0),
    (public, "ALWAYS", 5), (public, "ALWAYS", 50),
    (planning, "MOST", 50), (planning, "BY_RANK", 0),
    (planning, "WIDER", 1.0), (planning, "WIDER", 2.0),
    (planning, "SHARES", (0.1, 0.2, 0.3, 0.4)), (planning, "SHARES", (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)),
    (ledger_filter, "PURE_UP_TO", 0.0), (ledger_filter, "PURE_UP_TO", 4.0),
    (planning, "USUAL_OF_PURE", (0.25, 0.05)), (planning, "ENOUGH", 0.0), (planning, "ENOUGH", math.inf),
]  # fmt: skip
Tables = dict[tuple[str, int, str], Table]  # (task, split, form) -> losses


@dataclass(frozen=True)
class Planned:
    """A choice with the package's defaults, among finalists.

    Attributes:
        public, plan: all public losses, and the plan.
        V: public losses (s, rows); L private ones (s, n).
        judge: mean losses of the judge's people (s,).
        near: how many are near ones.
        r, eta: radius, and what scales the losses.
        law: of the choice.
    """

    public: PublicLosses
    plan: planning.ChoicePlan
    V: Array
    L: Array
    judge: Array
    near: int
    r: float
    eta: float
    law: Law

    @property
    def chosen(self) -> Array:
        """The law of the choice (s,)."""
        return self.law(self.sums * self.eta / (4 * self.r) - np.log(prior(self.V, self.plan.public_weight)))

    @property
    def sums(self) -> Array:
        """The people's sums of centred losses, cut to the radius (s,)."""
        return np.clip(centred(self.L, self.near), -self.r, self.r).sum(axis=1)


def planned(table: Table, n: int, budget: str, weight: float = 1.0, share: float | None = None) -> Planned:
    """Return the choice as a fresh ledger plans it."""
    losses, stated = PublicLosses.of(table.public, None), BUDGETS[budget]
    rest = Allowance(stated.mu, stated.mu, (), stated if stated.stated_epsilon is not None else None)
    wanted = planning.Wanted(mu=None, public_weight=weight, estimate_share=share, finalists=None)
    plan = planning.plan(losses, rest, wanted, n=n, default=0, weight=1 / n)
    kept = list(plan.finalists)
    L = np.nan_to_num(table.private[kept, :n].astype(float), nan=losses.high).clip(losses.low, losses.high)
    V, judge = losses.clipped[kept], table.judge[kept]
    return Planned(losses, plan, V, L, judge, plan.near, plan.radius, plan.eta, plan.law)


def expected(table: Table, n: int, budget: str, weight: float = 1.0) -> float:
    """Return the judge's loss after a choice, by its exact law."""
    made = planned(table, n, budget, weight)
    return float(made.chosen @ made.judge)


def without_noise(table: Table, n: int, budget: str, weight: float) -> float:
    """Return the judge's loss of the finalist with the smallest sum of cut losses: what noise does not explain."""
    made = planned(table, n, budget, weight)
    return float(made.judge[made.sums.argmin()])


def collected(folder: Path) -> Tables:
    """Return the losses of the splits, collected where ``folder`` lacks them."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(itertools.product(slots(), SPLITS, (ONE, ANSWER)))
    return {(task, split, form): stored(folder, task, split, form) for task, split, form in tqdm(wanted, mininterval=5)}


def mean(logs: Iterable[list[float]]) -> str:
    """Return the geometric mean over tasks, each with the logarithms of its splits."""
    return f"{math.exp(float(np.mean([np.mean(of_task) for of_task in logs]))):.3f}"


def row(tables: Tables) -> list[str]:
    """Return the cells of a table's row: one population, then another one."""
    logs: dict[tuple[str, Place], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (task, _, form), table in tables.items():
        for place in PLACES:
            ratio = expected(table, *place) / rivals(table, *place)[EXACT]
            logs[form, place][task].append(math.log(ratio))
    return [mean(logs[form, place].values()) for form in (ONE, ANSWER) for place in PLACES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of collected losses")
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tables = collected(asked.tables)
    rows = [["as it is", "", *row(tables)]]
    for module, name, value in tqdm(VARIANTS, mininterval=5):
        with patch.object(module, name, value):
            rows.append([f"`{name}`", str(value), *row(tables)])
    head = ["constant", "value", *(f"{form}, {n}, {budget}" for form in ("one", "another") for n, budget in PLACES)]
    print(json.dumps(machine()), markdown(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
