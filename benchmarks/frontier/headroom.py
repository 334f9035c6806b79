"""Which people's tables become tasks: `python -m benchmarks.frontier.headroom [--show]`.

The headroom of a model on a table, on its 900 reserved rows: 300 to train on, 300 that TPE's 60 trials (the library's
defaults first) are compared on, and 300 that choose nothing, which the defaults and TPE's best are measured on; six
times with the three parts in every order, geometric mean of the ratios. What is measured is kept in
`<out>/results/headroom.jsonl`; prints the slots of `benchmarks.frontier.people.SLOTS` and who takes them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.frontier.models import MODELS, Trained
from benchmarks.frontier.people import SLOTS, People, reserved
from benchmarks.report import DOCS, machine, markdown

LEAST, TRIALS = 0.03, 60
KEPT = DOCS / "results" / "headroom.jsonl"


def headroom(model: str, people: People) -> float:
    """log(loss of the defaults / loss of TPE's best), mean of six orders of the parts."""
    import optuna

    from benchmarks.mixed_space import suggest

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    parts = np.split(reserved(people), 3)
    found = []
    for order in itertools.permutations(range(3)):
        train, chosen, measured = (parts[i] for i in order)
        task = Trained(MODELS[model], people, train)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
        study.enqueue_trial(dict(task.default))
        tried: list[Any] = []

        def value(trial: Any, task: Trained = task, chosen: Any = chosen, tried: list[Any] = tried) -> float:
            tried.append(suggest(trial, task.space))
            return float(np.clip(task.losses(tried[-1], chosen), *task.clip).mean())

        study.optimize(value, n_trials=TRIALS)
        best, default = (task.losses(p, measured).mean() for p in (tried[study.best_trial.number], task.default))
        found.append(np.log(default / best))
    return float(np.mean(found))


def taken(measured: dict[tuple[str, str], float]) -> dict[str, People | None]:
    """Who takes each slot, as the rule says; a slot whose next candidate was not measured ends the list."""
    chosen: dict[str, People | None] = {}
    for slot, (model, candidates) in SLOTS.items():
        free = [people for people in candidates if people not in chosen.values()]
        for people in free:
            if (model, people.name) not in measured:
                return chosen
            if measured[model, people.name] >= np.log1p(LEAST):
                break
        chosen[slot] = next((p for p in free if measured[model, p.name] >= np.log1p(LEAST)), None)
    return chosen


def kept(path: Path = KEPT) -> dict[tuple[str, str], float]:
    """What was measured, by model and people."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(r["model"], r["people"]): r["headroom"] for r in map(json.loads, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    path = asked.out / "results" / KEPT.name
    while not asked.show and (missing := _next(kept(path))):
        model, people = missing
        with path.open("a") as file:
            line = {"model": model, "people": people.name, "headroom": headroom(model, people)}
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)
    measured = kept(path)
    rows = [
        [slot, people.name if people else "nobody", f"{np.expm1(measured[SLOTS[slot][0], people.name]):.0%}"]
        for slot, people in taken(measured).items()
        if people
    ]
    print(json.dumps(machine()), markdown(["slot", "people", "headroom"], rows), sep="\n\n")


def _next(measured: dict[tuple[str, str], float]) -> tuple[str, People] | None:
    """The first candidate that the rule needs and that was not measured."""
    chosen = taken(measured)
    for slot, (model, candidates) in SLOTS.items():
        if slot not in chosen:
            free = [people for people in candidates if people not in chosen.values()]
            return next((model, people) for people in free if (model, people.name) not in measured)
    return None


if __name__ == "__main__":
    main()
