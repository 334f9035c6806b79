"""What private searches end with on the benchmark's tasks: `python -m benchmarks.public.searches [--splits 6]`.

TPE on noisy scores, mu = 1 and .25, on the kernel machines of one population. Its other searches stand in
`<out>/results/frontier.jsonl`. The same simulation as :mod:`benchmarks.frontier`: the package's algorithms, seeded
noise, the task's true range of a loss. What stands in `<out>/results/public_searches.jsonl` is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tqdm import tqdm

from benchmarks.frontier.design import TRIALS
from benchmarks.frontier.methods import METHODS, TPE
from benchmarks.frontier.models import MODELS
from benchmarks.frontier.tasks import Known
from benchmarks.public.measure import PEOPLE, read
from benchmarks.public.tables import ONE, rows_of, slots
from benchmarks.report import DOCS

KEPT, MUS = "public_searches.jsonl", (1.0, 0.25)
FIELDS = ("task", "split", "form", "n", "mu", "method")
Place = tuple[str, int, str, int, float, str]


def places(splits: int) -> Iterator[Place]:
    """The runs, split by split."""
    for split in range(splits):
        for task in slots():
            if task.startswith("kernel"):
                for n in PEOPLE:
                    for mu in MUS:
                        yield task, split, ONE, n, mu, TPE


@lru_cache(1)
def _known(task: str, split: int, form: str) -> Known:
    model, people = slots()[task]
    return Known(people, MODELS[model], rows_of(people, split, form))


def measure(place: Place) -> dict[str, Any]:
    """Return the judge's losses of a search's recommendations, by how they are read."""
    task, split, form, n, mu, method = place
    made = _known(task, split, form).task(n)
    found = METHODS[method](made, mu, TRIALS, split)
    losses = {name: made.judge(parameters) for name, parameters in found.items()}
    return {**dict(zip(FIELDS, place, strict=True)), "test_loss": losses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    path = asked.out / "results" / KEPT
    done = {tuple(one[name] for name in FIELDS) for one in read(path)}
    for place in tqdm([place for place in places(asked.splits) if place not in done], smoothing=0.02, mininterval=5):
        found = measure(place)
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
