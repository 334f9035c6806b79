"""Variants of the centred search: `python -m benchmarks.what_did_not_work.centred_variants [--seeds 10]`.

Tables of docs/research/what-did-not-work.md.

Results are kept in `<out>/results/centred_variants.jsonl`; what is there is not run again.
The search without saturation and with half of the people clipped ("plain") beside variants of it, the package's own
among them, all at the same n, mu and trials, on the tasks its constants were chosen on (none of those kept aside).
Seeded simulation, see `benchmarks.loops`.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cmaes import CMA

from benchmarks.data import Array, split_table
from benchmarks.frontier.tables import table as rows
from benchmarks.frontier.tasks import MOST_TEST, N_TRAIN, FrontierTask
from benchmarks.loops import plain, result, run_centred, run_gibo, simulate
from benchmarks.measurements.private import PEOPLE, make_task
from benchmarks.measurements.tails.tasks import NAMES
from benchmarks.measurements.tails.tasks import make as make_with_tails
from benchmarks.report import DOCS, machine, markdown, run_missing
from benchmarks.tasks import Task, kernel_ridge_task
from benchmarks.what_did_not_work.posterior_paths import Paths
from dptune.privacy.query import Question
from dptune.search.algorithms.centred import PROPOSALS, Centred, Generation
from dptune.search.algorithms.centred_cma import RESAMPLINGS, CentredCMA
from dptune.search.algorithms.centred_plan import CENTRED, default_population
from dptune.search.algorithms.centred_settings import CentredSettings, Tuning
from dptune.search.gp.grouped import Group, GroupedRegression

N = 300
TASKS = ("svc-breast-cancer", "krr-parkinsons", "krr-pumadyn32nm")
BUDGETS, TRIALS = (0.5, 1.0, 2.0), (100, 400)
STUCK = 0.5  # test loss of a run that got stuck; about 1 is that of predicting the mean
FIRST_SEED = 100  # other splits than those of `make -C benchmarks private`


class RawValues(CentredCMA):
    """CMA-ES told the released values as they are; the surrogate still chooses the proposals, unless candidates=1."""

    def _tell(self, generation: Generation) -> None:
        """Learn the raw values; the surrogate is fitted all the same."""
        engine, new = self.cma, generation.points[: generation.new]
        self.cma = _Deaf(engine)
        super()._tell(generation)
        self.cma = engine
        engine.tell([(x, float(v)) for x, v in zip(new, generation.values[: generation.new], strict=True)])
        self.means[-1] = np.array(engine.mean)

    def recommend(self) -> Array:
        """The mean of CMA-ES's last means."""
        return np.asarray(np.clip(np.mean(self.means[-self.settings.tuning.average :], axis=0), 0.0, 1.0))


class _Deaf:
    """CMA-ES that learns nothing."""

    def __init__(self, engine: object) -> None:
        self.mean = engine.mean

    def tell(self, solutions: object) -> None:
        """Nothing."""


class Schedule(CentredCMA):
    """The first generation's squared price is ``ratio`` times the last one's, geometrically."""

    ratio = 3.0

    def question(self) -> Question | None:
        """At this generation's price."""
        asked = super().question()
        return asked and replace(asked, query=replace(asked.query, mu=asked.query.mu * self._factor()))

    def _factor(self) -> float:
        G = self.settings.generations
        weights = self.ratio ** (-np.arange(G) / max(G - 1, 1))
        return math.sqrt(weights[self.t] / weights.mean())


class LearningRate(CentredCMA):
    """CMA-ES that adapts its learning rate to the noise (Nomura et al., arXiv 2304.03473), as `cmaes` has it."""

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        engine = partial(CMA, n_max_resampling=RESAMPLINGS, seed=settings.seed, population_size=settings.population)
        bounds = np.tile([0.0, 1.0], (settings.d, 1))
        self.cma = engine(np.full(settings.d, 0.5), settings.tuning.sigma, bounds=bounds, lr_adapt=True)


class RawLearningRate(LearningRate, RawValues):
    """The same, told the released values as they are."""


