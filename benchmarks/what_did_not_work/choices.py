"""Other ways to choose at equal (epsilon, 1e-5): `python -m benchmarks.what_did_not_work.choices [--seeds 3] [--show]`.

The exponential mechanism over m trained candidates, as `dptune.select` has it, beside permute-and-flip, losses that are
cut above each person's own minimum, and choices in two steps; and how many candidates to choose among. The candidates
are those of `benchmarks.centred.selection`, and the default with random configurations of `benchmarks.space_tasks` and
`benchmarks.measurements.tails`, on splits of their own.

**A simulation**: laws of the choices on losses that were computed once (kept in `out/`), with seeded noise. Results are
kept in `<out>/results/choices.jsonl`, a line for each task and split; prints the tables of
docs/research/what-did-not-work.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import qmc
from tqdm import tqdm

from benchmarks.centred import selection
from benchmarks.data import Array
from benchmarks.measurements.tails.tasks import make
from benchmarks.report import DOCS, Stored, machine, markdown
from benchmarks.space_tasks import KINDS, space_task
from dptune.ledger.approximate import divided, largest_plan
from dptune.ledger.gdp import delta_from_mu

DELTA, DRAWS = 1e-5, 1000
PEOPLE, EPSILONS, CANDIDATES = (300, 1000), (1.0, 3.0), (20, 100, 400)
COUNTS = (5, 10, 20, 50, 100, 200, 400)
TAILS = (
    "tree", "neighbours", "boosting", "logistic, temperature", "squared, outliers", "pinball", "minority loses", "bowl",
)  # fmt: skip
WORSE = 1.005  # a test loss that is more than .5% above the default's
BESIDE = 0.7  # of a plan's mu^2 for a choice beside Gaussian releases
KEPT = Path(__file__).resolve().parents[2] / "out" / "choices"


@dataclass(frozen=True)
class Problem:
    """Candidates of one task and split.

    Attributes:
        losses: (m, people), clipped.
        width: of the clip.
        test: (m,) test losses; None where there is no default. The default is the first candidate.
        halton: losses (candidates, people) of the default and a Halton sequence, or None.
    """

    losses: Array
    width: float
    test: Array | None = None
    halton: Array | None = None


def problem(name: str, seed: int) -> Problem:
    """The candidates, trained once."""
    if name in selection.TASKS:
        found = selection.Candidates(selection.Cell(name, selection.PEOPLE, seed))
        low, high = found.task.clip
        return Problem(np.clip(found.losses, low, high), high - low)
    path = KEPT / f"{name}-{seed}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **_train(name, seed))
    with np.load(path) as stored:
        return Problem(stored["losses"].astype(float), float(stored["width"]), stored["test"], stored["halton"])


def _train(name: str, seed: int) -> dict[str, Array]:
    if name in KINDS:
        mixed = space_task(name, max(PEOPLE), 4000 + seed)
        task: Any = mixed
        judge = mixed.test_loss
    else:
        task = make(name, max(PEOPLE), 300 + seed)
        judge = task.judge
    rng = np.random.default_rng([seed, 3])
    points = rng.random((max(CANDIDATES) - 1, task.space.d))
    random = [task.default, *map(task.space.decode, points)]
    halton = [task.default, *map(task.space.decode, qmc.Halton(task.space.d, rng=rng).random(99))]
    return {
        "losses": np.array([task.losses(p) for p in random], dtype=np.float32),
        "test": np.array([judge(p) for p in random]),
        "halton": np.array([task.losses(p) for p in halton], dtype=np.float32),
        "width": np.array(task.clip[1] - task.clip[0]),
    }


# ---- prices ------------------------------------------------------------------------------------------------------


def alone(epsilon: float) -> float:
    """Eta of a choice that takes all of (epsilon, DELTA)."""
    return divided(largest_plan(1.0, epsilon, DELTA), 1.0)[1]


def pure_delta(mu: float, pure: float, epsilon: float) -> float:
    """Delta of a ``pure``-DP choice beside Gaussian releases of ``mu``: the worst is randomised response."""
    p = 1 / (1 + math.exp(-pure))
    return p * _delta(mu, epsilon - pure) + (1 - p) * delta_from_mu(mu, epsilon + pure)


def _delta(mu: float, epsilon: float) -> float:
    """At negative epsilon, too: the pair of a Gaussian is symmetric."""
    return delta_from_mu(mu, epsilon) if epsilon >= 0 else 1 - math.exp(epsilon) * (1 - delta_from_mu(mu, -epsilon))


def largest_pure(mu: float, epsilon: float) -> float:
    """The largest price of a choice in pure DP that fits beside Gaussian releases of ``mu``."""
    low, high = 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if pure_delta(mu, middle, epsilon) <= DELTA else (low, middle)
    return low


# ---- choices -----------------------------------------------------------------------------------------------------


def exponential(means: Array, scale: float, rng: np.random.Generator, draws: int = DRAWS) -> Array:
    """Indices of small means, (draws,)."""
    return np.argmin(means - scale * rng.gumbel(size=(draws, means.shape[-1])), axis=1)


def permute_and_flip(means: Array, scale: float, rng: np.random.Generator) -> Array:
    """The same with noise of exponential law: scale = 2 width / (n epsilon) is epsilon-DP, not of bounded range."""
    return np.argmin(means - scale * rng.exponential(size=(DRAWS, len(means))), axis=1)


def cut(losses: Array, radius: float) -> Array:
    """Losses above each person's own smallest, cut: replacing one moves a difference of means by 2 radius / n."""
    return np.minimum(losses - losses.min(axis=0), radius)


