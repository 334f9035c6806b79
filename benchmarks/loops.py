"""One run of one method on one task, simulated: the package's formulas without its ledger.

**A simulation.** The algorithm is the package's own; what is replaced is the curator. `Curator` answers the same
`MeanQuery` from a matrix of losses, clips as `LossPrivatizer` does, and draws seeded numpy noise with the package's
`noise_scale`; nothing is paid or recorded. tests/benchmarks/test_loops.py checks it against the real `LossPrivatizer`.
`mu=None` is the same method without privacy: no noise, but the same clipping of losses and gradients.

Notation: u (d,) a point of the unit cube; n people; R = high - low, the losses' range.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.data import Array
from benchmarks.tasks import Task
from dptune.algorithms.centred import CentredCMA
from dptune.algorithms.centred_plan import plan_centred_cma
from dptune.algorithms.gibo import DPGIBO
from dptune.algorithms.gibo_plan import GIBOPlan, plan_gibo
from dptune.privacy.noise import noise_scale
from dptune.privacy.query import Ball, Interval, MeanQuery, NormQuery, Query
from dptune.search.values import ValuePlan

NO_PRIVACY = 1e9  # mu of a plan whose noise is then left out


class Curator:
    """Holds losses and answers queries; ``private=False`` adds no noise.

    Args:
        n: people.
        clip: (low, high) of one loss.
        seed: of the noise.
        private: whether to add it.
    """

    def __init__(self, n: int, clip: tuple[float, float], *, seed: int, private: bool) -> None:
        self.interval, self.n, self.private = Interval(*clip), n, private
        self._rows: dict[str, Array] = {}
        self._failed: set[str] = set()
        self._rng = np.random.default_rng([seed, 2])

    def observe(self, name: str, losses: Array) -> None:
        """Keep the clipped losses (n,) of a point."""
        low, high = self.interval.low, self.interval.high
        self._rows[name] = np.clip(np.nan_to_num(losses, nan=high, posinf=high, neginf=low), low, high)

    def observe_failure(self, name: str) -> None:
        """Keep a point whose evaluation failed."""
        self._rows[name] = np.full(self.n, self.interval.high)
        self._failed.add(name)

    def _told(self, query: Query) -> Array:
        """The losses a query is about, (m, n), with its rule for failed evaluations."""
        rows = np.array([self._rows[name] for name in query.points])
        failed = np.array([name in self._failed for name in query.points])
        if query.failed_above is not None and not failed.all():
            rows[failed] = rows[~failed].mean(axis=0) + query.failed_above
        return rows

    def keep(self, names: tuple[str, ...]) -> None:
        """Forget all other points."""
        self._rows = {name: self._rows[name] for name in names}

    def answer(self, query: Query) -> Array:
        """(1/n) sum_i clip(W L_i) + N(0, sigma^2 I), (p,); or the share of people in the ball, (1,)."""
        G = query.weights @ self._told(query)  # (p, n)
        inside = isinstance(query, NormQuery)
        mean = (
            np.atleast_1d(np.mean(np.linalg.norm(G, axis=0) <= query.radius))
            if inside
            else clip(G, query.clip).mean(axis=1)
        )
        return mean + self.sigma(query) * self._rng.standard_normal(len(mean)) if self.private else mean

    def sigma(self, query: Query) -> float:
        """The noise's standard deviation, per coordinate."""
        return noise_scale(sensitivity=query.clip.diameter / self.n, mu=query.mu, dimension=query.dimension)


def clip(G: Array, region: Ball | Interval) -> Array:
    """Each column of G (p, n) into the region."""
    if isinstance(region, Interval):
        return np.clip(G, region.low, region.high)
    return np.asarray(G * np.minimum(1.0, region.radius / np.maximum(np.linalg.norm(G, axis=0), 1e-300)))


@dataclass(frozen=True)
class Result:
    """What a run ends with.

    Attributes:
        u: recommended point.
        test_loss: there.
        trials: points evaluated.
        path: test losses of the iterates (DP-GIBO), or of the best so far after each tenth of the trials.
    """

    u: Array
    test_loss: float
    trials: int
    path: tuple[float, ...] = ()


MakePlan = Callable[..., GIBOPlan]


def run_gibo(
    task: Task,
    mu: float | None,
    trials: int,
    seed: int,
    *,
    make_plan: MakePlan = plan_gibo,
    with_path: bool = False,
    **settings: object,
) -> Result:
    """DP-GIBO with the package's defaults, or with ``settings`` of `plan_gibo` in their place."""
    low, high = task.clip
    budget = NO_PRIVACY if mu is None else mu
    plan = make_plan(d=task.d, n=task.n, loss_range=high - low, mu=budget, trials=trials, seed=seed, **settings)
    curator = Curator(task.n, task.clip, seed=seed, private=mu is not None)
    algorithm = DPGIBO(plan.settings)
    used = fold(algorithm, curator, task.losses)
    path = tuple(task.test_loss(u) for u in algorithm.path) if with_path else ()
    u = algorithm.recommend()
    return Result(u, task.test_loss(u), used, path)


