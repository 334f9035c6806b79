"""The search behind dptune/search/algorithms/gibo_plan.py: change one default at a time, on tasks that differ.

`python -m benchmarks.measurements.defaults [--seeds N] [--held-out]` prints test losses, mean over seeds,
and per variant the geometric mean over tasks relative to the defaults: below 1 is better than the defaults.

Tuned on: kernel ridge on both tables, also with the box moved at random by up to a quarter of its side, so that the
centre is no privileged start; example 4.3; three tasks with d = 2 and 3. Seeds from 1000 on: other splits than those
of the benchmark's tables. Held out: the SVR of example 4.4 on both tables, `--held-out`.
"""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.data import Array, load_split
from benchmarks.loops import run_gibo, run_sampler
from benchmarks.measurements.paper_examples import length_scales_task
from benchmarks.report import DOCS, in_parallel, markdown
from benchmarks.small_tasks import breast_cancer_task, isotropic_ridge_task, plain_svr_task
from benchmarks.tasks import Task, kernel_ridge_task, svr_task
from dptune.search.algorithms.gibo import AdaGrad, AdaGradNorm, GradientDescent

_FIRST_SEED = 1000
_PUMADYN_SIGNAL = (3, 4, 14, 15)  # the columns that matter


@dataclass(frozen=True)
class Case:
    """A task at a size, a budget and a number of trials."""

    task: str
    n: int
    mu: float
    trials: int = 200
    moved: bool = False

    @property
    def title(self) -> str:
        """Column head."""
        return f"{self.task}{', moved' if self.moved else ''}, n={self.n}, mu={self.mu:g}, {self.trials} trials"


TUNED = (
    Case("krr-pumadyn32nm", 300, 1.0),
    Case("krr-pumadyn32nm", 1000, 1.0, moved=True),
    Case("krr-pumadyn32nm", 1000, 1.0, trials=80),
    Case("krr-parkinsons", 300, 0.5),
    Case("krr-parkinsons", 1000, 1.0, moved=True),
    Case("gibo-4.3-log", 300, 0.5),
    Case("svc-breast-cancer", 300, 1.0, trials=80),
    Case("svc-breast-cancer", 300, 0.5, trials=80, moved=True),
    Case("ridge2-pumadyn32nm", 300, 1.0, trials=60),
    Case("svr3-parkinsons", 300, 1.0, trials=80),
)
HELD_OUT = (
    Case("svr-pumadyn32nm", 300, 1.0),
    Case("svr-pumadyn32nm", 1000, 1.0),
    Case("svr-parkinsons", 300, 1.0),
    Case("svr-parkinsons", 1000, 1.0),
)

VARIANTS: dict[str, dict[str, object]] = {
    "defaults": {},
    "path .25": {"path": 0.25},
    "path 1": {"path": 1.0},
    "AdaGrad": {"rule": AdaGrad},
    "plain gradient steps, eta .5": {"rule": GradientDescent, "path": 0.5},
    "B .05": {"B": 0.05},
    "B .5": {"B": 0.5},
    "B 1": {"B": 1.0},
    "b half": {"b": 0.5},
    "b = d + 1 always": {"b": 1.0},
    "starts a fifth": {"starts": 0.2},
    "no starts": {"starts": 0.0},
    "theta_T, no average": {"average": 1},
    "no memory": {"memory": 0},
    "memory of everything": {"memory": 10**6},
    "mean 0 known": {"constant_mean": False},
    "length-scale .25": {"lengthscale": 0.25},
    "length-scale 1": {"lengthscale": 1.0},
    "sigma_n^2 1e-4": {"noise_variance": 1e-4},
    "sigma_n^2 1e-2": {"noise_variance": 1e-2},
    "Random": {"sampler": "Random"},
    "CMA-ES": {"sampler": "CMA-ES"},
    "TPE": {"sampler": "TPE"},
}


