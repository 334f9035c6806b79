"""Any search space at equal privacy: `python -m benchmarks.measurements.spaces [--seeds 10] [--tasks ...] [--show]`.

The centred search beside TPE (multivariate, group) and random search on privatised values, both without privacy, the
exponential mechanism over random candidates, and the libraries' defaults, on `benchmarks.space_tasks`. Every method
begins with the default configuration. Values have noise R sqrt(T) / (n mu), as in the package's `PrivateObjective`
without a final estimate; the centred search spends nothing on a final estimate either.

**A simulation**: the algorithm is the package's, the noise is seeded and the ledger in memory (`benchmarks.curator`).
Results are kept in `<out>/results/spaces.jsonl`, a line for each task, n, trials and seed: what was stopped goes on.
`--show` prints the tables of docs/research/measurements.md from what is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tqdm import tqdm

from benchmarks.curator import Curator
from benchmarks.loops import NO_PRIVACY
from benchmarks.report import DOCS, Stored, machine, markdown, mean_and_error
from benchmarks.space_tasks import KINDS, SpaceTask, space_task
from dptune import CENTRED, Categorical, Int, SearchRun
from dptune.ledger.approximate import largest_plan
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_epsilon
from dptune.search.algorithms.centred_plan import CHOICE

PEOPLE, TRIALS, BUDGETS = (300, 1000), (60, 100), (0.5, 1.0)
Parameters = Mapping[str, Any]


def centred(task: SpaceTask, mu: float | None, trials: int, seed: int, **settings: Any) -> Parameters:
    """The package's search; ``settings`` are those of its planner. ``mu=None``: without noise."""
    budget = NO_PRIVACY if mu is None else mu
    curator = Curator(task.n, task.clip, seed=seed, private=mu is not None, mu=budget)
    options: dict[str, Any] = {"trials": trials, "final_share": 0.0, "default": task.default, **settings}
    run = SearchRun(CENTRED, curator, scope=task.name, space=task.space, seed=seed, **options)
    for trial in range(run.plan.trials):
        parameters = run.ask()
        run.finish(str(trial), parameters, task.losses(parameters))
    return run.recommend()


def value_noise(task: SpaceTask, mu: float | None, trials: int) -> float:
    """Standard deviation of each of ``trials`` privatised values."""
    return 0.0 if mu is None else (task.clip[1] - task.clip[0]) * math.sqrt(trials) / (task.n * mu)


