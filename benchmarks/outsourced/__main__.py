"""Outsourced tuning: simple regret after 50 rounds, time and memory of a round, and the pictures of docs/outsourced.md.

    python -m benchmarks.outsourced regret [--table rows.csv --ranges ranges.csv]
    python -m benchmarks.outsourced speed
    python -m benchmarks.outsourced attack

A table of one's own is a CSV file with a line of names, the output last; its ranges are a CSV file with a line of
names, one of the least and one of the largest values that the features can have.

All tables are scaled in public so that norms are at most 25, as in the PO-GP-UCB paper; a row changes by at most 1. The
modeler knows the kernel, and outputs are exact. The noise has the curator's law and a seed: NOT PRIVATE, figures only.
"""

from __future__ import annotations

import argparse
import math
import resource
import runpy
import subprocess
import sys
import time
from ast import literal_eval
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from tqdm import tqdm

from benchmarks.report import DOCS, drawing, markdown, mean_and_error, save
from dptune.ledger.gdp import mu_from_epsilon
from dptune.outsourced.formats import Table, TableFacts
from dptune.outsourced.modeler import OutsourcedModeler, noisy_kernel
from dptune.privacy.noise import noise_scale
from dptune.search.gp.fit import Hyperparameters, fit
from dptune.search.gp.kernels import RBF

Array = NDArray[np.float64]
R, DELTA, ROUNDS, SEEDS, S2 = 25.0, 1e-5, 50, 20, 1e-4
LENGTHSCALES = (1.25, 2.5, 5.0, 9.0)
EXPLORATION = 1.0  # times beta: the theorem's; .1 and .02 were worse in most cells (3 seeds, `--exploration`)
SIDE = R / math.sqrt(2)  # half of a square's side, so that its corners have norm R
REPLACING = "replacing a row, ε = 10"
METHODS = ("not private", "ε = 10", "ε = 5", "ε = 3", "ε = 1", REPLACING, "random")
DIABETES = np.array(  # public: what the ten features of scikit-learn's diabetes table can be, from what they mean
    [[18, 1, 15, 50, 80, 30, 15, 1, 3, 50], [90, 2, 45, 140, 320, 250, 110, 10, 6.5, 130]], dtype=float
)
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "outsourced_attack.py"


@dataclass(frozen=True)
class Problem:
    """Rows X (n, d) after public scaling, their outputs f (n,), larger is better, and the kernel that is known."""

    name: str
    X: Array
    f: Array
    kernel: RBF


# ---- the problems --------------------------------------------------------------------------------------


def grid() -> tuple[Array, Array]:
    """One axis (100,), and the 100 x 100 grid (10000, 2)."""
    axis = np.linspace(-SIDE, SIDE, 100)
    return axis, np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def synthetic(lengthscale: float, seed: int) -> Problem:
    """A sample of the Gaussian process on the grid: f = L G L^T, as the kernel is a product over the axes."""
    axis, X = grid()
    K = RBF(lengthscale)(axis[:, None], axis[:, None]) + 1e-9 * np.eye(100)
    L, G = cholesky(K, lower=True), np.random.default_rng([seed, 0]).standard_normal((100, 100))
    return Problem(f"GP sample, ℓ = {lengthscale:g}", X, (L @ G @ L.T).ravel(), RBF(lengthscale))


def branin() -> Problem:
    """Minus the Branin-Hoo function on the grid."""
    X = grid()[1]
    x, y = -5 + 15 * (X[:, 0] / SIDE + 1) / 2, 15 * (X[:, 1] / SIDE + 1) / 2
    f = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10
    return with_fitted_kernel("Branin-Hoo", X, -f)


def supplied(name: str, rows: Array, ranges: Array) -> Problem:
    """A table (n, d + 1) with the output last; features are scaled by their public ranges (2, d)."""
    X = (rows[:, :-1] - ranges.mean(axis=0)) / (ranges[1] - ranges[0]) * 2  # in [-1, 1] where the ranges hold
    X *= R / math.sqrt(X.shape[1])
    X *= np.minimum(1, R / np.linalg.norm(X, axis=1))[:, None]
    return with_fitted_kernel(f"{name}, {X.shape[0]} × {X.shape[1]}", X, rows[:, -1])