class TrustRegion(CentredCMA):
    """Trust-region BO (TuRBO, Eriksson et al., arXiv 1910.01739) in the place of CMA-ES."""

    SHORTEST, LONGEST, FIRST = 2.0**-7, 1.6, 0.8

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self._side, self._good, self._bad = self.FIRST, 0, 0

    def _propose(self, rng: np.random.Generator) -> Array:
        s = self.settings
        count = PROPOSALS * s.population
        total = s.tuning.candidates * s.population
        if not self.generations:
            return np.asarray(np.clip(0.5 + s.tuning.sigma * rng.standard_normal((count, s.d)), 0, 1))
        lengths = np.exp(self.surrogate.theta[: s.d])
        sides = self._side * np.clip(lengths / np.exp(np.log(lengths).mean()), 0.1, 10)
        centre = self.means[-1]
        low, high = np.maximum(centre - sides / 2, 0), np.minimum(centre + sides / 2, 1)
        moved = rng.random((total, s.d)) < min(1.0, 20 / s.d)
        moved[np.arange(total), rng.integers(s.d, size=total)] = True
        drawn = np.where(moved, rng.uniform(low, high, (total, s.d)), centre)
        return self._best_under_drawn_functions(drawn, rng, spread=s.tuning.spread)

    def _tell(self, generation: Generation) -> None:
        """Learn, and move, widen or narrow the region."""
        super()._tell(generation)
        seen = np.vstack([g.points[: g.new] for g in self.generations])
        means = self.surrogate.mean(seen)
        best, newest = int(np.argmin(means)), len(seen) - generation.new
        better = best >= newest
        self._good, self._bad = (self._good + 1, 0) if better else (0, self._bad + 1)
        if self._good >= 3:
            self._side, self._good = min(2 * self._side, self.LONGEST), 0
        elif self._bad >= math.ceil(max(4, self.settings.d) / generation.new):
            self._side, self._bad = self._side / 2, 0
        if self._side < self.SHORTEST:
            self._side = self.FIRST
        self.means[-1] = seen[best]


class TPE(CentredCMA):
    """Optuna's TPE, told the surrogate's means of all points, in the place of CMA-ES."""

    def _propose(self, rng: np.random.Generator) -> Array:
        import optuna
        from optuna.distributions import FloatDistribution

        s = self.settings
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=1000 * s.seed + self.t, multivariate=True, constant_liar=True, n_startup_trials=s.population
            )
            study = optuna.create_study(sampler=sampler)
            space = {f"u{j}": FloatDistribution(0.0, 1.0) for j in range(s.d)}
            if self.generations:
                seen = np.vstack([g.points[: g.new] for g in self.generations])
                for x, value in zip(seen, self.surrogate.mean(seen), strict=True):
                    parameters = dict(zip(space, x.tolist(), strict=True))
                    study.add_trial(
                        optuna.trial.create_trial(params=parameters, distributions=space, value=float(value))
                    )
            asked = [study.ask(space).params for _ in range(s.population)]
        return np.array([[parameters[name] for name in space] for parameters in asked])

    def _tell(self, generation: Generation) -> None:
        """Learn; the incumbent takes the place of CMA-ES's mean."""
        super()._tell(generation)
        seen = np.vstack([g.points[: g.new] for g in self.generations])
        self.means[-1] = seen[int(np.argmin(self.surrogate.mean(seen)))]


class AsksItsAnswer(CentredCMA):
    """One proposal of each generation is what would be recommended now."""

    def _propose(self, rng: np.random.Generator) -> Array:
        drawn = super()._propose(rng)
        if self.generations:
            drawn[0] = self.recommend()
        return drawn


class Tried(CentredCMA):
    """Recommends the evaluated point whose posterior mean is smallest."""

    def recommend(self) -> Array:
        """Among all points that were asked about."""
        seen = np.vstack([generation.points for generation in self.generations])
        return np.asarray(seen[int(np.argmin(self.surrogate.mean(seen)))])


