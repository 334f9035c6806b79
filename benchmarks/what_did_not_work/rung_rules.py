"""Rules that stop trials by private losses: `python -m benchmarks.what_did_not_work.rung_rules [--show]`

Both curves of `benchmarks.optuna.pruning`, trained once for three splits at 256 settings each, with every person's
loss at each of `STEPS`. A search is given the setting nearest to what it proposes, so a run takes a quarter of a second
and many rules can be tried. **A simulation**: the noise is seeded (`benchmarks.curator`), and nothing is private. Its
loss is that of all rows that no model was trained on, the private and the test rows.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import warnings
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import qmc
from tqdm import tqdm

from benchmarks.curator import Curator
from benchmarks.data import Array
from benchmarks.loops import plain
from benchmarks.optuna.pruning import (
    CLIP,
    EPOCHS,
    MU,
    RUNG_SHARE,
    RUNG_TRIALS,
    SIZES,
    TASKS,
    TRIALS,
    Problem,
    log_losses,
)
from benchmarks.report import DOCS, Stored, machine, markdown, mean_and_error
from dptune import CENTRED, SearchRun
from dptune.privacy.privatizer import Released
from dptune.privacy.query import Query
from dptune.search import rungs
from dptune.search.algorithms.centred_plan import RUNG_RADIUS
from dptune.search.replay import RUNG
from dptune_optuna.spaces import to_space

STEPS = (1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 18, 27)
SPLITS = (100, 101, 102)  # of the rows; those of `benchmarks.optuna.pruning` are 0 to 19
BEST = 60  # settings among which a search has to choose in the end
SPREAD, FINE = 0.25, 0.08  # of settings around the centre, and around the best so far


@dataclass(frozen=True)
class Rule:
    """When a trial is stopped; the package's own unless given. ``steps=()``: never.

    Attributes:
        steps: rungs.
        bars: that stop a trial, before its last rung and at it, in standard deviations of the noise.
        trials: planned, that train to their end.
        share: of mu^2.
        radius: the first C, in units of the clip's width.
        exact: whether the answers at rungs have no noise.
        kept: share of how far it was behind the incumbent with which a stopped trial takes part, as one of the planned
            trials; `TRUE_END`: it takes part with the losses that it would have had at its end, which nobody knows;
            None: it takes no part, and another takes its place.
    """

    steps: tuple[int, ...] = (3, 9)
    bars: tuple[float, float] = (rungs.EARLIER, rungs.LAST)
    trials: int = RUNG_TRIALS
    share: float = RUNG_SHARE
    radius: float = RUNG_RADIUS
    exact: bool = False
    kept: float | None = None

    def settings(self) -> dict[str, object]:
        """What the planner is told."""
        width = CLIP[1] - CLIP[0]
        chosen = {"rung_share": self.share, "rungs": len(self.steps), "rung_radius": self.radius * width}
        return {"trials": self.trials, **(chosen if self.steps else {})}


TRUE_END = math.inf
RULES: dict[str, Rule] = {
    "none": Rule((), trials=TRIALS),
    "none, 20 trials": Rule((), trials=20),
    "none, 16 trials": Rule((), trials=16),
    "3, 9": Rule(),
    "3, 9, answers without noise": Rule(exact=True),
    "3, 9, bars 4 and 4": Rule(bars=(4.0, 4.0)),
    "3, 9, bars 0 and 0": Rule(bars=(0.0, 0.0)),
    "3, 9, share .1": Rule(share=0.1),
    "3, 9, share .4": Rule(share=0.4),
    "3, 9, radius .03": Rule(radius=0.03),
    "3, 9, radius .3": Rule(radius=0.3),
    "1, 3": Rule((1, 3)),
    "2, 6": Rule((2, 6)),
    "2, 5, 12": Rule((2, 5, 12)),
    "9": Rule((9,)),
    "3, 9, 12 trials": Rule(trials=12),
    "3, 9, all take part, a quarter": Rule(trials=TRIALS, kept=0.25),
    "3, 9, all take part, all of the distance": Rule(trials=TRIALS, kept=1.0),
    "3, 9, all take part, their true ends": Rule(trials=TRIALS, kept=TRUE_END),
}


class Curves:
    """A task's settings and what they lead to, on one split of the rows.

    Attributes:
        points: (k, d) in the cube.
        losses: (k, steps, people), clipped.
        outside: (k,), mean loss after training of the rows that it was not trained on.
    """

    def __init__(self, task: str, split: int, folder: Path) -> None:
        self.problem = Problem(task, split)
        self.space = to_space(self.problem.space)
        path = folder / f"{task.split(',')[0]}-{split}.npz"
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
    settings = {**plain(curves.space.d, rule.trials), **rule.settings()}
    run = SearchRun(CENTRED, curator, scope="run", space=curves.space, seed=seed, **settings)
    (rungs.EARLIER, rungs.LAST), epochs, rows = rule.bars, 0, dict[str, int]()
    while not run.complete:
        trial = str(len(rows))
        rows[trial] = curves.nearest(run.ask())
        epochs += trained(run, trial, curves, rows, rule)
    return {"loss": float(curves.outside[curves.nearest(run.recommend())]), "epochs": epochs}


def trained(run: SearchRun, trial: str, curves: Curves, rows: dict[str, int], rule: Rule) -> int:
    """Train as far as the run wants; the number of epochs."""
    parameters, losses = curves.space.decode(curves.points[rows[trial]]), curves.losses[rows[trial]].astype(np.float64)
    for step in rule.steps:
        run.rungs.report(trial, parameters, losses[STEPS.index(step)], step)
        if run.rungs.stops(trial):
            if rule.kept is None:
                run.unfinished.withdraw(trial)
            else:
                incumbent = run.ledger.find("run", f"{RUNG}{trial}/{step}").note["incumbent"]
                run.finish(trial, parameters, _kept(losses, curves.losses[rows[incumbent]], step, rule.kept))
            return step
    run.finish(trial, parameters, losses[-1])
    return EPOCHS


def _kept(losses: Array, incumbent: Array, step: int, kept: float) -> Array:
    """What a stopped trial takes part with (people,)."""
    if kept == TRUE_END:
        return losses[-1]
    i = STEPS.index(step)
    return np.clip(incumbent[-1] + kept * (losses[i] - incumbent[i].astype(np.float64)), *CLIP)


def table(results: list[dict[str, Any]]) -> str:
    """The frontier: each rule's epochs and loss, over the means of the first rule on the same split."""
    rows = []
    for rule in RULES:
        row: list[str] = [rule]
        for task in TASKS:
            mine = [r for r in results if (r["rule"], r["task"]) == (rule, task)]
            for what, show in (("epochs", _mean), ("loss", partial(mean_and_error, digits=2))):
                row.append(show([r[what] / _base(results, task, r["split"], what) for r in mine]))
        rows.append(row)
    heads = [f"{task.split(',')[0]}: {what}" for task in TASKS for what in ("epochs", "loss")]
    return markdown(["rungs", *heads], rows)


