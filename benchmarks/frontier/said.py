"""What the search says where there is nothing to tune: `python -m benchmarks.frontier.said`.

The places are those of `docs/results/frontier.jsonl` in which the best external search without privacy gains less than
3% over the library's default or the constant prediction; the runs are the frontier's, made again at mu = 1.
"""

from __future__ import annotations

import json
import os
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.frontier.design import LEAST_GAIN, SPLITS, TRIALS, Cell, noise_of
from benchmarks.frontier.losses import Losses
from benchmarks.frontier.methods import OURS, OWN, centred
from benchmarks.frontier.tasks import make
from benchmarks.report import DOCS, machine, markdown
from dptune.search.answer import Recommendation

KEPT = "the default is recommended"


def verdict(cell: Cell) -> str:
    """What the recommendation says of itself beside the default."""
    task = make(cell.task, cell.n, cell.seed)
    found = centred(task, cell.mu, TRIALS, noise_of(cell))[OWN]
    assert isinstance(found, Recommendation)
    return KEPT if found.improvement is None else found.improvement.verdict


def main() -> None:
    lines = (DOCS / "results" / "frontier.jsonl").read_text().splitlines()
    losses, rows = Losses([json.loads(line) for line in lines]), []
    places = [place for new in (True, False) for n in (300, 1000) for place in losses.places(n, new=new)]
    for task, n in (place for place in places if losses.gain(place) < LEAST_GAIN):
        found = Counter(verdict(Cell(task, n, 1.0, OURS, seed)) for seed in range(SPLITS))
        rows.append([task, f"{n}", *(f"{found[said]}" for said in (KEPT, "not distinguishable", "better", "worse"))])
    print(
        json.dumps(machine()), markdown(["task", "n", KEPT, "not distinguishable", "better", "worse"], rows), sep="\n\n"
    )


if __name__ == "__main__":
    main()
