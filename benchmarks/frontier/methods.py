"""Every method of the design, with and without privacy, on one task: `METHODS[name](task, mu, trials, seed)`.

Each returns its recommendations by name; one run on values is read in two ways, as its best value and as the smallest
posterior mean among the points tried. `mu=None` is without noise. **A simulation**: the package's runs and
algorithms, seeded noise, a ledger in memory (`benchmarks.curator`). Values have noise R sqrt(trials) / (n mu).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.curator import Curator
from benchmarks.data import Array
from benchmarks.frontier import told_noise
from benchmarks.frontier.tasks import FrontierTask, Parameters
from benchmarks.loops import NO_PRIVACY
from benchmarks.mixed_space import suggest
from dptune import SearchRun
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy.mechanism import odds_for
from dptune.search.algorithms.method import Method
from dptune.search.gp.grouped import Group, GroupedRegression

Found = dict[str, Parameters]
BEST, MODEL, OWN = "best value", "model's mean", "own"


def run(method: Method, task: FrontierTask, mu: float | None, trials: int, seed: int, **settings: Any) -> Found:
    """One of the package's methods with its defaults, a final estimate among them."""
    curator = Curator(task.n, task.clip, seed=seed, private=mu is not None, mu=NO_PRIVACY if mu is None else mu)
    about = {"trials": trials, "default": task.default, **settings}
    search = SearchRun(method, curator, scope=task.name, space=task.space.numbers, seed=seed, **about)
    for trial in range(search.plan.trials):
        parameters = search.ask()
        search.finish(str(trial), parameters, task.losses(parameters))
    return {OWN: search.recommend()}


# ---- searches on values ------------------------------------------------------------------------------------------

Search = Callable[[Callable[[Parameters], float], FrontierTask, int, int], None]


def on_noisy_values(search: Search) -> Callable[..., Found]:
    """A method of ``search(value, task, trials, seed)``, which asks for the value of each of its trials."""

    def method(task: FrontierTask, mu: float | None, trials: int, seed: int) -> Found:
        rng, sigma = np.random.default_rng([seed, 9]), value_noise(task, mu, trials)
        tried, values = list[Parameters](), list[float]()

        def value(parameters: Parameters) -> float:
            tried.append(parameters)
            values.append(float(task.losses(parameters).mean() + sigma * rng.standard_normal()))
            return values[-1]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search(value, task, trials, seed)
        return read(task, tried, np.array(values), sigma)

    return method


def value_noise(task: FrontierTask, mu: float | None, trials: int) -> float:
    """Standard deviation of each of ``trials`` privatised values."""
    return 0.0 if mu is None else (task.clip[1] - task.clip[0]) * math.sqrt(trials) / (task.n * mu)


def read(task: FrontierTask, tried: list[Parameters], values: Array, sigma: float) -> Found:
    """The two recommendations of a finished search by values."""
    best = tried[int(np.argmin(values))]
    if not sigma:
        return {BEST: best}
    X = np.array([task.space.encode(parameters) for parameters in tried])
    model = GroupedRegression(task.space.d, memory=len(tried), iterations=100)
    model.fit([Group(X, values, sigma)])
    return {BEST: best, MODEL: tried[int(np.argmin(model.mean(X)))]}


def _optuna(name: str, **settings: Any) -> Callable[..., Found]:
    def search(value: Callable[[Parameters], float], task: FrontierTask, trials: int, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=getattr(optuna.samplers, name)(seed=seed, **settings))
        study.enqueue_trial(dict(task.start))
        study.optimize(lambda trial: value(suggest(trial, task.space)), n_trials=trials)

    return on_noisy_values(search)


# ---- one selection at the end -------------------------------------------------------------------------------------


def selection(task: FrontierTask, mu: float | None, trials: int, seed: int, *, keeps: bool = False) -> Found:
    """The exponential mechanism over the start, which may have `dptune.select`'s odds, and random candidates."""
    rng = np.random.default_rng([seed, 3])
    found = [task.start, *(task.space.decode(rng.random(task.space.d)) for _ in range(trials - 1))]
    means = np.array([task.losses(parameters).mean() for parameters in found])
    scale = 2 * (task.clip[1] - task.clip[0]) / task.n / bounded_range_from_mu(mu or NO_PRIVACY)
    odds = np.log(odds_for(0, trials)) if keeps else 0.0
    return {OWN: found[int(np.argmax(odds - means / scale + np.random.default_rng([seed, 5]).gumbel(size=trials)))]}


def start(task: FrontierTask, mu: float | None, trials: int, seed: int) -> Found:
    """No tuning: the library's defaults, or the centre of the space."""
    return {OWN: task.start}


def gaussian_process(task: FrontierTask, mu: float | None, trials: int, seed: int) -> Found:
    """BoTorch's Gaussian process, told the noise of the values."""
    rng = np.random.default_rng([seed, 9])
    return {OWN: told_noise.search(task, value_noise(task, mu, trials), trials, seed, rng)}


START, SELECTION, KEEPING = "start", "selection", "selection, default kept"
TPE, CMA, RANDOM = "values, TPE", "values, CMA-ES", "values, random"
GP = "values, GP told the noise"
METHODS: dict[str, Callable[..., Found]] = {
    START: start,
    TPE: _optuna("TPESampler", multivariate=True, group=True),
    CMA: _optuna("CmaEsSampler"),
    RANDOM: _optuna("RandomSampler"),
    GP: gaussian_process,
    SELECTION: selection,
    KEEPING: partial(selection, keeps=True),
}
NUMERIC = (CMA,)
