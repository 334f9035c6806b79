"""One run of one method on one task, simulated: the package's run and algorithms with `benchmarks.curator`'s curator.

`mu=None` is the same method without privacy: no noise, but the same clipping of losses and gradients.

Notation: u (d,) a point of the unit cube; n people; R = high - low, the losses' range.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from benchmarks.curator import Curator
from benchmarks.data import Array
from benchmarks.tasks import Task
from dptune.errors import TrialFailed
from dptune.search import VALUES
from dptune.search.algorithms.centred_plan import CENTRED, QUANTILE, default_population
from dptune.search.algorithms.gibo_plan import GIBO
from dptune.search.algorithms.method import Method, PublicFacts, RunPlan
from dptune.search.run import SearchRun
from dptune.space import Float, Space

NO_PRIVACY = 1e9  # mu of a plan whose noise is then left out


@dataclass(frozen=True)
class Result:
    """What a run ends with.

    Attributes:
        u: recommended point.
        test_loss: there.
        trials: points evaluated.
        path: test losses of the iterates (DP-GIBO).
    """

    u: Array
    test_loss: float
    trials: int
    path: tuple[float, ...] = ()


def begin(
    method: Method, task: Task, mu: float | None, seed: int, *, curator: Curator | None = None, **settings: object
) -> SearchRun:
    """A run with a curator of its own, or this one; ``settings`` are the planner's, ``trials`` among them."""
    if curator is None:
        budget = NO_PRIVACY if mu is None else mu
        curator = Curator(task.n, task.clip, seed=seed, private=mu is not None, mu=budget)
    space = None if method is VALUES else Space({f"u{j}": Float(0.0, 1.0) for j in range(task.d)})
    return SearchRun(method, curator, scope=task.name, space=space, seed=seed, **settings)


def simulate(
    method: Method,
    task: Task,
    mu: float | None,
    seed: int,
    *,
    losses: Callable[[Array], Array | None] | None = None,
    **settings: object,
) -> SearchRun:
    """Run a method to its end; where ``losses``, by default the task's, are None the evaluation failed."""
    run, losses = begin(without_values(method), task, mu, seed, **settings), losses or task.losses
    for trial in range(run.plan.trials):
        parameters = run.ask()
        with suppress(TrialFailed):  # raised as long as none has succeeded; the next trial follows
            run.finish(str(trial), parameters, losses(np.array(list(parameters.values()))))
    return run


def without_values(method: Method) -> Method:
    """The method with the same prices, whose trials' values are paid for and not drawn: nobody looks at them."""

    @wraps(method.planner)
    def planner(facts: PublicFacts, **settings: object) -> RunPlan:
        return replace(method.planner(facts, **settings), monitor_share=0.0)

    return replace(method, planner=planner)


def result(task: Task, run: SearchRun, *, with_path: bool = False) -> Result:
    """The end of a run."""
    u = np.array(list(run.recommend().values()))
    path = tuple(task.test_loss(theta) for theta in run.algorithm.path) if with_path else ()
    return Result(u, task.test_loss(u), run.plan.trials, path)


def run_gibo(
    task: Task, mu: float | None, trials: int, seed: int, *, with_path: bool = False, **settings: object
) -> Result:
    """DP-GIBO with the package's defaults, or with ``settings`` of `plan_gibo` in their place."""
    return result(task, simulate(GIBO, task, mu, seed, trials=trials, **settings), with_path=with_path)


def plain(d: int, trials: int) -> dict[str, Any]:
    """Settings of the plain centred search, of pages that were measured before it explored and saturated."""
    tuning = {"quantile": QUANTILE, "saturated": 0.0, "explored": 0, "most_explored": 0}
    return {"tuning": tuning, "population": default_population(d, trials)}


def run_centred(task: Task, mu: float | None, trials: int, seed: int, **settings: object) -> Result:
    """CMA-ES on centred releases with the package's defaults, or with ``settings`` of `plan_centred`."""
    return result(task, simulate(CENTRED, task, mu, seed, trials=trials, **{"final_share": 0.0, **settings}))


def run_sampler(method: str, task: Task, mu: float | None, trials: int, seed: int) -> Result:
    """An Optuna sampler on values with noise R / (n mu_t), mu_t = mu / sqrt(trials); recommends the best value.

    Args:
        method: "Random", "TPE" or "CMA-ES".
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    run = begin(VALUES, task, mu, seed, trials=trials, final_share=0.0)
    names = [f"u{j}" for j in range(task.d)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=_sampler(method, seed))

        def objective(trial: optuna.Trial) -> float:
            u = np.array([trial.suggest_float(name, 0.0, 1.0) for name in names])
            return run.finish(str(trial.number), trial.params, task.losses(u))

        study.optimize(objective, n_trials=trials)
    u = np.array([study.best_params[name] for name in names])
    return Result(u, task.test_loss(u), trials)


def _sampler(method: str, seed: int):
    import optuna

    kinds = {"Random": "RandomSampler", "TPE": "TPESampler", "CMA-ES": "CmaEsSampler"}
    return getattr(optuna.samplers, kinds[method])(seed=seed)


SAMPLERS = ("Random", "TPE", "CMA-ES")


def run(task: Task, method: str, mu: float | None, trials: int, seed: int) -> Result:
    """One run to its end; ``method`` is "centred", "DP-GIBO" or one of `SAMPLERS`."""
    own = {"centred": run_centred, "DP-GIBO": run_gibo}
    return own[method](task, mu, trials, seed) if method in own else run_sampler(method, task, mu, trials, seed)