class LongScales(GroupedRegression):
    """Length-scales with the prior of Hvarfner et al. (arXiv 2402.02229): median e^sqrt(2) sqrt(d)."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self._prior = np.array([math.sqrt(2) + math.log(d) / 2] * d + list(self._prior[d:]))
        self.theta = self._prior

    def objective(self, theta: Array) -> tuple[float, Array]:
        value, slopes = super().objective(theta)
        spare = np.where(np.arange(len(theta)) < self.d, 2 / 3, 0.0) * (theta - self._prior)  # 1 - 1 / 3
        return value - 0.5 * float(spare @ (theta - self._prior)), slopes - spare


class LongScaled(CentredCMA):
    """The same search with that prior."""

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.surrogate = LongScales(settings.d)


class Rescaled(GroupedRegression):
    """A generation's values and noise times sqrt(1 / C): where C is small it holds most people's differences down."""

    def fit(self, groups: Sequence[Group]) -> None:
        """Take the groups, of which the newest is not rescaled yet."""
        *old, new = groups
        scale = 1 / math.sqrt(self.radius)
        super().fit([*old, Group(new.points, new.values * scale, new.sigma * scale)])


class UndoesClipping(CentredCMA):
    """The same search with such values."""

    def __init__(self, settings: CentredSettings) -> None:
        super().__init__(settings)
        self.surrogate = Rescaled(settings.d)

    def _tell(self, generation: Generation) -> None:
        self.surrogate.radius = generation.radius / self.settings.radius
        super()._tell(generation)


def leaping(leap: float) -> type[Paths]:
    """Proposals nearer to tried points, or farther from them."""
    return type("Leaping", (Paths,), {"leap": leap})


def centred(kind: type[Centred], task: Task, mu: float, trials: int, seed: int, **settings: object) -> Array:
    """A run's recommendation, (d,), of the plain search unless told: CMA-ES's generations from the first point on."""
    method, usual = replace(CENTRED, algorithm=kind), plain(task.d, trials)
    names = {each.name for each in fields(Tuning)}
    tuning = {**usual["tuning"], **{name: settings.pop(name) for name in names & settings.keys()}}
    settings = {**usual, **settings, "tuning": {name: value for name, value in tuning.items() if value is not None}}
    return result(task, simulate(method, task, mu, seed, trials=trials, final_share=0.0, **settings)).u


def own(task: Task, mu: float, trials: int, seed: int) -> Array:
    """With all of the package's defaults."""
    return run_centred(task, mu, trials, seed, default=getattr(task, "default", None)).u


def scheduled(ratio: float, task: Task, mu: float, trials: int, seed: int) -> Array:
    """With the package's defaults, the first generation's squared price ``ratio`` times the last one's."""
    method = replace(CENTRED, algorithm=type("Scheduled", (Schedule,), {"ratio": ratio}))
    run = simulate(method, task, mu, seed, trials=trials, final_share=0.0, default=getattr(task, "default", None))
    return result(task, run).u


def large_population(times: int, task: Task, mu: float, trials: int, seed: int) -> Array:
    """``times`` fewer generations."""
    return centred(CentredCMA, task, mu, trials, seed, population=times * default_population(task.d, trials))


