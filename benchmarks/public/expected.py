"""Singles, averages and weights in expectation: `python -m benchmarks.public.expected [--splits 100 101]`.

One population, and public rows from the lowest 35% of the column that best predicts the answer. The law of a choice is
exact, so no noise is drawn. A cell is the judge's loss over that of the exact choice among all single candidates, as a
geometric mean over tasks and splits. Then made-up families whose candidates' means on the two populations have a
correlation of 1, .5, 0 or -1. What `<out>/results/public_expected.jsonl` has is not computed again; losses are those of
:mod:`benchmarks.public.tables`, and what `--tables` lacks is collected.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from tqdm import tqdm

from benchmarks.data import Array
from benchmarks.public.constants import PLACES, expected, without_noise
from benchmarks.public.measure import BUDGETS, DELTA, read
from benchmarks.public.tables import ANSWER, AVERAGES, FORMS, ONE, Table, slots, stored
from benchmarks.report import DOCS, machine, markdown
from dptune import Budget
from dptune.choice import planning

KEPT = "public_expected.jsonl"
WEIGHT, FAMILY_WEIGHTS = 0.5, (0.5, 0.1)
OURS, WITH, LOW, BOTH, QUIET = "defaults", "averages", "weight", "averages, weight", "weight, without noise"
NAMES = {
    "cv": "cross-validation on public rows alone (epsilon 0)",
    **{f"average {size}": f"average of the {size} best on public rows (epsilon 0)" for size in AVERAGES[1:3]},
    "average half": "average of the best half on public rows (epsilon 0)",
    OURS: "**defaults**", WITH: "**`averages=True`**", LOW: f"`public_weight={WEIGHT}`",
    QUIET: f"`public_weight={WEIGHT}`, exact choice among its cut finalists",
    BOTH: f"`averages=True`, `public_weight={WEIGHT}`", "exact": "exact choice among singles and averages",
}  # fmt: skip
RHOS, PEOPLE, EPSILONS, SEEDS = (1.0, 0.5, 0.0, -1.0), (100, 300, 1000), (0.5, 1.0, 4.0), 3


def ways(table: Table, n: int, budget: str) -> dict[str, float]:
    """Return the judge's losses of each way to choose over that of the exact choice among single candidates."""
    low, high = table.clip
    both = table.joined()
    V, L, joined = (
        np.nan_to_num(losses.astype(float), nan=high).clip(low, high).mean(axis=1)
        for losses in (table.public, table.private[:, :n], both.private[:, :n])
    )
    found = {"cv": table.judge[V.argmin()], "exact": both.judge[joined.argmin()]}
    found |= {f"average {size}": both.judge[len(V) + place] for place, size in enumerate(AVERAGES)}
    found |= {OURS: expected(table, n, budget), LOW: expected(table, n, budget, WEIGHT)}
    found[WITH] = expected(table.with_averages(), n, budget)
    found[BOTH] = expected(table.with_averages(WEIGHT), n, budget, WEIGHT)
    found[QUIET] = without_noise(table, n, budget, WEIGHT)
    return {way: float(loss / table.judge[L.argmin()]) for way, loss in found.items()}


def rows_of(results: list[dict[str, Any]], form: str) -> list[list[str]]:
    """Return the table's rows: geometric means, and the largest ratio of all."""
    rows = []
    for way, name in NAMES.items():
        row = [name]
        for n, budget in PLACES:
            logs: dict[str, list[float]] = defaultdict(list)
            for one in results:
                if (one["form"], one["n"], one["budget"]) == (form, n, budget):
                    logs[one["task"]].append(math.log(one["ways"][way]))
            mean = np.mean([np.mean(of_task) for of_task in logs.values()])
            row.append(f"{math.exp(mean):.3f}, {math.exp(max(max(of_task) for of_task in logs.values())):.2f}")
        rows.append(row)
    return rows


def tables_of(results: list[dict[str, Any]]) -> dict[str, str]:
    """Return the two tables of the page."""
    head = ["way to choose", *(f"{n}, {budget}" for n, budget in PLACES)]
    return {form: markdown(head, rows_of(results, form)) for form in (ONE, ANSWER)}