def _base(results: list[dict[str, Any]], task: str, split: int, what: str) -> float:
    first = next(iter(RULES))
    return float(np.mean([r[what] for r in results if (r["rule"], r["task"], r["split"]) == (first, task, split)]))


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f}"


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
    parser.add_argument("--seeds", type=int, default=30, help="runs of a rule on each split")
    parser.add_argument("--show", action="store_true", help="print the frontier of what was run, and train nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    results = Stored("rung_rules", asked.out)
    known = {(r["rule"], r["task"], r["split"], r["seed"]) for r in results}
    kinds = [] if asked.show else [*product(TASKS, SPLITS)]
    of = {(task, split): Curves(task, split, Path("out") / "curves") for task, split in kinds}
    for task in TASKS if of else ():
        print(
            markdown([task, "50%", "75%", "90%", "97%", "left at the end"], differences(of[task, SPLITS[0]])),
            end="\n\n",
        )
    for seed, (task, split), rule in tqdm([*product(range(asked.seeds), of, RULES)]):
        if (rule, task, split, seed) not in known:
            about = {"rule": rule, "task": task, "split": split, "seed": seed}
            results.add({**about, **simulate(of[task, split], RULES[rule], seed)})
    print(table(results))
    print(json.dumps(machine()))


if __name__ == "__main__":
    main()