def tpe(task: SpaceTask, mu: float | None, trials: int, seed: int) -> Parameters:
    """Optuna's TPE on values; the best value."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    rng, sigma = np.random.default_rng([seed, 9]), value_noise(task, mu, trials)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True))
    study.enqueue_trial({name: _suggested(value) for name, value in task.default.items()})
    tried: list[Parameters] = []

    def objective(trial: optuna.Trial) -> float:
        tried.append(suggest(trial, task))
        return float(task.losses(tried[-1]).mean() + sigma * rng.standard_normal())

    study.optimize(objective, n_trials=trials)
    return tried[study.best_trial.number]


def suggest(trial: Any, task: SpaceTask) -> Parameters:
    """The configuration of an Optuna trial; what a parameter depends on stands before it."""
    space, found = task.space, dict[str, Any]()
    waiting = list(space)
    while waiting:
        name = next(name for name in waiting if not set(space.when_of(name)) & set(waiting))
        waiting.remove(name)
        if not space.active(name, found):
            continue
        p = space[name]
        if isinstance(p, Categorical):
            chosen = trial.suggest_categorical(name, [_suggested(choice) for choice in p.choices])
            found[name] = next(choice for choice in p.choices if _suggested(choice) == chosen)
        else:
            kind = trial.suggest_int if isinstance(p, Int) else trial.suggest_float
            found[name] = kind(name, p.low, p.high, log=p.log)
    return found


def _suggested(choice: Any) -> Any:
    return str(choice) if isinstance(choice, tuple) else choice


def candidates(task: SpaceTask, trials: int, seed: int) -> list[Parameters]:
    """The default configuration and random ones."""
    rng = np.random.default_rng([seed, 3])
    return [task.default, *(task.space.decode(rng.random(task.space.d)) for _ in range(trials - 1))]


def random(task: SpaceTask, mu: float | None, trials: int, seed: int) -> Parameters:
    """The best privatised value of random candidates."""
    found, sigma = candidates(task, trials, seed), value_noise(task, mu, trials)
    means = np.array([task.losses(p).mean() for p in found])
    return found[int(np.argmin(means + sigma * np.random.default_rng([seed, 4]).standard_normal(trials)))]


def selection(task: SpaceTask, mu: float | None, trials: int, seed: int) -> Parameters:
    """The exponential mechanism over the same candidates, as `dptune.select`: paid once."""
    found = candidates(task, trials, seed)
    means = np.array([task.losses(p).mean() for p in found])
    scale = 2 * (task.clip[1] - task.clip[0]) / task.n / bounded_range_from_mu(mu or NO_PRIVACY)
    return found[int(np.argmax(-means / scale + np.random.default_rng([seed, 5]).gumbel(size=trials)))]


METHODS: dict[str, Callable[..., Parameters]] = {
    "centred": centred, "TPE": tpe, "random": random, "selection": selection,
}  # fmt: skip
PRIVATE, PUBLIC = ("centred", "TPE", "random", "selection"), ("TPE", "random")


@dataclass(frozen=True)
class Cell:
    """One task, number of people, of trials, and seed; its result maps "method mu" to a test loss."""

    task: str
    n: int
    trials: int
    seed: int


def measure_again(cell: Cell, name: str) -> dict[str, float]:
    """The test losses of one private method, in place of what is kept of it."""
    task = space_task(cell.task, cell.n, cell.seed)
    return {f"{name} {mu:g}": task.test_loss(METHODS[name](task, mu, cell.trials, cell.seed)) for mu in BUDGETS}


def measure(cell: Cell) -> dict[str, float]:
    """The test losses of all methods, and of the default."""
    task = space_task(cell.task, cell.n, cell.seed)
    found = {"default": task.test_loss(task.default)}
    for name in PUBLIC:
        found[f"{name} none"] = task.test_loss(METHODS[name](task, None, cell.trials, cell.seed))
    for mu in BUDGETS:
        for name in PRIVATE:
            found[f"{name} {mu:g}"] = task.test_loss(METHODS[name](task, mu, cell.trials, cell.seed))
    return found


SHOWN = ("centred", "TPE", "random", "selection", "TPE none", "random none")


def _losses(results: Sequence[dict[str, Any]], name: str, mu: float) -> np.ndarray:
    key = name if name == "default" or "none" in name else f"{name} {mu:g}"
    return np.array([result["test_loss"][key] for result in results])


def table(results: list[dict[str, Any]]) -> str:
    """Mean test loss ± standard error over seeds, and by how many standard errors ours is above the default."""
    rows = []
    for (task, n, trials), mu, of in _cells(results):
        losses = {name: _losses(of, name, mu) for name in (*SHOWN, "default")}
        worse = losses["centred"] - losses["default"]
        error = worse.std(ddof=1) / math.sqrt(len(worse)) if len(worse) > 1 else math.nan
        shown = [mean_and_error(values) for values in losses.values()]
        apart = f"{worse.mean() / error:+.1f}" if error > 0 else "-"
        rows.append([task, str(n), str(trials), f"{mu:g}", str(len(of)), *shown, apart])
    heads = ["task", "n", "trials", "mu", "seeds", *(name.replace(" none", ", no privacy") for name in SHOWN)]
    return markdown([*heads, "default", "centred above the default, in standard errors"], rows)


def _cells(results: list[dict[str, Any]]) -> list[tuple[tuple[str, int, int], float, list[dict[str, Any]]]]:
    kinds = sorted({(result["task"], result["n"], result["trials"]) for result in results})
    of = {kind: [r for r in results if (r["task"], r["n"], r["trials"]) == kind] for kind in kinds}
    return [(kind, mu, of[kind]) for kind in kinds for mu in BUDGETS]


def ratios(results: list[dict[str, Any]]) -> str:
    """Geometric mean over people, trials, budgets and seeds of ours over another's loss ± that of its logarithm."""
    others = (*SHOWN[1:], "default")
    kinds: dict[str, tuple[list[dict[str, Any]], Sequence[float]]] = {"all": (results, BUDGETS)}
    for n in sorted({result["n"] for result in results}):
        of = [result for result in results if result["n"] == n]
        kinds |= {f"n = {n}, mu = {mu:g}": (of, (mu,)) for mu in BUDGETS}
    for by, called in (("trials", "{} trials"), ("task", "{}")):
        for value in sorted({result[by] for result in results}):
            kinds[called.format(value)] = [result for result in results if result[by] == value], BUDGETS
    rows = [[kind, *(_ratio(of, name, budgets) for name in others)] for kind, (of, budgets) in kinds.items()]
    return markdown(["centred / ", *(name.replace(" none", ", no privacy") for name in others)], rows)