def then_gibo(task: Task, mu: float, trials: int, seed: int) -> Array:
    """Half of trials and budget for centred CMA-ES, the other half for DP-GIBO from there: a global start."""
    start = centred(CentredCMA, task, mu / math.sqrt(2), trials // 2, seed)
    return run_gibo(task, mu / math.sqrt(2), trials // 2, seed, theta0=tuple(start.tolist()), starts=0).u


LESS_CLIPPED: dict[str, Any] = {"saturated": 0.6, "quantile": None}  # None: the package's default
PLAIN = "plain"  # what the others are variants of
VARIANTS: dict[str, Callable[[Task, float, int, int], Array]] = {
    PLAIN: partial(centred, CentredCMA),
    "raw values": partial(centred, RawValues),
    "no surrogate": partial(centred, RawValues, candidates=1),
    "trust-region BO": partial(centred, TrustRegion),
    "TPE": partial(centred, TPE),
    "then DP-GIBO": then_gibo,
    "early budget": partial(centred, Schedule),
    "2 lambda": partial(large_population, 2),
    "4 lambda": partial(large_population, 4),
    "learning rate": partial(centred, LearningRate),
    "learning rate, raw": partial(centred, RawLearningRate),
    "asks its answer": partial(centred, AsksItsAnswer),
    "tried points": partial(centred, Tried),
    "long scales": partial(centred, LongScaled),
    "undoes clipping": partial(centred, UndoesClipping),
    "C follows faster": partial(centred, CentredCMA, rate=2.0),
    "saturated": partial(centred, CentredCMA, saturated=1.0),
    "saturated at first": partial(centred, CentredCMA, saturated=0.15),
    "saturated for longer": partial(centred, CentredCMA, saturated=0.6),
    "less clipped": partial(centred, CentredCMA, **LESS_CLIPPED),
    "small generations": partial(centred, CentredCMA, **LESS_CLIPPED, population=None),
    "explores first": partial(centred, CentredCMA, **LESS_CLIPPED, explored=None),
    "both": partial(centred, CentredCMA, **LESS_CLIPPED, population=None, explored=None),
    "package's": own,
    "package's, early budget": partial(scheduled, 4.0),
    "package's, late budget": partial(scheduled, 1 / 4),
    "package's, very late budget": partial(scheduled, 1 / 16),
    "4 paths": partial(centred, Paths, population=4),
    "6 paths": partial(centred, Paths, population=6),
    "8 paths": partial(centred, Paths, population=8),
    "4 wide paths": partial(centred, Paths, population=4, spread=1.0),
    "4 near paths": partial(centred, leaping(0.15), population=4),
    "4 far paths": partial(centred, leaping(0.5), population=4),
}

USUAL = tuple(VARIANTS)[: list(VARIANTS).index("asks its answer")]  # the later ones where they are asked for


@dataclass(frozen=True)
class Run:
    """One run of a variant."""

    task: str
    n: int
    mu: float
    trials: int
    variant: str
    seed: int


class Cube:
    """One of `benchmarks.measurements.tails.tasks` on the unit cube, with its default."""

    def __init__(self, task: FrontierTask) -> None:
        self._task, self.d, self.n, self.clip, self.name = task, task.space.d, task.n, task.clip, task.name
        self.default = {f"u{j}": float(u) for j, u in enumerate(task.space.encode(task.start))}

    def losses(self, u: Array) -> Array:
        """Clipped losses (n,)."""
        return self._task.losses(self._task.space.decode(u))

    def test_loss(self, u: Array) -> float:
        """The judge's."""
        return self._task.judge(self._task.space.decode(u))


def make(name: str, n: int, seed: int) -> Task | Cube:
    """A task of `measurements.private` or `measurements.tails`, or a kernel ridge of `benchmarks.frontier`."""
    if name in PEOPLE:
        return make_task(name, n, seed)
    if name in NAMES:
        return Cube(make_with_tails(name, n, seed))
    data = rows(name.removeprefix("krr-"))
    n_test = min(len(data) - N_TRAIN - n, MOST_TEST)
    return kernel_ridge_task(split_table(name, data, n=n, seed=seed, n_train=N_TRAIN, n_test=n_test))


def measure(run: Run) -> float:
    """The test loss of one run."""
    task = make(run.task, run.n, run.seed)
    return task.test_loss(VARIANTS[run.variant](task, run.mu, run.trials, run.seed))


def table(results: list[dict[str, object]], runs: list[Run], over: str = PLAIN) -> str:
    """Mean test loss by cell, with the number of runs that got stuck.

    Below, each variant's loss over that of one of them, geometric mean, and the standard error of its logarithm.
    """
    kept = {Run(*(r[field.name] for field in fields(Run))): float(r["test_loss"]) for r in results}
    variants = list(dict.fromkeys(run.variant for run in runs))
    cells = list(dict.fromkeys((run.task, run.n, run.trials, run.mu) for run in runs))
    seeds = list(dict.fromkeys(run.seed for run in runs))
    losses = np.array([[[kept[Run(t, n, m, k, v, s)] for s in seeds] for v in variants] for t, n, k, m in cells])
    rows = [
        [task, str(trials), f"{mu:g}", *(_mean_and_stuck(of) for of in cell)]
        for (task, _, trials, mu), cell in zip(cells, losses, strict=True)
    ]
    base = losses[:, [variants.index(over)]]
    ratios = np.log(losses / base).transpose(1, 0, 2).reshape(len(variants), -1)
    errors = ratios.std(axis=1, ddof=1) / math.sqrt(ratios.shape[1])
    rows.append([f"loss / {over}", "", "", *(f"{math.exp(x):.2f}" for x in ratios.mean(axis=1))])
    rows.append(["± (of its logarithm)", "", "", *(f"{x:.2f}" for x in errors)])
    return markdown(["task", "trials", "mu", *variants], rows)


def _mean_and_stuck(losses: Array) -> str:
    stuck = int(np.sum(losses > STUCK))
    return f"{losses.mean():.3f}" + (f" ({stuck})" if stuck else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=[*PEOPLE, "krr-fair", "krr-budget", *NAMES])
    parser.add_argument("--people", type=int, default=N)
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--trials", nargs="+", type=int, default=TRIALS)
    parser.add_argument("--variants", nargs="+", default=USUAL, choices=list(VARIANTS))
    parser.add_argument("--over", default=PLAIN, choices=list(VARIANTS), help="what they are compared with")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    variants = [v for v in VARIANTS if v in {*asked.variants, asked.over}]
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    runs = [
        Run(task, asked.people, mu, trials, variant, seed)
        for seed in seeds
        for task in asked.tasks
        for trials in asked.trials
        for mu in asked.budgets
        for variant in variants
    ]
    results = run_missing(measure, runs, jobs=asked.jobs, name="centred_variants", out=asked.out)
    print(json.dumps(machine()))
    print(table(results, runs, asked.over))


if __name__ == "__main__":
    main()
