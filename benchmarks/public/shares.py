"""Loss against power, by the share of the estimate: `python -m benchmarks.public.shares [--splits 100 101]`.

A larger share shows an improvement over the default more often, and leaves the choice less. Both are computed by the
exact laws of choice and estimate, as the package plans them, so no noise is drawn: the judge's loss over that of the
exact choice (geometric mean over tasks and splits), and the probability of "better". Of one population, with the losses
of :mod:`benchmarks.public.tables`; what `--tables` lacks is collected. Draws `<out>/figures/shares.svg` from
`<out>/results/public_shares.jsonl`, whose lines are not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import optuna
from tqdm import tqdm

from benchmarks.public.constants import Place, planned
from benchmarks.public.measure import EXACT_ALL, read, rivals
from benchmarks.public.tables import ONE, Table, slots, stored
from benchmarks.report import DOCS, machine, markdown
from dptune.choice.planning import radii_of, typical

KEPT = "public_shares.jsonl"
PLACES: list[Place] = [(300, "epsilon = 1"), (1000, "epsilon = 1"), (300, "epsilon = 4"), (1000, "epsilon = 4")]
DEFAULTS = "defaults"
SHARES: dict[str, float | None] = {DEFAULTS: None, **{f"{share:.0%}": share for share in (0.02, 0.05, 0.1, 0.2, 0.4)}}
Point = tuple[float, float]  # loss over the exact choice, probability of "better"


def expects(table: Table, n: int, budget: str, share: float | None) -> Point:
    """Return the judge's expected loss and the probability of "better"; ``share`` None is the package's own."""
    made = planned(table, n, budget, share=share)
    losses = np.nan_to_num(table.private[0, :n].astype(float), nan=made.public.high)
    losses = losses.clip(made.public.low, made.public.high)
    chosen, says, places = made.chosen, 0.0, made.plan.finalists
    radii = radii_of(made.public, 0, [place for place in places if place], [made.plan.noise(1 / n).sigma], 1.0)[0]
    own = dict(zip((place for place in places if place), radii, strict=True))
    near = [own[place] for place in places[: made.near] if place]
    for place, p, L in zip(places, chosen, made.L, strict=True):
        if place:  # nothing is estimated for the default
            r = typical(np.array([own[place], *near]))
            noise = made.plan.noise(2 * r / n)
            says += p * noise.below(float(np.clip(losses - L, -r, r).mean()) - noise.quantile(0.975))
    return float(chosen @ made.judge), says


def frontiers(results: list[dict[str, Any]]) -> dict[Place, dict[str, Point]]:
    """Return the points of each place by share: means over tasks and splits."""
    found: dict[Place, dict[str, Point]] = {}
    for n, budget in PLACES:
        logs: dict[str, list[Point]] = defaultdict(list)
        for one in results:
            if (one["n"], one["budget"]) == (n, budget):
                for share, (ratio, says) in one["points"].items():
                    logs[share].append((math.log(ratio), says))
        means = {share: np.mean(points, axis=0) for share, points in logs.items()}
        found[n, budget] = {share: (math.exp(mean[0]), float(mean[1])) for share, mean in means.items()}
    return found


def table_of(results: list[dict[str, Any]]) -> str:
    """Return the page's table: loss, and how often "better" is said."""
    points = frontiers(results)
    head = ["share of the estimate", *(f"{n}, {budget}" for n, budget in PLACES)]
    rows = [
        [share, *("{:.3f}, {:.0%}".format(*points[place][share]) for place in PLACES)] for share in SHARES
    ]  # fmt: skip
    return markdown(head, rows)


def draw(results: list[dict[str, Any]], folder: Path) -> None:
    """Write `shares.svg`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MultipleLocator

    colours = dict(zip(PLACES, ("#cf222e", "#0969da", "#9a6700", "#1a7f37"), strict=True))
    with plt.rc_context({"font.size": 9.5, "svg.hashsalt": "shares"}):
        figure, axis = plt.subplots(figsize=(4.4, 4.4), layout="constrained")
        for place, points in frontiers(results).items():
            curve = [points[share] for share in SHARES if share != DEFAULTS]
            axis.plot(*np.array(curve).T, ".-", color=colours[place], label=f"{place[0]:,}, {place[1]}")
            axis.plot(*points[DEFAULTS], "o", color=colours[place], markersize=9, fillstyle="none")
        axis.plot([], [], "o", color="black", markersize=9, fillstyle="none", label="defaults")
        axis.xaxis.set_major_locator(MultipleLocator(0.005))
        axis.set_xlabel("test loss over the exact choice")
        axis.set_ylabel('probability of "better"')
        axis.set_ylim(0, 1)
        figure.legend(frameon=False, loc="outside lower center", ncols=2, title="people, budget")
        figure.savefig(folder / "shares.svg", metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, nargs="+", default=[100, 101])
    parser.add_argument("--tables", type=Path, default=Path("out/public"), help="folder of collected losses")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = asked.out / "results" / KEPT
    results = read(path)
    done = {(one["task"], one["split"]) for one in results}
    asked.tables.mkdir(parents=True, exist_ok=True)
    for task, split in tqdm([(task, split) for split in asked.splits for task in slots()], mininterval=5):
        if (task, split) in done:
            continue
        table = stored(asked.tables, task, split, ONE)
        for n, budget in PLACES:
            exact = rivals(table, n, budget)[EXACT_ALL]
            points = {name: expects(table, n, budget, share) for name, share in SHARES.items()}
            found = {name: (loss / exact, says) for name, (loss, says) in points.items()}
            results.append({"task": task, "split": split, "n": n, "budget": budget, "points": found})
            with path.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    draw(results, asked.out / "figures")
    print(json.dumps(machine()), table_of(results), sep="\n\n")


if __name__ == "__main__":
    main()