def readme(results: list[dict[str, Any]]) -> str:
    """Return README's table: by how much the mean loss lies above the exact choice's, in one population / another."""
    named = {
        "cv": "cross-validation, ε = 0", "average half": "average of the best half, ε = 0", OURS: "**dptune**",
        WITH: "**dptune**, averages", BOTH: f"**dptune**, averages, weight {WEIGHT}",
    }  # fmt: skip
    cells = [dict(zip(NAMES, rows_of(results, form), strict=True)) for form in (ONE, ANSWER)]
    rows = []
    for way, name in named.items():
        above = [[f"{float(cell.split(',')[0]) - 1:.1%}" for cell in of[way][1:]] for of in cells]
        rows.append([name, *map(" / ".join, zip(*above, strict=True))])
    return markdown(["way", *(f"{n:,}, {budget.replace('epsilon', 'ε')}" for n, budget in PLACES)], rows)


def family(rho: float, n: int, seed: int, m: int = 120, rows: int = 300) -> Table:
    """Candidates' means on the two populations have the correlation rho; losses of a row are correlated."""
    rng = np.random.default_rng([seed, int(10 * rho) + 20])
    public = rng.standard_normal(m)
    means = (public, rho * public + math.sqrt(1 - rho**2) * rng.standard_normal(m))

    def losses(mean: Array, people: int) -> Array:
        level = (mean - mean.min()) * 0.15 + 0.3
        factors = 0.15 * rng.standard_normal((m, 3)) @ rng.standard_normal((3, people))
        shared, own = 0.3 * rng.standard_normal(people), 0.1 * rng.standard_normal((m, people))
        return np.maximum(0.0, level[:, None] + factors + shared + own)

    V, L, judge = losses(means[0], rows), losses(means[1], n), losses(means[1], 4000).mean(axis=1)
    return Table(V, L, judge, (0.0, 2.0), 1.0)


def families() -> str:
    """Return the share kept of what the exact choice gains over the median candidate."""
    rows = []
    for rho in RHOS:
        for n in PEOPLE:
            for epsilon in EPSILONS:
                budget = f"epsilon = {epsilon:g}"
                kept = []
                for seed in range(SEEDS):
                    made = family(rho, n, seed)
                    best, usual = made.judge[made.private.mean(axis=1).argmin()], float(np.median(made.judge))
                    found = [made.judge[made.public.mean(axis=1).argmin()]]
                    stated = {budget: Budget.approximate_dp(epsilon, DELTA)}
                    with patch.dict(BUDGETS, stated):
                        with patch.object(planning, "FAR_FROM", math.inf):
                            found.append(expected(made, n, budget))
                        found += [expected(made, n, budget, weight) for weight in (1.0, *FAMILY_WEIGHTS)]
                    kept.append([(usual - loss) / (usual - best) for loss in found])
                rows.append([f"{rho:g}", str(n), f"{epsilon:g}", *(f"{share:.2f}" for share in np.mean(kept, axis=0))])
    weights = [f"`public_weight={w}`" for w in FAMILY_WEIGHTS]
    head = ["correlation", "n", "epsilon", "cross-validation", "without far finalists", OURS, *weights]
    return markdown(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, nargs="+", default=[100, 101])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[ONE, ANSWER], help="of benchmarks.public.tables")
    parser.add_argument("--tables", type=Path, default=Path("out/public"), help="folder of collected losses")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = asked.out / "results" / KEPT
    results = read(path)
    done = {(one["task"], one["split"], one["form"], one["n"], one["budget"]) for one in results}
    wanted = [(task, split, form) for split in asked.splits for form in asked.forms for task in slots()]
    asked.tables.mkdir(parents=True, exist_ok=True)
    for task, split, form in tqdm(wanted, mininterval=5):
        missing = [place for place in PLACES if (task, split, form, *place) not in done]
        table = stored(asked.tables, task, split, form) if missing else None
        for n, budget in missing:
            one = {"task": task, "split": split, "form": form, "n": n, "budget": budget}
            results.append({**one, "ways": ways(table, n, budget)} if table else one)
            with path.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    print(json.dumps(machine()), *tables_of(results).values(), readme(results), families(), sep="\n\n")


if __name__ == "__main__":
    main()