def guarded(losses: Array, width: float, eta: float, rng: np.random.Generator) -> Array:
    """Half of eta for a choice by losses cut at a quarter, half for the default or what was found, by losses uncut."""
    n, means = losses.shape[1], losses.mean(axis=1)
    found = exponential(cut(losses, width / 4).mean(axis=1), width / (n * eta), rng)
    pair = np.stack([np.full(DRAWS, means[0]), means[found]], axis=1)
    return np.where(exponential(pair, 4 * width / (n * eta), rng) == 0, 0, found)


def in_groups(losses: Array, width: float, eta: float, rng: np.random.Generator) -> Array:
    """Half of eta for one of about sqrt(m) groups, by its smallest mean, half for one of the group."""
    m, n = losses.shape
    size = math.isqrt(m)
    size = next(s for s in range(size, m + 1) if m % s == 0)
    means = losses.mean(axis=1).reshape(-1, size)
    scale = 4 * width / (n * eta)
    group = exponential(means.min(axis=1), scale, rng)
    return group * size + exponential(means[group], scale, rng)


def shortlisted(losses: Array, width: float, eta: float, rng: np.random.Generator) -> Array:
    """Half of eta for the four best at once, an eighth of it each, half for one of them."""
    (m, n), means = losses.shape, losses.mean(axis=1)
    few = 4
    noisy = means - 2 * few * 2 * width / (n * eta) * rng.gumbel(size=(DRAWS, m))
    best = np.argpartition(noisy, few, axis=1)[:, :few]
    return best[np.arange(DRAWS), exponential(means[best], 4 * width / (n * eta), rng)]


Way = Callable[[Array, float, float, np.random.Generator], Array]  # losses, width, epsilon, rng -> indices (DRAWS,)


def _by_cut(part: float) -> Way:
    def choose(losses: Array, width: float, epsilon: float, rng: np.random.Generator) -> Array:
        radius = width * part
        return exponential(cut(losses, radius).mean(axis=1), 2 * radius / (losses.shape[1] * alone(epsilon)), rng)

    return choose


def _by_means(law: Callable[..., Array], price: Callable[[float], float]) -> Way:
    return lambda losses, width, epsilon, rng: law(
        losses.mean(axis=1), 2 * width / (losses.shape[1] * price(epsilon)), rng
    )


def _with_eta(steps: Callable[[Array, float, float, np.random.Generator], Array]) -> Way:
    return lambda losses, width, epsilon, rng: steps(losses, width, alone(epsilon), rng)


