"""What the Optuna samplers cost per trial against t, and what asking many users at the same time costs in regret.

`overhead`: a study with t told trials in memory goes on for some trials. Of each it is told how long the run took
(`LDPRun.tell` and `ask`), how long reading the storage, and the whole trial, beside a trial of RandomSampler. CPU
time, in which other jobs on the machine count less.

`parallel`: the paper's synthetic problem with replies that come in groups: nobody in a group is told before all are
asked. "counted" is the samplers' way (users who are trying a point count in the deviation), "ignored" is without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution

import dptune
from benchmarks.ldp.problems import ldp_replies, rkhs, told_values
from benchmarks.ldp.runs import ALGORITHMS, load, mean_error, save, table
from dptune.search.gp.kernels import Matern52
from dptune_optuna import LDPATASampler, LDPMoMASampler, LDPTGPSampler
from dptune_optuna.local import LDPSampler

SAMPLERS: dict[str, type[LDPSampler]] = {"TGP": LDPTGPSampler, "ATA": LDPATASampler, "MoMA": LDPMoMASampler}
SPACE = {"x": FloatDistribution(0.0, 1.0)}
LENGTHS = (1_000, 10_000, 100_000)
TRIALS = 200  # timed
GROUPS = (1, 10, 100, 1_000)
COLUMNS = ["sampler", "t", "run", "reading", "trial", "random trial", "run, 8 in flight", "restart, s"]


def told_study(sampler: optuna.samplers.BaseSampler, t: int) -> optuna.Study:
    study = optuna.create_study(sampler=sampler, direction="maximize")
    rng = np.random.default_rng(0)
    candidates = [u for (u,) in rng.permutation(np.linspace(0, 1, 100))[:, None]]
    for i in range(t):
        value = 1 - abs(candidates[i % 100] - 0.6) + float(rng.laplace(0, 4))
        study.add_trial(optuna.create_trial(params={"x": candidates[i % 100]}, distributions=SPACE, value=value))
    return study


def settings() -> dptune.local.LDPSettings:
    return dptune.local.LDPSettings(dptune.local.LaplaceReplies(1.0, B=1.0, R=1.0), Matern52(0.2), horizon=100_000)


def open_sampler(name: str) -> LDPSampler:
    return SAMPLERS[name](settings(), SPACE, candidates=[{"x": x} for x in np.linspace(0, 1, 100)])


class Timed:
    """Adds up the time spent in some methods."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - began

        return timed


def go_on(study: optuna.Study, in_flight: int = 0) -> float:
    """Seconds of a trial; ``in_flight`` others are running and end in a random order."""
    rng, running = np.random.default_rng(1), []
    began = time.process_time()
    for _ in range(TRIALS):
        trial = study.ask()
        trial.suggest_float("x", 0, 1)
        running.append(trial)
        if len(running) > in_flight:
            study.tell(running.pop(rng.integers(len(running))), float(rng.laplace(0, 4)))
    return (time.process_time() - began) / TRIALS


def overhead() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    data, rows = load("ldp_samplers"), []
    for t in LENGTHS:
        study = told_study(optuna.samplers.RandomSampler(seed=0), t)
        floor = go_on(study)
        for name in SAMPLERS:
            study.sampler = sampler = open_sampler(name)
            began = time.process_time()
            session = sampler.run_of(study)
            assert session is not None
            session.ask()  # folds what was read
            restart = time.process_time() - began
            run, reading = Timed(), Timed()
            session.tell, session.ask = run(session.tell), run(session.ask)
            storage, original = study._storage, study._storage.get_all_trials
            storage.get_all_trials = reading(original)
            whole = go_on(study)
            alone, read, run.seconds = run.seconds / TRIALS, reading.seconds / TRIALS, 0.0
            go_on(study, in_flight=8)
            storage.get_all_trials = original
            us = [1e6 * s for s in (alone, read, whole, floor, run.seconds / TRIALS)]
            rows.append([name, t, *(round(x, 1) for x in us), round(restart, 2)])
            save("ldp_samplers", data | {"overhead": rows})
    print("\n**Microseconds of a trial after t others**, 100 candidates, study in memory, one thread\n")
    print(table(COLUMNS, [[str(x) for x in row] for row in rows]))


def grouped(algorithm: str, kernel: str, epsilon: float, T: int, seed: int, group: int, *, counted: bool) -> float:
    """Cumulative regret over that of uniform play when ``group`` users are asked before any of them replies."""
    problem = rkhs(kernel, seed)
    replies = ldp_replies(problem, epsilon)
    bandit = ALGORITHMS[algorithm](
        problem.points, dptune.local.LDPSettings(replies, problem.kernel, horizon=T, seed=seed)
    )
    reply, total = told_values(problem, replies, T, seed), 0.0
    for start in range(0, T, group):
        asked: list[int] = []
        for _ in range(group):
            asked.append(bandit.ask(asked) if counted or not asked else asked[0])
        for i, j in enumerate(asked):
            total += float(problem.f.max() - problem.f[j])
            bandit.tell(j, reply(start + i, j))
    return round(total / (problem.uniform * T), 5)


def parallel(T: int, seeds: int, algorithms: list[str]) -> None:
    data = load("ldp_samplers")
    runs: dict[str, list[float]] = data.setdefault(f"parallel, T={T}", {})
    for seed in range(seeds):
        for algorithm in algorithms:
            for group in GROUPS:
                for counted in (True, False) if group > 1 else (True,):
                    key = f"{algorithm} | {group} | {'counted' if counted else 'ignored'}"
                    made = runs.setdefault(key, [])
                    if len(made) == seed:
                        made.append(grouped(algorithm, "Matern 2.5", 1.0, T, seed, group, counted=counted))
                        save("ldp_samplers", data)
    print(f"\n**Users asked at the same time**, Matern 2.5, epsilon=1, T={T:,}: regret over uniform play\n")
    lines = [[*key.split(" | "), mean_error(values), str(len(values))] for key, values in runs.items()]
    print(table(["algorithm", "users at a time", "those still trying", "regret", "seeds"], lines))
