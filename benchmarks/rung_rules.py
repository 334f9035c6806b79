"""Rules that stop trials by private losses, on tabulated curves: `python -m benchmarks.rung_rules [--show]`

Both curves of `benchmarks.pruning`, trained once for one split of the rows at some 250 settings each, with every
person's loss at each of `STEPS`. A search visits the setting nearest to what it proposes, so a run costs half a second
and two rules can be told apart. **A simulation**: the noise is seeded (`benchmarks.curator`), and nothing is private.
`--differences` prints how far people's losses lie apart between two settings, half-trained and trained.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import qmc
from tqdm import tqdm

from benchmarks.curator import Curator
from benchmarks.data import Array
from benchmarks.pruning import CLIP, EPOCHS, MU, SIZES, TASKS, TRIALS, Problem, log_losses
from benchmarks.report import markdown, mean_and_error
from dptune import CENTRED, SearchRun
from dptune.search import rungs
from dptune_optuna.distributions import to_space

STEPS = (1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 18, 27)
SPLITS = (100,)  # of the rows; the benchmark's are 0 to 9
SPREAD, FINE = 0.25, 0.08  # of settings around the centre, and around the best so far


@dataclass(frozen=True)
class Rule:
    """When a trial is stopped; ``steps=()``: never.

    Attributes:
        steps: rungs.
        margin: bar, in standard deviations of the noise.
        share: of mu^2.
        radius: C, in units of the clip's width.
    """

    steps: tuple[int, ...] = (3, 9)
    margin: float = 1.0
    share: float = 0.2
    radius: float = 0.1

    def settings(self) -> dict[str, object]:
        """What the planner is told."""
        width = CLIP[1] - CLIP[0]
        chosen = {"rung_share": self.share, "rungs": len(self.steps), "rung_radius": self.radius * width}
        return chosen if self.steps else {}


class Curves:
    """A task's settings and what they lead to, on one split of the rows.

    Attributes:
        points: (k, d) in the cube.
        losses: (k, steps, people), clipped.
        test: (k,), mean loss on the test rows after training.
    """

    def __init__(self, task: str, split: int, folder: Path) -> None:
        self.problem = Problem(task, split)
        self.space = to_space(self.problem.space)
        path = folder / f"{task.split(',')[0]}-{split}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **dict(zip(("points", "losses", "test"), self._tabulated(), strict=True)))
        kept = np.load(path)
        self.points, self.losses, self.test = kept["points"], kept["losses"], kept["test"]

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


def simulate(curves: Curves, rule: Rule, seed: int) -> tuple[float, float]:
    """Test loss of the recommendation, and epochs in units of those without stopping."""
    curator = Curator(SIZES[1], CLIP, seed=seed, private=True, mu=MU)
    run = SearchRun(CENTRED, curator, scope="run", space=curves.space, seed=seed, trials=TRIALS, **rule.settings())
    rungs.MARGIN, epochs = rule.margin, 0
    for trial in range(run.plan.trials):
        row = curves.nearest(run.ask(trial))
        epochs += trained(run, str(trial), curves.space.decode(curves.points[row]), curves.losses[row], rule)
    return float(curves.test[curves.nearest(run.recommend())]), epochs / (EPOCHS * run.plan.trials)


def trained(run: SearchRun, trial: str, parameters: dict[str, object], losses: Array, rule: Rule) -> int:
    """Train as far as the run wants; the number of epochs."""
    for step in rule.steps:
        run.rungs.report(trial, parameters, losses[STEPS.index(step)].astype(np.float64), step)
        if run.rungs.stops(trial):
            run.finish_stopped(trial, parameters)
            return step
    run.finish(trial, parameters, losses[-1].astype(np.float64))
    return EPOCHS


RULES: dict[str, Rule] = {
    "never": Rule(steps=()),
    "3, 9": Rule(),
    "3, 9; margin .5": Rule(margin=0.5),
    "3, 9; margin 0": Rule(margin=0.0),
    "2, 5, 12": Rule((2, 5, 12)),
    "5, 12": Rule((5, 12)),
    "6": Rule((6,)),
    "6; margin 0": Rule((6,), margin=0.0),
    "9; margin 0": Rule((9,), margin=0.0),
    "3, 9; share .1": Rule(share=0.1),
    "3, 9; share .4": Rule(share=0.4),
    "3, 9; radius .03": Rule(radius=0.03),
    "3, 9; radius .3": Rule(radius=0.3),
}


def table(results: list[dict[str, object]]) -> str:
    """The frontier: epochs and loss of each rule, over the same search without stopping."""
    rows = []
    for rule in RULES:
        row: list[object] = [rule]
        for task in TASKS:
            found = {r["seed"]: r for r in results if (r["rule"], r["task"]) == (rule, task)}
            base = {r["seed"]: r for r in results if (r["rule"], r["task"]) == ("never", task)}
            both = sorted(found.keys() & base.keys())
            if not both:
                break
            plain = np.mean([base[seed]["test_loss"] for seed in both])
            row += [f"{np.mean([found[seed]['epochs'] for seed in both]):.2f}"]
            row += [mean_and_error([found[seed]["test_loss"] / plain for seed in both], 2)]
        else:
            rows.append([*row, len(both)])
    heads = [f"{task.split(',')[0]}: {what}" for task in TASKS for what in ("epochs", "loss")]
    return markdown(["rungs", *heads, "runs"], rows)


def differences(curves: Curves) -> list[list[object]]:
    """How far the losses of people lie apart between the best setting and the next 50: medians and 90% quantiles."""
    order = np.argsort(curves.losses[:, -1].mean(axis=1, dtype=np.float64))
    best, others = curves.losses[order[0]].astype(np.float64), curves.losses[order[1:51]].astype(np.float64)
    rows = []
    for step in (3, 9, 27):
        i = STEPS.index(step)
        apart = np.abs(others[:, i] - best[i])  # (50, people)
        rows.append([step, *(f"{np.quantile(apart, q):.3f}" for q in (0.5, 0.75, 0.9, 0.97)), f"{apart.mean():.3f}"])
    return rows