def with_fitted_kernel(name: str, X: Array, f: Array) -> Problem:
    """Outputs are standardised; the kernel is fitted to those of at most 300 rows, and every method gets it."""
    f = (f - f.mean()) / f.std()
    some = np.random.default_rng(0).permutation(len(X))[:300]
    best = fit(X[some] / (2 * SIDE), f[some], Hyperparameters.prior(X.shape[1]))
    return Problem(name, X, f, RBF(tuple((best.lengthscale * 2 * SIDE).tolist()), best.variance))


def diabetes() -> Problem:
    """Scikit-learn's diabetes table: the patient whose disease progressed most."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    return supplied("diabetes table", np.column_stack([X, y]), DIABETES)


# ---- regret --------------------------------------------------------------------------------------------


def sigma_of(method: str, size: int) -> float:
    """The noise of one number of the table."""
    if method == "not private":
        return 1e-9
    mu = mu_from_epsilon(float(method.rpartition("= ")[2]), DELTA)
    return noise_scale(sensitivity=2 * R if method == REPLACING else 1.0, mu=mu, dimension=size)


def regrets(problem: Problem, method: str, seed: int, exploration: float = EXPLORATION) -> Array:
    """Simple regret after each round. The table's order is random: where a modeler knows nothing, it takes the next."""
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(len(problem.X))
    X, f, rows = problem.X[order], problem.f[order], list(range(ROUNDS))
    if method != "random":
        sigma = sigma_of(method, X.size)
        table = Table(X + rng.normal(0, sigma, X.shape), TableFacts(sigma, True, "", "", ""))
        modeler = OutsourcedModeler(table, problem.kernel, noise_variance=S2, exploration=exploration)
        while len(modeler.rows) < ROUNDS:
            row = modeler.ask()
            modeler.tell(row, float(f[row]))
        rows = modeler.rows
    return np.asarray(f.max() - np.maximum.accumulate(f[rows]))


def run_regret(out: Path, seeds: int, exploration: float, extra: Problem) -> str:
    """Every method on every problem; writes the figure and returns the table."""
    fixed, found = [branin(), extra], {}
    for seed in tqdm(range(seeds), desc="regret"):
        for problem in [*(synthetic(lengthscale, seed) for lengthscale in LENGTHSCALES), *fixed]:
            for method in METHODS:
                curves = found.setdefault(problem.name, {}).setdefault(method, [])
                curves.append(regrets(problem, method, seed, exploration))
    arrays = {name: {method: np.array(c) for method, c in by.items()} for name, by in found.items()}
    last = {name: {m: c[:, -1].round(4).tolist() for m, c in by.items()} for name, by in arrays.items()}
    save("outsourced_regret", {"exploration": exploration, "after 50 rounds": last}, out)
    draw_regret(arrays, out / "figures" / "outsourced.png")
    rows = [[name, *(mean_and_error(by[m][:, -1]) for m in METHODS)] for name, by in arrays.items()]
    return markdown(["problem", *METHODS], rows)


def draw_regret(arrays: dict[str, dict[str, Array]], path: Path) -> None:
    with drawing(path, 11, 6) as figure:
        axes = figure.subplots(2, 3).ravel()
        for axis, (name, by) in zip(axes, arrays.items(), strict=True):
            for method in METHODS:
                curves, rounds = by[method], np.arange(1, ROUNDS + 1)
                mean, error = curves.mean(axis=0), curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
                last = {"color": "0.5", "ls": ":"} if method == "random" else {}  # the style has six lines
                (line,) = axis.plot(rounds, mean, label=method, **last)
                axis.fill_between(rounds, mean - error, mean + error, color=line.get_color(), alpha=0.15, lw=0)
            axis.set(title=name, xlabel="round", ylabel="simple regret", ylim=(0, None), xlim=(1, ROUNDS))
        axes[0].legend(fontsize="x-small")


# ---- speed ---------------------------------------------------------------------------------------------


def measure_speed(n: int, t: int, d: int = 10, repeats: int = 5) -> dict[str, float]:
    """CPU milliseconds of a round after t of them, beside a refit from all outputs; MiB of the whole process."""
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(n, d)), TableFacts(0.5, True, "", "", ""))
    modeler = OutsourcedModeler(table, RBF(2.0), noise_variance=S2)
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for row in rng.integers(n, size=t):
        modeler.tell(int(row), float(rng.normal()))
    began = time.process_time()
    for _ in range(repeats):
        modeler.tell(modeler.ask(), float(rng.normal()))
    ours = (time.process_time() - began) / repeats
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - empty) / 2**10
    began = time.process_time()
    refit(table.values, modeler.rows, noisy_kernel(RBF(2.0), 0.5, d))
    return {"n": n, "t": t, "update": 1e3 * ours, "refit": 1e3 * (time.process_time() - began), "memory": memory}


