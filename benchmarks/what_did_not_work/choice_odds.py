"""Public odds for the choice at the end of a search.

`python -m benchmarks.what_did_not_work.choice_odds [--seeds 2] [--tasks ...] [--show]`.

A search with a choice at its end knows a posterior of all candidates' losses: a function of its earlier releases. As
odds of the choice it costs nothing. Each search is made once; what is compared are the exact laws of its last release
under other odds, so that nothing but the odds differs. The half of all odds is uniform, as where public rows vote.

- *uniform*: no odds.
- *best*: how likely the candidate is the best one, by draws from the posterior.
- *law*: the law that the choice would have if a draw from the posterior were the private means, on average.
- *votes*: the posterior mean counts as the private means do.
- *precise*: the posterior mean counts by its precision against that of the choice's noise.

Outcome: the logarithm of the mean test loss over the smallest one among the candidates (excess), of a draw from each
law. Tasks in mixed spaces choose among all trials, those with numbers among 30 and the default, which keeps its ten
elevenths of the odds.

**A simulation**: the package's run and algorithm, seeded noise, a ledger in memory (`benchmarks.curator`). Results are
kept in `<out>/results/choice_odds.jsonl`: what was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tqdm import tqdm

from benchmarks.curator import Curator
from benchmarks.data import Array
from benchmarks.measurements.tails.tasks import kept, make
from benchmarks.report import DOCS, Stored, machine, markdown, mean_and_error
from benchmarks.space_tasks import space_task
from dptune import CENTRED, SearchRun
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy.query import MeanQuery

MIXED = ("models-digits", "lightgbm-digits", "pipeline-digits")
NUMBERS = ("tree", "neighbours", "logistic, temperature", "squared, outliers")
PEOPLE, BUDGETS, TRIALS, SEEDS, DRAWS = (300, 1000), (0.5, 1.0), 60, 2, 4000
GUMBEL = math.pi**2 / 6  # variance of the choice's noise, in units of its scale squared
Odds = Callable[[Array, Array, float, np.random.Generator], Array]  # mean, covariance, scale, rng -> (m,)


class Witness(Curator):
    """A curator that keeps what its last choice was about."""

    def choose(self, query: MeanQuery, prior: Sequence[float] = ()) -> Array:
        """The choice, as always."""
        self.means = self._told(query).mean(axis=1)
        self.scale = 2 * self.loss_range / self.n / bounded_range_from_mu(query.mu)
        return super().choose(query, prior)


def softmax(logits: Array) -> Array:
    """Along the first axis."""
    weights = np.exp(logits - logits.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def _drawn(mean: Array, covariance: Array, rng: np.random.Generator) -> Array:
    return np.asarray(mean[:, None] + np.linalg.cholesky(covariance) @ rng.standard_normal((len(mean), DRAWS)))


def best(mean: Array, covariance: Array, scale: float, rng: np.random.Generator) -> Array:
    """P(candidate j is the best)."""
    return np.bincount(np.argmin(_drawn(mean, covariance, rng), axis=0), minlength=len(mean)) / DRAWS


def law(mean: Array, covariance: Array, scale: float, rng: np.random.Generator) -> Array:
    """E softmax(-f / scale)."""
    return np.asarray(softmax(-_drawn(mean, covariance, rng) / scale).mean(axis=1))


def votes(mean: Array, covariance: Array, scale: float, rng: np.random.Generator) -> Array:
    """softmax(-E f / scale)."""
    return softmax(-mean / scale)


def precise(mean: Array, covariance: Array, scale: float, rng: np.random.Generator) -> Array:
    """softmax(-E f (noise's variance / posterior variance) / scale)."""
    H = np.eye(len(mean)) - 1 / len(mean)
    variance = float(np.trace(H @ covariance @ H)) / len(mean)
    return softmax(-mean * GUMBEL * scale / variance)


WAYS: dict[str, Odds] = {
    "uniform": lambda mean, covariance, scale, rng: np.full(len(mean), 1 / len(mean)),
    "best": best,
    "law": law,
    "votes": votes,
    "precise": precise,
}


def measure(name: str, n: int, mu: float, seed: int) -> dict[str, float]:
    """Excess test loss under each way's odds, of one search."""
    mixed = name in MIXED
    task: Any = space_task(name, n, 500 + seed) if mixed else make(name, n, 500 + seed)
    judge = task.test_loss if mixed else task.judge
    curator = Witness(n, task.clip, seed=seed, private=True, mu=mu)
    run = SearchRun(CENTRED, curator, scope=name, space=task.space, seed=seed, default=task.default, trials=TRIALS)
    for trial in range(run.plan.trials):
        parameters = run.ask()
        run.finish(str(trial), parameters, task.losses(parameters))
    made = curator.ledger.find(name, "choice")
    candidates = made.description["note"]["parameters"]
    prior, rng = np.array(made.description["note"]["prior"]), np.random.default_rng([seed, 6])
    X = np.array([task.space.encode(task.space.completed(p)) for p in candidates])
    mean, covariance = run.algorithm.surrogate.joint(X)
    test = np.array([judge(p) for p in candidates])
    kept_back = not mixed  # the last candidate is the default, with its own odds
    found = {}
    for way, odds in WAYS.items():
        free = slice(None, -1) if kept_back else slice(None)
        told = odds(mean[free], covariance[free, free], curator.scale, rng)
        weights = prior.copy()
        weights[free] *= 0.5 + 0.5 * told * len(told)
        chances = softmax(np.log(weights) - curator.means / curator.scale)
        found[way] = round(float(chances @ np.log(test / test.min())), 5)
        found[f"{way}, private"] = round(float(chances @ np.log(curator.means / curator.means.min())), 5)
    if not mixed:
        kept(name, 500 + seed).save()
    return found


def report(results: Sequence[Mapping[str, Any]]) -> str:
    """Excess by task and budget, and of each way over that of uniform odds."""
    rows = []
    places = sorted({(r["task"] in NUMBERS, r["task"], r["n"], r["mu"]) for r in results})
    for _, name, n, mu in places:
        of = [r for r in results if (r["task"], r["n"], r["mu"]) == (name, n, mu)]
        rows.append([name, str(n), f"{mu:g}", *(f"{np.mean([r[way] for r in of]):.4f}" for way in WAYS), str(len(of))])
    for group, names in (("mixed spaces", MIXED), ("numbers", NUMBERS)):
        of = [r for r in results if r["task"] in names]
        usual = np.array([r["uniform"] for r in of])
        for people in PEOPLE if of else ():
            here = np.array([r["n"] == people for r in of])
            ratios = [1 + (np.array([r[way] for r in of]) - usual)[here] / usual[here].mean() for way in WAYS]
            row = [f"{group}, over uniform", str(people), "", *(mean_and_error(list(ratio)) for ratio in ratios)]
            rows.append([*row, str(here.sum())])
    return markdown(["task", "n", "mu", *WAYS, "searches"], rows)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--tasks", nargs="*", default=[*MIXED, *NUMBERS])
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    results = Stored("choice_odds", asked.out)
    done = {(r["task"], r["n"], r["mu"], r["seed"]) for r in results}
    cells = [
        (name, n, mu, seed) for seed in range(asked.seeds) for name in asked.tasks for n in PEOPLE for mu in BUDGETS
    ]
    for cell in tqdm([] if asked.show else [cell for cell in cells if cell not in done]):
        results.add({**dict(zip(("task", "n", "mu", "seed"), cell, strict=True)), **measure(*cell)})
    print(json.dumps(machine()), report(results), sep="\n\n")


if __name__ == "__main__":
    main()