def fold(algorithm: DPGIBO, curator: Curator, losses: Callable[[Array], Array]) -> int:
    """Run DP-GIBO to its end, as `dptune.session.GIBOSession` does; return the number of points evaluated."""
    used = 0
    while not algorithm.finished:
        for slot in range(algorithm.batch_left()):
            u = algorithm.ask(slot)
            curator.observe(str(used), losses(u))
            algorithm.observe(str(used), u)
            used += 1
        answer = curator.answer(algorithm.query())
        if algorithm.started:
            algorithm.tell(answer)
            algorithm.next_batch()
        else:
            points = algorithm.start_points()
            algorithm.next_batch()
            algorithm.tell_start(points, answer)
        curator.keep(algorithm.points_in_use())
    return used


def run_centred(task: Task, mu: float | None, trials: int, seed: int, **settings: object) -> Result:
    """CMA-ES on centred releases with the package's defaults, or with ``settings`` of `plan_centred_cma`."""
    low, high = task.clip
    budget = NO_PRIVACY if mu is None else mu
    options = {"final_share": 0.0, **settings}
    plan = plan_centred_cma(d=task.d, loss_range=high - low, mu=budget, trials=trials, seed=seed, **options)
    curator = Curator(task.n, task.clip, seed=seed, private=mu is not None)
    algorithm = CentredCMA(plan.settings)
    used = fold_centred(algorithm, curator, task.losses)
    u = algorithm.recommend()
    return Result(u, task.test_loss(u), used)


def fold_centred(algorithm: CentredCMA, curator: Curator, losses: Callable[[Array], Array | None]) -> int:
    """Run it to its end, as `dptune.centred.CentredCMASession` does; return the number of points evaluated.

    Where ``losses`` is None the evaluation failed.
    """
    used = 0
    while not algorithm.finished:
        for slot in range(algorithm.missing()):
            u = algorithm.ask(slot)
            found = losses(u)
            if found is None:
                curator.observe_failure(str(used))
            else:
                curator.observe(str(used), found)
            algorithm.observe(str(used), u)
            used += 1
        if algorithm.settings.share > 0:
            algorithm.follow(algorithm.radius, float(curator.answer(algorithm.share_query())[0]))
        query = algorithm.query()
        algorithm.tell(algorithm.asked(curator.answer(query), curator.sigma(query)))
        algorithm.next_generation(own=True)
        curator.keep(algorithm.points_in_use())
    return used


def run_sampler(method: str, task: Task, mu: float | None, trials: int, seed: int) -> Result:
    """An Optuna sampler on values with noise R / (n mu_t), mu_t = mu / sqrt(trials); recommends the best value.

    Args:
        method: "Random", "TPE" or "CMA-ES".
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    curator = Curator(task.n, task.clip, seed=seed, private=mu is not None)
    price = ValuePlan(NO_PRIVACY if mu is None else mu, trials, final_share=0.0).monitor_mu
    names = [f"u{j}" for j in range(task.d)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=_sampler(method, task.d, seed))

        def objective(trial: optuna.Trial) -> float:
            u = np.array([trial.suggest_float(name, 0.0, 1.0) for name in names])
            curator.observe("x", task.losses(u))
            return float(curator.answer(MeanQuery(("x",), np.ones((1, 1)), curator.interval, price))[0])

        study.optimize(objective, n_trials=trials)
    u = np.array([study.best_params[name] for name in names])
    return Result(u, task.test_loss(u), trials)


def _sampler(method: str, d: int, seed: int):
    import optuna

    if method == "Random":
        return optuna.samplers.RandomSampler(seed=seed)
    if method == "TPE":
        return optuna.samplers.TPESampler(seed=seed)
    if method == "CMA-ES":
        return optuna.samplers.CmaEsSampler(seed=seed)
    raise ValueError(f"unknown method {method!r}: Random, TPE or CMA-ES")


SAMPLERS = ("Random", "TPE", "CMA-ES")


def run(task: Task, method: str, mu: float | None, trials: int, seed: int) -> Result:
    """One run to its end; ``method`` is "centred CMA-ES", "DP-GIBO" or one of `SAMPLERS`."""
    own = {"centred CMA-ES": run_centred, "DP-GIBO": run_gibo}
    return own[method](task, mu, trials, seed) if method in own else run_sampler(method, task, mu, trials, seed)
