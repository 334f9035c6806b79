"""What each way to choose ends with, on the tables of :mod:`benchmarks.public.tables`.

"dptune" is :func:`dptune.select` with ``public_losses=``, as a user calls it: its defaults, a clip read off the public
rows, a ledger on disk, unseeded noise. The other ways are given the task's true range of a loss. Private ones among
random candidates are in expectation, by the exact law of the better mechanism: permute-and-flip for a budget in
(epsilon, delta), the exponential mechanism for one in GDP.
"""

from __future__ import annotations

import json
import logging
import math
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dptune
from benchmarks.data import Array
from benchmarks.public import tables
from benchmarks.public.tables import SEARCHED, Table
from dptune.choice.public import flip_law, law
from dptune.ledger.gdp import bounded_range_from_mu

DELTA = 1e-5
BUDGETS: dict[str, dptune.Budget] = {
    "mu = 0.25": dptune.Budget.gdp(mu=0.25),
    "mu = 1": dptune.Budget.gdp(mu=1.0),
    "epsilon = 1": dptune.Budget.approximate_dp(epsilon=1, delta=DELTA),
    "epsilon = 4": dptune.Budget.approximate_dp(epsilon=4, delta=DELTA),
}
PEOPLE = (300, 1000)
DRAWS = {budget: 9 if budget == "epsilon = 1" else 3 for budget in BUDGETS}  # more where there is more noise
OURS, CV, FREE, EXACT, EXACT_ALL, RANDOM, DEFAULT, CONSTANT = (
    "dptune", "cross-validation alone", "average of the best half", "exact choice", "exact choice among all",
    "choice among random", "default", "constant",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One draw of one choice."""

    task: str
    split: int
    form: str
    n: int
    budget: str
    draw: int


def cells(tasks: list[str], splits: list[int], form: str) -> Iterator[Cell]:
    """The benchmark's cells, split by split."""
    for split in splits:
        for task in tasks:
            for n in PEOPLE:
                for budget in BUDGETS:
                    for draw in range(DRAWS[budget]):
                        yield Cell(task, split, form, n, budget, draw)


def measure(cell: Cell, table: Table) -> dict[str, Any]:
    """Return the cell's choice: the judge's loss, the verdict, and what it is compared with on the same people."""
    private = table.private[:, : cell.n].astype(float)
    with tempfile.TemporaryDirectory() as folder:
        ledger = dptune.PrivacyLedger(Path(folder) / "ledger.db", BUDGETS[cell.budget])
        privatizer = dptune.LossPrivatizer(ledger, n=cell.n)
        made = dptune.select(
            list(private), privatizer, name="choice", public_losses=table.public, default_place=0, even_if_hopeless=True
        )
        low, high = privatizer.interval.low, privatizer.interval.high
    found: dict[str, Any] = {**asdict(cell), "loss": float(table.judge[made.index]), "verdict": made.verdict}
    if (gain := made.improvement) is not None:
        D = np.clip(private[0], low, high) - np.clip(private[made.index], low, high)  # (n,)
        cut = np.clip(D, -gain.radius, gain.radius)
        half = gain.value - gain.interval()[0]
        least, grows = gain.at_least, math.copysign(1.0, gain.value)
        found["said"] = bool(abs(gain.value - cut.mean()) <= half if least is None else grows * D.mean() >= least)
        found |= {"improvement": gain.value, "half": half, "true": float(D.mean()), "cut": float(cut.mean())}
        found["unclipped"] = float((private[0] - private[made.index]).mean())
    return found


def rivals(table: Table, n: int, budget: str) -> dict[str, float]:
    """Return the judge's losses of the other ways to choose, for n people and a budget.

    The average of the best half is the strongest way without private people, where it is known.
    """
    low, high = table.clip
    V, L = (np.clip(np.nan_to_num(losses, nan=high), low, high) for losses in (table.public, table.private[:, :n]))
    random, judge = tables.RANDOM, table.judge
    averages = table.averages.get(1.0)
    free = {} if averages is None else {FREE: float(averages.judge[tables.AVERAGES.index("half")])}
    return {
        **free,
        DEFAULT: float(judge[0]),
        CONSTANT: table.constant,
        CV: float(judge[np.argmin(V[SEARCHED].mean(axis=1))]),
        EXACT: float(judge[np.argmin(L[SEARCHED].mean(axis=1))]),
        EXACT_ALL: float(judge[np.argmin(L.mean(axis=1))]),
        RANDOM: float(_choice(L[random].sum(axis=1) / (2 * (high - low)), BUDGETS[budget]) @ judge[random]),
    }


def _choice(sums: Array, stated: dptune.Budget) -> Array:
    """Return the law of one choice that takes all of a budget, by sums of which a person moves each by 1/2."""
    if stated.stated_epsilon is None:
        return law(bounded_range_from_mu(stated.mu) * sums)
    return flip_law(stated.stated_epsilon * sums)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the stored results."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def quiet() -> None:
    """Say nothing about each new ledger."""
    logging.getLogger("dptune").setLevel(logging.ERROR)