def _ratio(results: list[dict[str, Any]], name: str, budgets: Sequence[float]) -> str:
    """The error is over splits, one for each task and seed: n, trials and budgets of a split are not independent."""
    of_split: dict[tuple[str, int], list[float]] = {}
    for result in results:
        for mu in budgets:
            (ours,), (theirs,) = _losses([result], "centred", mu), _losses([result], name, mu)
            of_split.setdefault((result["task"], result["seed"]), []).append(math.log(ours / theirs))
    logs = np.array([np.mean(found) for found in of_split.values()])
    error = logs.std(ddof=1) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return f"{math.exp(logs.mean()):.3f} ± {error:.3f}"


def shares(results: list[dict[str, Any]]) -> str:
    """The share of the achievable improvement kept: (default - a method) / (default - the frontier), of mean losses.

    The frontier of a task is whichever of TPE and random search without privacy has the smaller mean, in hindsight.
    """
    rows = []
    for task in sorted({result["task"] for result in results}):
        of = [result for result in results if result["task"] == task]
        means = {name: np.mean([_losses(of, name, mu).mean() for mu in BUDGETS]) for name in (*SHOWN, "default")}
        frontier = min(means[name] for name in SHOWN if "none" in name)
        gain = means["default"] - frontier
        kept = [(means["default"] - means[name]) / gain for name in SHOWN if "none" not in name]
        below = [f"{gain / means['default']:.0%}", f"{frontier / means['TPE']:.2f}"]
        rows.append([task, *below, *(f"{share:.2f}" for share in kept)])
    heads = ["task", "frontier below the default by", "frontier / TPE", *(name for name in SHOWN if "none" not in name)]
    return markdown(heads, rows)


def at_a_pair(tasks: Sequence[str], seeds: int, delta: float = 1e-5) -> str:
    """Test loss with a budget in (epsilon, delta) over that with the same promise in GDP; n = 300, 60 trials."""
    logs: dict[tuple[float, str], list[float]] = {}
    for seed in tqdm(range(3000, 3000 + seeds)):
        for name in tasks:
            task = space_task(name, 300, seed)
            for epsilon in (1.0, 3.0):
                gdp = mu_from_epsilon(epsilon, delta)
                today = task.test_loss(centred(task, gdp, 60, seed))
                for kind, found in _at_a_pair(task, epsilon, delta, gdp, seed):
                    logs.setdefault((epsilon, kind), []).append(math.log(task.test_loss(found) / today))
    rows = []
    for (epsilon, kind), of in logs.items():
        error = np.std(of, ddof=1) / math.sqrt(len(of))
        rows.append([f"{epsilon:g}", kind, f"{math.exp(np.mean(of)):.3f} ± {error:.3f}"])
    return markdown(["epsilon", "method", "loss / centred in GDP"], rows)


def _at_a_pair(
    task: SpaceTask, epsilon: float, delta: float, gdp: float, seed: int
) -> Iterator[tuple[str, Parameters]]:
    for share in (CHOICE, 0.85, 0.95):
        plan = largest_plan(share, epsilon, delta)
        yield f"centred, {share:g} for the choice", centred(task, plan, 60, seed, choice_share=share)
    yield "one choice", selection(task, largest_plan(1.0, epsilon, delta), 60, seed)
    yield "one choice, in GDP", selection(task, gdp, 60, seed)
    yield "one choice, no noise", selection(task, None, 60, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tasks", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--people", nargs="+", type=int, default=list(PEOPLE))
    parser.add_argument("--trials", nargs="+", type=int, default=list(TRIALS))
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--again", choices=PRIVATE, help="first measure this method anew in what is kept")
    parser.add_argument("--pair", action="store_true", help="compare at equal (epsilon, 1e-5) only")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    if asked.pair:
        print(at_a_pair(asked.tasks, asked.seeds))
        return
    results = Stored("spaces", asked.out)
    if asked.again:
        for result in tqdm(results):
            cell = Cell(**{name: value for name, value in result.items() if name != "test_loss"})
            result["test_loss"].update(measure_again(cell, asked.again))
            results.save()
    known = [{name: value for name, value in result.items() if name != "test_loss"} for result in results]
    seeds, tasks = range(asked.seeds), asked.tasks
    cells = [Cell(t, n, trials, seed) for trials in asked.trials for seed in seeds for n in asked.people for t in tasks]
    for cell in tqdm([cell for cell in cells if asdict(cell) not in known and not asked.show]):
        results.add({**asdict(cell), "test_loss": measure(cell)})
    print(json.dumps(machine()))
    print(table(results), ratios(results), shares(results), sep="\n\n")


if __name__ == "__main__":
    main()