def beside(epsilon: float) -> tuple[float, float]:
    """Mu of the Gaussian releases and eta of the choice of a plan with BESIDE of mu^2 for it."""
    return divided(largest_plan(BESIDE, epsilon, DELTA), BESIDE)


ALONE, NO_NOISE, GUARDED = "exponential", "no noise", "cut at 1/4, then default or it"
WAYS: dict[str, Way] = {
    NO_NOISE: lambda losses, width, epsilon, rng: np.array([np.argmin(losses.mean(axis=1))]),
    ALONE: _by_means(exponential, alone),
    "permute and flip": _by_means(permute_and_flip, lambda epsilon: epsilon),
    **{f"cut at 1/{k}": _by_cut(1 / k) for k in (2, 4, 8, 16)},
    GUARDED: _with_eta(guarded),
    "in groups": _with_eta(in_groups),
    "shortlist": _with_eta(shortlisted),
    "beside Gaussians: exponential": _by_means(exponential, lambda epsilon: beside(epsilon)[1]),
    "beside Gaussians: permute and flip": _by_means(
        permute_and_flip, lambda epsilon: largest_pure(beside(epsilon)[0], epsilon)
    ),
}


# ---- what they lead to ---------------------------------------------------------------------------------------------


def measure(name: str, seed: int) -> dict[str, Any]:
    """Means over draws.

    Returns:
        excess: by "n epsilon m way", log of the chosen mean loss over the smallest.
        test: the same of the chosen test loss over the default's, and the share of draws that are worse than it.
        counts: by "n epsilon m", log of the mean loss of a choice among m random ones; by "n epsilon Halton" among 100.
    """
    of, found = problem(name, seed), {"excess": {}, "test": {}, "counts": {}}
    rng = np.random.default_rng([seed, 8])
    for n in (n for n in PEOPLE if n <= of.losses.shape[1]):
        means = of.losses[:, :n].mean(axis=1)
        for epsilon in EPSILONS:
            scale = 2 * of.width / (n * alone(epsilon))
            for m in CANDIDATES:
                for way, choose in WAYS.items():
                    if way == GUARDED and of.test is None:
                        continue
                    chosen, key = choose(of.losses[:m, :n], of.width, epsilon, rng), f"{n} {epsilon:g} {m} {way}"
                    found["excess"][key] = _rounded(np.log(means[chosen] / means[:m].min()))
                    if of.test is not None:
                        ratio = of.test[chosen] / of.test[0]
                        found["test"][key] = [_rounded(np.log(ratio)), _rounded(ratio > WORSE)]
            for m in COUNTS:
                among = rng.permuted(np.tile(np.arange(len(means)), (DRAWS, 1)), axis=1)[:, :m]
                chosen = among[np.arange(DRAWS), exponential(means[among], scale, rng)]
                found["counts"][f"{n} {epsilon:g} {m}"] = _rounded(np.log(means[chosen]))
            if of.halton is not None:
                even = of.halton[:, :n].mean(axis=1)
                found["counts"][f"{n} {epsilon:g} Halton"] = _rounded(np.log(even[exponential(even, scale, rng)]))
    return found


def _rounded(values: Array) -> float:
    return round(float(np.mean(values)), 5)


# ---- tables ------------------------------------------------------------------------------------------------------

GROUPS = {"numbers": tuple(selection.TASKS), "mixed": tuple(KINDS), "tails": TAILS}
Results = Sequence[dict[str, Any]]


def excess(results: Results) -> str:
    """The chosen mean loss over the smallest, geometric mean over tasks and splits."""
    rows = []
    for group, tasks in GROUPS.items():
        counts = CANDIDATES if group == "numbers" else CANDIDATES[1:2]
        for n, epsilon, m in itertools.product(PEOPLE, EPSILONS, counts):
            keys = [f"{n} {epsilon:g} {m} {way}" for way in WAYS if way != NO_NOISE]
            known = [result["excess"] for result in results if result["task"] in tasks]
            logs = [[of[key] for of in known if key in of] for key in keys]
            if logs[0]:
                shown = [f"{math.exp(np.mean(of)):.3f}" if of else "" for of in logs]
                rows.append([group, str(n), f"{epsilon:g}", str(m), *shown])
    return markdown(["tasks", "n", "epsilon", "m", *(way for way in WAYS if way != NO_NOISE)], rows)


