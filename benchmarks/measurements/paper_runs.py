"""Four examples after the GIBO paper's with its plan, and with dptune's defaults at the same number of evaluations.

The paper's plan: d, n, mu, T, b, kernel, the prior mean 0, all points kept, no starting comparison and the whole budget
on gradients. **Ours**: the data (`paper_examples`), the start at the centre, B = sqrt(2) in 4.2, step sizes
and length-scales (chosen on other seeds, below), sigma_n^2, and T = 25 in 4.4, where b = 34 makes 850 evaluations.

Coefficients of 4.1 and 4.2 are theta in [-2, 2]; the cube is u = (theta + 2) / 4, so a gradient in u is four times
one in theta: B and the kernel are given in theta, and `InTheta` and `_per_u` translate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.data import Array, load_split
from benchmarks.loops import SAMPLERS, result, run, simulate
from benchmarks.measurements import paper_examples as paper
from benchmarks.report import drawing, in_parallel, markdown, mean_and_error
from benchmarks.tasks import Task, svr_task, values
from dptune.search.algorithms.gibo import DPGIBO, AdaGrad, GIBOSettings, GradientDescent
from dptune.search.algorithms.method import Method, PublicFacts, RunPlan
from dptune.search.gp.kernels import RBF, Kernel, Polynomial2

_SIDE = 4.0  # of the box [-2, 2] of 4.1 and 4.2

EXAMPLES = ("4.1", "4.2", "4.3 raw", "4.3 log", "4.4 pumadyn32nm", "4.4 parkinsons")
BUDGETS = {"4.1": (0.5, 2.0, None)}
SVR_STEPS = 25
METHODS = ("paper", "defaults", *SAMPLERS)


@dataclass(frozen=True)
class InTheta:
    """A kernel of theta = 4 u - 2, as a function of u."""

    kernel: Kernel

    def __call__(self, X: Array, Y: Array) -> Array:
        return self.kernel(_theta(X), _theta(Y))

    def gradient(self, theta: Array, X: Array) -> Array:
        return _SIDE * self.kernel.gradient(_theta(theta), _theta(X))

    def gradient_covariance(self, theta: Array) -> Array:
        return _SIDE**2 * self.kernel.gradient_covariance(_theta(theta))

    def describe(self) -> dict[str, str | float | list[float]]:
        return {**self.kernel.describe(), "of": "4 u - 2"}


def _theta(u: Array) -> Array:
    return _SIDE * np.asarray(u) - _SIDE / 2


@dataclass(frozen=True)
class Cell:
    """One run; method "paper", "defaults" or a sampler."""

    example: str
    method: str
    mu: float | None
    seed: int


@lru_cache(4)
def make_task(example: str, seed: int) -> Task:
    """The example's data set number ``seed``."""
    if example == "4.1":
        return paper.quadratic_task(seed)
    if example == "4.2":
        return paper.huber_task(seed)
    if example.startswith("4.3"):
        return paper.length_scales_task(seed, log=example.endswith("log"))
    data = example.split()[1]
    return svr_task(load_split(data, n=4000, seed=seed))


def paper_settings(example: str, d: int, mu: float, seed: int) -> GIBOSettings:
    """The paper's plan, started at the centre of the cube: theta = 0 in 4.1 and 4.2."""
    if example == "4.1":
        s, rule = paper.QUADRATIC, GradientDescent(_per_u(0.07))
        return GIBOSettings(d, s.T, s.b, mu, s.B * _SIDE, InTheta(Polynomial2()), 1e-4, rule, seed=seed)
    if example == "4.2":
        s, rule = paper.HUBER, GradientDescent(_per_u(0.3))
        return GIBOSettings(d, s.T, s.b, mu, s.B * _SIDE, RBF(0.5), 1e-3, rule, seed=seed)
    if example.startswith("4.3"):
        s = paper.LENGTH_SCALES
        return GIBOSettings(d, s.T, s.b, mu, s.B, RBF(0.5), 1e-3, AdaGrad(0.1), seed=seed)
    return GIBOSettings(d, SVR_STEPS, d + 1, mu, 1.0, RBF(0.5), 1e-3, AdaGrad(0.1), seed=seed)


def plan_paper(facts: PublicFacts, *, example: str) -> RunPlan:
    """The whole budget on gradients."""
    settings = paper_settings(example, facts.d, facts.mu, facts.seed)
    return RunPlan("DP-GIBO, paper's plan", facts.mu, settings, settings.evaluations, final_share=0.0)


PAPER = Method("DP-GIBO, paper's plan", plan_paper, DPGIBO)


def _per_u(eta: float) -> float:
    return eta / _SIDE**2


