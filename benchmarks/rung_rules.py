"""Rules that stop trials by private losses, on tabulated curves: `python -m benchmarks.rung_rules [--show]`

Both curves of `benchmarks.pruning`, trained once for one split of the rows at 256 settings each, with every person's
loss at each of `STEPS`. A search is given the setting nearest to what it proposes, so a run takes a quarter of a second
and many rules can be tried. **A simulation**: the noise is seeded (`benchmarks.curator`), and nothing is private. Its
loss is that of all rows that no model was trained on, the private and the test rows.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import qmc
from tqdm import tqdm

from benchmarks.curator import Curator
from benchmarks.data import Array
from benchmarks.pruning import CLIP, EPOCHS, MU, SIZES, TASKS, TRIALS, Problem, log_losses
from benchmarks.report import DOCS, machine, markdown, mean_and_error
from dptune import CENTRED, SearchRun
from dptune.algorithms.centred_plan import RUNG_RADIUS
from dptune.privacy.query import Query
from dptune.privacy.released import Released
from dptune.search import rungs
from dptune.search.names import RUNG
from dptune_optuna.distributions import to_space

STEPS = (1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 18, 27)
SPLIT = 100  # of the rows; those of `benchmarks.pruning` are 0 to 9
BEST = 60  # settings among which a search has to choose in the end
SPREAD, FINE = 0.25, 0.08  # of settings around the centre, and around the best so far


@dataclass(frozen=True)
class Rule:
    """When a trial is stopped, and what it takes part with; the package's own unless given. ``steps=()``: never.

    Attributes:
        steps: rungs.
        bars: that stop a trial, before its last rung and at it, in standard deviations of the noise.
        kept: share of how far a stopped trial was behind that it takes part with.
        share: of mu^2.
        radius: the first C, in units of the clip's width.
        trials: planned.
        exact: whether the answers at rungs have no noise.
    """

    steps: tuple[int, ...] = (3, 9)
    bars: tuple[float, float] = (rungs.EARLIER, rungs.LAST)
    kept: float = rungs.KEPT
    share: float = 0.2
    radius: float = RUNG_RADIUS
    trials: int = TRIALS
    exact: bool = False

    def settings(self) -> dict[str, object]:
        """What the planner is told."""
        width = CLIP[1] - CLIP[0]
        chosen = {"rung_share": self.share, "rungs": len(self.steps), "rung_radius": self.radius * width}
        return {"trials": self.trials, **(chosen if self.steps else {})}


RULES: dict[str, Rule] = {
    "none": Rule(steps=()),
    "none, half of the trials": Rule(steps=(), trials=TRIALS // 2),
    "3, 9": Rule(),
    "3, 9, answers without noise": Rule(exact=True),
    "3, 9, all of the distance kept": Rule(kept=1.0),
    "3, 9, bars 1 and 1": Rule(bars=(1.0, 1.0)),
    "3, 9, bars 0 and 0": Rule(bars=(0.0, 0.0)),
    "2, 5, 12": Rule((2, 5, 12)),
    "5, 12": Rule((5, 12)),
    "9": Rule((9,)),
    "9, bar -1": Rule((9,), bars=(0.0, -1.0)),
    "12": Rule((12,)),
    "3, 18": Rule((3, 18)),
    "3, 9, share .1": Rule(share=0.1),
    "3, 9, share .4": Rule(share=0.4),
    "3, 9, radius .03": Rule(radius=0.03),
    "3, 9, radius .3": Rule(radius=0.3),
}


class Curves:
    """A task's settings and what they lead to, on one split of the rows.

    Attributes:
        points: (k, d) in the cube.
        losses: (k, steps, people), clipped.
        outside: (k,), mean loss after training of the rows that it was not trained on.
    """

    def __init__(self, task: str, folder: Path) -> None:
        self.problem = Problem(task, SPLIT)
        self.space = to_space(self.problem.space)
        path = folder / f"{task.split(',')[0]}-{SPLIT}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **dict(zip(("points", "losses", "test"), self._tabulated(), strict=True)))
        kept = np.load(path)
        self.points, self.losses = kept["points"], kept["losses"]
        means = [self.losses[:, -1].mean(axis=1, dtype=float), kept["test"]]
        self.outside = np.average(means, axis=0, weights=SIZES[1:])

    def _tabulated(self) -> tuple[Array, Array, Array]:
        """A Sobol sequence, settings around the centre, and four times some around the four best."""
        rng, d = np.random.default_rng(0), self.space.d
        points = list(qmc.Sobol(d, seed=1).random(64)) + list(rng.normal(0.5, SPREAD, (64, d)))
        found = [self._trained(u) for u in tqdm(points)]
        for _ in range(4):
            best = np.argsort([losses[-1].mean() for losses, _ in found])[:4]
            more = [rng.normal(points[i], FINE) for i in np.repeat(best, 8)]
            points, found = [*points, *more], [*found, *(self._trained(u) for u in tqdm(more))]
        losses, test = zip(*found, strict=True)
        points = [self.space.encode(self.space.decode(np.array(u))) for u in points]
        return np.array(points), np.array(losses), np.array(test)

    def _trained(self, u: Array) -> tuple[Array, float]:
        X, y = self.problem.X, self.problem.y
        models = self.problem.train(self.space.decode(np.array(u)), X[0], y[0])
        rows = []
        for epoch, predict in enumerate(models, 1):
            if epoch in STEPS:
                rows.append(self.problem.private(predict).astype(np.float16))
        return np.array(rows), float(log_losses(predict(X[2]), y[2]).mean())

    def nearest(self, parameters: dict[str, object]) -> int:
        """The tabulated setting that is evaluated in their place."""
        return int(((self.points - self.space.encode(parameters)) ** 2).sum(axis=1).argmin())


class ExactAtRungs(Curator):
    """A curator whose answers at rungs have no noise."""

    def release(self, query: Query, *, key: str, **settings: Any) -> Released:
        """The answer."""
        self.private = not key.startswith(RUNG)
        return super().release(query, key=key, **settings)


def simulate(curves: Curves, rule: Rule, seed: int) -> dict[str, float]:
    """Loss of the recommendation, and the epochs of all trials."""
    curator = (ExactAtRungs if rule.exact else Curator)(SIZES[1], CLIP, seed=seed, private=True, mu=MU)
    run = SearchRun(CENTRED, curator, scope="run", space=curves.space, seed=seed, **rule.settings())
    (rungs.EARLIER, rungs.LAST), rungs.KEPT, epochs = rule.bars, rule.kept, 0
    for trial in range(run.plan.trials):
        row = curves.nearest(run.ask(trial))
        epochs += trained(run, str(trial), curves.space.decode(curves.points[row]), curves.losses[row], rule)
    return {"loss": float(curves.outside[curves.nearest(run.recommend())]), "epochs": epochs}


def trained(run: SearchRun, trial: str, parameters: dict[str, object], losses: Array, rule: Rule) -> int:
    """Train as far as the run wants; the number of epochs."""
    for step in rule.steps:
        run.rungs.report(trial, parameters, losses[STEPS.index(step)].astype(np.float64), step)
        if run.rungs.stops(trial):
            run.finish_stopped(trial, parameters)
            return step
    run.finish(trial, parameters, losses[-1].astype(np.float64))
    return EPOCHS


def table(results: list[dict[str, Any]]) -> str:
    """The frontier: each rule's epochs and loss, over those of the same search without stopping."""
    rows = []
    for rule in RULES:
        row: list[str] = [rule]
        for task in TASKS:
            own, base = ({r["seed"]: r for r in results if (r["rule"], r["task"]) == (w, task)} for w in (rule, "none"))
            both = sorted(own.keys() & base.keys())
            loss, epochs = (float(np.mean([base[seed][what] for seed in both])) for what in ("loss", "epochs"))
            row.append(f"{np.mean([own[seed]['epochs'] for seed in both]) / epochs:.2f}")
            row.append(mean_and_error([own[seed]["loss"] / loss for seed in both], 2))
        rows.append(row)
    heads = [f"{task.split(',')[0]}: {what}" for task in TASKS for what in ("epochs", "loss")]
    return markdown(["rungs", *heads], rows)


