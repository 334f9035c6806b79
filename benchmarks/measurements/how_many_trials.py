"""How many trials to plan: `python -m benchmarks.measurements.how_many_trials`, from the stored runs of `private`.

Test loss of the centred search with 400 trials over that with 100, by task (d parameters) and n mu. Prints the table of
docs/research/measurements.md and draws docs/figures/trials.png. Below 1 more trials pay.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from benchmarks.data import Array
from benchmarks.measurements.private import OURS, TRIALS
from benchmarks.report import DOCS, drawing, markdown
from dptune.search.algorithms.centred_plan import default_trials

D = {
    "svc-breast-cancer": 3,
    "gbm-digits": 6,
    "elastic-digits": 10,
    "krr-parkinsons": 21,
    "svr-parkinsons": 23,
    "krr-pumadyn32nm": 33,
    "svr-pumadyn32nm": 33,
}


def gains(results: list[dict[str, object]]) -> dict[str, dict[float, Array]]:
    """log(loss with more / loss with fewer trials) of the splits, by task and n mu."""
    few, many = TRIALS
    of = {(r["task"], r["n"], r["mu"], r["trials"], r["seed"]): r["test_loss"] for r in results if r["method"] == OURS}
    found: dict[str, dict[float, list[float]]] = {task: {} for task in D}
    for (task, n, mu, trials, seed), loss in of.items():
        if trials == few and (task, n, mu, many, seed) in of:
            found[task].setdefault(n * mu, []).append(math.log(of[task, n, mu, many, seed] / loss))
    return {task: {x: np.array(logs) for x, logs in sorted(by.items())} for task, by in found.items()}


def error(logs: Array) -> float:
    """The standard error of the mean."""
    return float(logs.std(ddof=1) / math.sqrt(len(logs))) if len(logs) > 1 else math.nan


def table(found: dict[str, dict[float, Array]]) -> str:
    """Geometric mean ± the standard error of its logarithm."""
    sizes = sorted({x for by in found.values() for x in by})
    rows = [
        [task, str(D[task]), str(default_trials(D[task]))]
        + [f"{math.exp(by[x].mean()):.2f} ± {error(by[x]):.2f}" if x in by else "" for x in sizes]
        for task, by in found.items()
    ]
    return markdown(["task", "d", "20 (d + 1)", *(f"n mu = {x:g}" for x in sizes)], rows)


def figure(found: dict[str, dict[float, Array]], out: Path) -> Path:
    """The table as lines."""
    path = out / "figures" / "trials.png"
    with drawing(path, 8, 4.5) as canvas:
        axes = canvas.subplots()
        for marker, (task, by) in zip("osD^vP*X", found.items(), strict=False):
            x, y = list(by), [math.exp(logs.mean()) for logs in by.values()]
            deviations = [v * error(logs) for v, logs in zip(y, by.values(), strict=True)]
            axes.errorbar(x, y, deviations, marker=marker, label=f"{task}, d = {D[task]}")
        axes.axhline(1.0, color="0.6", ls="-", lw=0.8)
        axes.set(xscale="log", yscale="log", xlabel="n mu", ylabel="test loss, 400 trials over 100")
        axes.set_xticks([150, 300, 600, 1000, 2000, 4000, 8000])
        axes.set_yticks([0.2, 0.3, 0.5, 0.7, 1.0, 1.3])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        canvas.legend(loc="outside right upper", fontsize="small")
    return path


def main() -> None:
    lines = (DOCS / "results" / "private.jsonl").read_text().splitlines()
    found = gains([json.loads(line) for line in lines])
    print(table(found))
    figure(found, DOCS)


if __name__ == "__main__":
    main()