def outcome(cell: Cell) -> dict[str, object]:
    """Run one cell; ``path`` is the excess (4.1, 4.2) or test loss (4.3, 4.4) of the iterates of DP-GIBO."""
    task = make_task(cell.example, cell.seed)
    evaluations = paper_settings(cell.example, task.d, 1.0, cell.seed).evaluations
    path: list[float] = []
    if cell.method == "paper":
        done = simulate(PAPER, task, cell.mu, cell.seed, example=cell.example)
        u = result(task, done).u
        path = [judge(task, v) for v in done.algorithm.path]
    else:
        method = "DP-GIBO" if cell.method == "defaults" else cell.method
        u = run(task, method, cell.mu, evaluations, cell.seed).u
    return {**asdict(cell), "loss": judge(task, u), "evaluations": evaluations, "path": path}


def judge(task: Task, u: Array) -> float:
    """Excess mean loss over the n people for linear models, as in the paper; test loss for the others."""
    if isinstance(task, paper.LinearTask):
        return task.excess(values(task.parameters, u))
    return task.test_loss(u)


def cells(seeds: int) -> list[Cell]:
    """Every combination, seed by seed."""
    return [
        Cell(example, method, mu, seed)
        for seed in range(seeds)
        for example in EXAMPLES
        for method in METHODS
        if not (example.startswith("4.4") and method in SAMPLERS)  # 850 trials each, hours: see equal_mu
        for mu in BUDGETS.get(example, (1.0, None))
    ]


def table(results: list[dict[str, object]]) -> str:
    """Mean ± standard error over seeds; bold is the best of a row."""
    rows = []
    for example in EXAMPLES:
        for mu in BUDGETS.get(example, (1.0, None)):
            found = [r for r in results if (r["example"], r["mu"]) == (example, mu)]
            if not found:
                continue
            columns = [[float(r["loss"]) for r in found if r["method"] == m] for m in METHODS]
            best = min(np.mean(c) for c in columns if c)
            shown = [mean_and_error(c, 4) if c else "" for c in columns]
            shown = [f"**{s}**" if c and np.mean(c) == best else s for s, c in zip(shown, columns, strict=True)]
            what = "excess" if example in ("4.1", "4.2") else "test loss"
            label = "no privacy" if mu is None else f"{mu:g}"
            rows.append([example, what, label, str(found[0]["evaluations"]), *shown])
    names = ["DP-GIBO, paper's plan", "DP-GIBO, defaults", *SAMPLERS]
    return markdown(["example", "figure", "mu", "evaluations", *names], rows)


def figure(results: list[dict[str, object]], path: Path) -> None:
    """One panel per example: mean and standard error of the paper's iterates, marks where the others end."""
    from matplotlib.lines import Line2D

    with drawing(path, 12, 7) as fig:
        for ax, example in zip(fig.subplots(2, 3).ravel(), EXAMPLES, strict=True):
            for mu in BUDGETS.get(example, (1.0, None)):
                _draw(ax, [r for r in results if (r["example"], r["mu"]) == (example, mu)], LINES[mu])
            excess = example in ("4.1", "4.2")
            ax.set(title=example, xlabel="evaluations", ylabel="excess loss" if excess else "test loss")
            ax.set_yscale("log" if excess else "linear")
        names = {mu: "no privacy" if mu is None else f"mu = {mu:g}" for mu in LINES}
        lines = [Line2D([], [], **line, label=f"DP-GIBO, paper's plan, {names[mu]}") for mu, line in LINES.items()]
        marks = [Line2D([], [], color="grey", marker=k, ls="", label=NAMES.get(m, m)) for m, k in MARKS.items()]
        fig.legend(handles=[*lines, *marks], loc="outside lower center", ncols=4, fontsize=9)


LINES: dict[float | None, dict[str, str]] = {
    0.5: {"color": "C3", "ls": ":"},
    1.0: {"color": "C0", "ls": "-"},
    2.0: {"color": "C2", "ls": "-."},
    None: {"color": "C1", "ls": "--"},
}
MARKS = {"defaults": "*", "Random": "x", "TPE": "^", "CMA-ES": "s"}
NAMES = {"defaults": "DP-GIBO, dptune's defaults"}


def _draw(ax, found: list[dict[str, object]], line: dict[str, str]) -> None:
    Y = np.array([r["path"] for r in found if r["method"] == "paper"])  # (seeds, T + 1)
    x = np.linspace(0, int(found[0]["evaluations"]), Y.shape[1])
    mean, error = Y.mean(axis=0), Y.std(axis=0, ddof=1) / np.sqrt(len(Y))
    ax.plot(x, mean, **line)
    ax.fill_between(x, mean - error, mean + error, color=line["color"], alpha=0.2, lw=0)
    for method, marker in MARKS.items():
        ends = [float(r["loss"]) for r in found if r["method"] == method]
        if ends:
            ax.plot(x[-1], np.mean(ends), marker=marker, color=line["color"], ls="", ms=7, clip_on=False)


def main(seeds: int, jobs: int, out: Path) -> str:
    """Run all cells; return the table."""
    results = in_parallel(outcome, cells(seeds), jobs=jobs, name="gibo_paper", out=out)
    figure(results, out / "figures" / "gibo_paper.png")
    return table(results)