def differences(curves: Curves) -> list[list[str]]:
    """How far the best 60 settings lie apart from the best: people's differences, and what is left of their mean.

    Returns:
        Rows of a step, the 50%, 75%, 90% and 97% quantiles of abs(L_i(x, s) - L_i(best, s)), and the slope of the mean
        difference at the end on that at s.
    """
    order = np.argsort(curves.losses[:, -1].mean(axis=1, dtype=float))[:BEST]
    apart = curves.losses[order[1:]].astype(float) - curves.losses[order[0]].astype(float)  # (settings, steps, people)
    rows = []
    for step in (3, 9, 18, EPOCHS):
        i = STEPS.index(step)
        quantiles = np.quantile(np.abs(apart[:, i]), (0.5, 0.75, 0.9, 0.97))
        slope = np.polyfit(apart[:, i].mean(axis=1), apart[:, -1].mean(axis=1), 1)[0]
        rows.append([str(step), *(f"{q:.3f}" for q in quantiles), f"{slope:.2f}"])
    return rows


def main() -> None:
    """Run what is missing, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=34)
    parser.add_argument("--show", action="store_true", help="print the frontier of what was run, and train nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    path = asked.out / "results" / "rung_rules.jsonl"
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(r["rule"], r["task"], r["seed"]) for r in results}
    tasks = {} if asked.show else {task: Curves(task, Path("out") / "curves") for task in TASKS}
    for task, curves in tasks.items():
        print(markdown([task, "50%", "75%", "90%", "97%", "left at the end"], differences(curves)), end="\n\n")
    for seed, task, rule in tqdm([*product(range(asked.seeds), tasks, RULES)]):
        if (rule, task, seed) not in known:
            results.append({"rule": rule, "task": task, "seed": seed, **simulate(tasks[task], RULES[rule], seed)})
            with path.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    print(table(results))
    print(json.dumps(machine()))


if __name__ == "__main__":
    main()