SHOWN = (NO_NOISE, ALONE, "permute and flip", "cut at 1/2", "cut at 1/4", "cut at 1/8", "cut at 1/16", GUARDED)


def against_default(results: Results, m: int = 100) -> str:
    """By task: the test loss over the default's, and the draws that are worse, over n and epsilon."""
    rows = []
    for task in (*KINDS, *TAILS):
        of = [result["test"] for result in results if result["task"] == task]
        row = [task]
        for way in SHOWN:
            keys = [f"{n} {epsilon:g} {m} {way}" for n in PEOPLE for epsilon in EPSILONS]
            logs, worse = np.mean([test[key] for test in of for key in keys], axis=0)
            row.append(f"{math.exp(logs):.3f}, {worse:.0%}")
        rows.append(row)
    return markdown(["task", *SHOWN], rows)


def how_many(results: Results, usual: int = 100) -> str:
    """The chosen mean loss among m random candidates over that among 100, with its standard error over splits."""
    rows = []
    for group, tasks in GROUPS.items():
        for n, epsilon in itertools.product(PEOPLE, EPSILONS):
            base = f"{n} {epsilon:g} {usual}"
            known = [r["counts"] for r in results if r["task"] in tasks and base in r["counts"]]
            shown = [
                _ratio([of[key] - of[base] for of in known if key in of])
                for key in (f"{n} {epsilon:g} {m}" for m in (*COUNTS, "Halton"))
            ]
            if known:
                rows.append([group, str(n), f"{epsilon:g}", *shown])
    return markdown(["tasks", "n", "epsilon", *map(str, COUNTS), "100 of a Halton sequence"], rows)


def judged(results: Results, usual: int = 100) -> str:
    """The test loss of the choice among m over that among 100, and the draws that are worse than the default."""
    rows = []
    for group, tasks in list(GROUPS.items())[1:]:
        for n, epsilon in itertools.product(PEOPLE, EPSILONS):
            known = [result["test"] for result in results if result["task"] in tasks]
            found = {m: np.array([of[f"{n} {epsilon:g} {m} {ALONE}"] for of in known]) for m in CANDIDATES}
            shown = [f"{_ratio(of[:, 0] - found[usual][:, 0])}, {of[:, 1].mean():.0%}" for of in found.values()]
            rows.append([group, str(n), f"{epsilon:g}", *shown])
    return markdown(["tasks", "n", "epsilon", *map(str, CANDIDATES)], rows)


def _ratio(logs: Sequence[float]) -> str:
    if not np.any(logs):
        return "1" if len(logs) else ""
    return f"{math.exp(np.mean(logs)):.3f} ± {np.std(logs, ddof=1) / math.sqrt(len(logs)):.3f}"


def prices() -> str:
    """What a choice may cost beside a plan's Gaussian releases: bounded range, and pure DP."""
    rows = []
    for epsilon in EPSILONS:
        for share in (0.3, 0.7, 0.95, 1.0):
            mu, eta = divided(largest_plan(share, epsilon, DELTA), share)
            pure = largest_pure(mu, epsilon) if mu > 0 else epsilon
            rows.append([f"{epsilon:g}", f"{share:g}", f"{mu:.3f}", f"{eta:.3f}", f"{pure:.3f}", f"{pure / eta:.2f}"])
    return markdown(["epsilon", "share of mu^2", "Gaussians' mu", "eta", "pure epsilon", "pure / eta"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    results = Stored("choices", asked.out)
    known = {(result["task"], result["seed"]) for result in results}
    cells = [(name, seed) for seed in range(asked.seeds) for tasks in GROUPS.values() for name in tasks]
    for name, seed in tqdm([cell for cell in cells if cell not in known and not asked.show]):
        results.add({"task": name, "seed": seed, **measure(name, seed)})
    print(json.dumps(machine()))
    print(prices(), excess(results), against_default(results), how_many(results), judged(results), sep="\n\n")


if __name__ == "__main__":
    main()