@dataclass(frozen=True)
class Moved:
    """A task whose box is moved by up to a quarter of its side in each coordinate; beyond its edge it is flat."""

    task: Task
    shift: tuple[float, ...]

    def __getattr__(self, name: str) -> object:
        return getattr(self.task, name)

    def losses(self, u: Array) -> Array:
        return self.task.losses(np.clip(u + np.array(self.shift), 0, 1))

    def test_loss(self, u: Array) -> float:
        return self.task.test_loss(np.clip(u + np.array(self.shift), 0, 1))


@lru_cache(16)
def make_task(case: Case, seed: int) -> Task:
    """The case's data set number ``seed``."""
    task = _make(case.task, case.n, seed)
    if not case.moved:
        return task
    shift = np.random.default_rng([9, seed]).uniform(-0.25, 0.25, task.d)
    return Moved(task, tuple(shift))


def _make(name: str, n: int, seed: int) -> Task:
    if name == "gibo-4.3-log":
        return length_scales_task(seed, log=True, n=n)
    if name == "svc-breast-cancer":
        return breast_cancer_task(n=n, seed=seed)
    machine, data = name.split("-")
    split = load_split(data, n=n, seed=seed)
    if machine == "ridge2":
        return isotropic_ridge_task(split, _PUMADYN_SIGNAL)
    return {"krr": kernel_ridge_task, "svr": svr_task, "svr3": plain_svr_task}[machine](split)


def settings_of(variant: str, task: Task, trials: int) -> dict[str, object]:
    """Arguments of `plan_gibo` for a variant."""
    change, d, (low, high) = dict(VARIANTS[variant]), task.d, task.clip
    if "B" in change:
        change["clip"] = float(change.pop("B")) * (high - low)
    if "b" in change:
        change["batch"] = max(math.ceil(float(change.pop("b")) * d), 1) + 1
    if "starts" in change:
        change["starts"] = int(float(change["starts"]) * trials)
    if "rule" in change or "path" in change:
        from dptune.search import PublicFacts
        from dptune.search.algorithms.gibo_plan import plan_gibo

        path, rule = float(change.pop("path", 0.5)), change.pop("rule", AdaGradNorm)
        T = plan_gibo(PublicFacts(task.n, high - low, 1.0, d=d), trials=trials).settings.steps
        change["rule"] = rule(path if rule is GradientDescent else path / math.sqrt(T))
    return change


def outcome(item: tuple[str, Case, int]) -> dict[str, object]:
    """Run one variant on one case with one seed."""
    variant, case, seed = item
    task = make_task(case, seed)
    if "sampler" in VARIANTS[variant]:
        result = run_sampler(str(VARIANTS[variant]["sampler"]), task, case.mu, case.trials, seed)
    else:
        result = run_gibo(task, case.mu, case.trials, seed, **settings_of(variant, task, case.trials))
    return {"variant": variant, "case": case.title, "seed": seed, "test_loss": result.test_loss}


def table(results: list[dict[str, object]]) -> str:
    """Mean test losses, and the geometric mean of ratios to the defaults."""
    cases = list(dict.fromkeys(str(r["case"]) for r in results))
    mean = {
        (v, c): float(np.mean([r["test_loss"] for r in results if (r["variant"], r["case"]) == (v, c)]))
        for v in VARIANTS
        for c in cases
    }
    ratio = {v: math.exp(np.mean([math.log(mean[v, c] / mean["defaults", c]) for c in cases])) for v in VARIANTS}
    rows = [[v, *(f"{mean[v, c]:.3f}" for c in cases), f"{ratio[v]:.2f}"] for v in VARIANTS]
    return markdown(["variant", *cases, "relative"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--held-out", action="store_true")
    asked = parser.parse_args()
    cases = HELD_OUT if asked.held_out else TUNED
    seeds = range(_FIRST_SEED, _FIRST_SEED + asked.seeds)
    items = [(variant, case, seed) for case in cases for seed in seeds for variant in VARIANTS]
    name = "gibo_defaults_held_out" if asked.held_out else "gibo_defaults"
    print(table(in_parallel(outcome, items, jobs=asked.jobs, name=name, out=asked.out)))


if __name__ == "__main__":
    main()
