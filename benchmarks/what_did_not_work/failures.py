"""Failed trials in the centred search: `python -m benchmarks.what_did_not_work.failures [--seeds 10]`.

Tables of docs/research/what-did-not-work.md.

n = 300, mu = 1, 100 trials; the evaluation fails with chance 0.2 anywhere ("anywhere"), or where the first coordinate
is above 0.7 ("a region"). Compared are rules for what a failed point counts as, for each person: the upper clip; their
mean over the generation's other points; that mean plus C / sqrt(m), the package's. Seeded simulation, see
`benchmarks.loops`.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.data import Array
from benchmarks.loops import result, simulate
from benchmarks.measurements.private import make_task
from benchmarks.report import DOCS, in_parallel, machine, markdown
from dptune.privacy.query import Question
from dptune.search.algorithms.centred import Centred
from dptune.search.algorithms.centred_plan import CENTRED
from dptune.search.algorithms.centred_settings import CentredSettings

N, MU, TRIALS, RATE, REGION = 300, 1.0, 100, 0.2, 0.7
TASKS = ("svc-breast-cancer", "krr-parkinsons", "krr-pumadyn32nm")  # none of those kept aside
WHERE = ("anywhere", "a region")
RULES = {"upper clip": None, "own mean": 0.0, "own mean + C/sqrt(m)": 1.0}


class WithRule(Centred):
    """The package's algorithm with another rule: the own mean plus ``excess`` C / sqrt(m), or the upper clip."""

    def __init__(self, settings: CentredSettings, excess: float | None) -> None:
        super().__init__(settings)
        self._excess = excess

    def question(self) -> Question | None:
        """With this rule."""
        asked = super().question()
        if asked is None:
            return None
        above = None if self._excess is None else self._excess * asked.query.failed_above
        return replace(asked, query=replace(asked.query, failed_above=above))


def outcome(job: tuple[str, str, str, int]) -> dict[str, object]:
    """One run: task, where it fails, rule, seed."""
    name, where, rule, seed = job
    task, failures = make_task(name, N, seed), np.random.default_rng([seed, 3])
    method = replace(CENTRED, algorithm=partial(WithRule, excess=RULES[rule]))

    def losses(u: Array) -> Array | None:
        chance = failures.random()
        return None if (chance < RATE if where == "anywhere" else u[0] > REGION) else task.losses(u)

    end = result(task, simulate(method, task, MU, seed, losses=losses, trials=TRIALS, final_share=0.0))
    fails = where != "anywhere" and bool(end.u[0] > REGION)
    return {"task": name, "where": where, "rule": rule, "seed": seed, "test_loss": end.test_loss, "fails": fails}


def table(results: list[dict[str, object]]) -> str:
    """Mean test loss ± standard error, and how often the recommended point lies where the evaluation fails."""
    rows = []
    for task in TASKS:
        for where in WHERE:
            cells = []
            for rule in RULES:
                mine = [r for r in results if (r["task"], r["where"], r["rule"]) == (task, where, rule)]
                losses = np.array([r["test_loss"] for r in mine], dtype=float)
                error = losses.std(ddof=1) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
                inside = sum(bool(r["fails"]) for r in mine)
                cells.append(f"{losses.mean():.3f} ± {error:.3f}" + (f", {inside} in it" if inside else ""))
            rows.append([task, where, *cells])
    return markdown(["task", "fails", *RULES], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    jobs = [(t, w, r, s) for s in range(asked.seeds) for t in TASKS for w in WHERE for r in RULES]
    print(json.dumps(machine()))
    print(table(in_parallel(outcome, jobs, jobs=asked.jobs, name="failures", out=asked.out)))


if __name__ == "__main__":
    main()