def refit(Z: Array, rows: list[int], kernel: RBF) -> tuple[Array, Array]:
    """Posterior mean and variance at all rows from scratch: O(n t^2)."""
    K = kernel(Z[rows], Z)  # (t, n)
    L = cholesky(K[:, rows] + (1 - kernel.variance + S2) * np.eye(len(rows)), lower=True)
    A = solve_triangular(L, K, lower=True)  # (t, n)
    return A.T @ solve_triangular(L, np.ones(len(rows)), lower=True), 1 - np.einsum("tn,tn->n", A, A)


def run_speed(out: Path) -> str:
    """Each cell in a process of its own, so that memory is its own."""
    found: list[dict[str, Any]] = []
    for n, t in [(n, t) for t in (50, 200) for n in (1_000, 10_000, 100_000)]:
        call = f"from benchmarks.outsourced.__main__ import measure_speed; print(measure_speed({n}, {t}))"
        done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
        found.append(literal_eval(done.stdout))
    save("outsourced_speed", found, out)
    rows = [[f"{r['n']:,}", f"{r['t']}", *(f"{r[k]:.1f}" for k in ("update", "refit", "memory"))] for r in found]
    return markdown(["rows n", "round t", "rank-one round, ms", "refit, ms", "memory of t rounds, MiB"], rows)


# ---- the attack's picture ------------------------------------------------------------------------------


def run_attack(out: Path) -> str:
    """What three known rows tell about 2,000 others."""
    demonstration, rng = runpy.run_path(str(EXAMPLE)), np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 2000)
    X = (3 + 14 * rng.integers(1, 3, 2000) / 2)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X[::5] = rng.uniform(-17, 17, (400, 1)) * [1.0, 0.0]
    mu = mu_from_epsilon(demonstration["EPSILON"], demonstration["DELTA"])
    paper = demonstration["paper_transform"](X, rng, 2)
    panels = {
        "the curator's\nrows": X,
        "the paper's Z,\nfirst two columns": paper[:, :2],
        "rows recovered\nfrom it": demonstration["recovered"](paper, X, [0, 1, 2]),
        "our Z, ε = 3,\nchanges of norm 1": X + rng.normal(0, 1 / mu, X.shape),
        "our Z, ε = 3,\nreplacing a row": X + rng.normal(0, 50 / mu, X.shape),
    }
    with drawing(out / "figures" / "outsourced_attack.svg", 4.4, 6.4) as figure:  # fits a phone
        *axes, rest = figure.subplots(3, 2).flat
        rest.set_axis_off()
        for axis, (name, points) in zip(axes, panels.items(), strict=True):
            axis.scatter(*points.T, c=np.arctan2(X[:, 1], X[:, 0]), s=1, cmap="twilight", rasterized=True)
            axis.set_title(name, fontsize=9.5)
            axis.tick_params(labelsize=9)
            axis.set_aspect("equal", adjustable="datalim")
    error = np.abs(panels["rows recovered\nfrom it"] - X).max()
    return f"largest error of a recovered row: {error:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["regret", "speed", "attack"])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--exploration", type=float, default=EXPLORATION)
    parser.add_argument("--table", type=Path, help="CSV file, output last")
    parser.add_argument("--ranges", type=Path, help="CSV file: least and largest values of the features, public")
    parser.add_argument("--out", type=Path, default=DOCS)
    given = parser.parse_args()
    if (given.table is None) != (given.ranges is None):
        parser.error("--table and --ranges go together: a range read from the rows would not be public")
    (given.out / "figures").mkdir(parents=True, exist_ok=True)
    if given.what == "regret":
        files = [np.loadtxt(f, delimiter=",", skiprows=1) for f in (given.table, given.ranges) if f is not None]
        extra = supplied(given.table.stem, *files) if files else diabetes()
        print(run_regret(given.out, given.seeds, given.exploration, extra))
    else:
        print({"speed": run_speed, "attack": run_attack}[given.what](given.out))


if __name__ == "__main__":
    main()
