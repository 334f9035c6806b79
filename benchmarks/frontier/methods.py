"""Every method of the design, with and without privacy, on one task: `METHODS[name](task, mu, trials, seed)`.

Each returns its recommendations by name; one run on values is read in two ways, as its best value and as the smallest
posterior mean among the points tried. `mu=None` is without noise. **A simulation**: the package's runs and
algorithms, seeded noise, a ledger in memory (`benchmarks.curator`). Values have noise R sqrt(trials) / (n mu).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.curator import Curator
from benchmarks.data import Array
from benchmarks.frontier import told_noise
from benchmarks.frontier.tasks import FrontierTask, Parameters
from benchmarks.loops import NO_PRIVACY
from benchmarks.measurements.spaces import suggest
from dptune import CENTRED, SearchRun
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy.mechanism import odds_for
from dptune.privacy.query import Box, MeanQuery, NormQuery, Question
from dptune.search.algorithms.centred import Centred
from dptune.search.algorithms.centred_cma import CentredCMA
from dptune.search.algorithms.centred_mixed import CentredMixed
from dptune.search.algorithms.centred_settings import CentredSettings
from dptune.search.algorithms.method import Method
from dptune.search.gp.grouped import Group, GroupedRegression

Found = dict[str, Parameters]
BEST, MODEL, OWN = "best value", "model's mean", "own"


def run(method: Method, task: FrontierTask, mu: float | None, trials: int, seed: int, **settings: Any) -> Found:
    """One of the package's methods with its defaults, a final estimate among them."""
    curator = Curator(task.n, task.clip, seed=seed, private=mu is not None, mu=NO_PRIVACY if mu is None else mu)
    about = {"trials": trials, "default": task.default, **settings}
    search = SearchRun(method, curator, scope=task.name, space=task.space, seed=seed, **about)
    for trial in range(search.plan.trials):
        parameters = search.ask()
        search.finish(str(trial), parameters, task.losses(parameters))
    return {OWN: search.recommend()}


def centred(task: FrontierTask, mu: float | None, trials: int, seed: int) -> Found:
    """The package's search."""
    return run(CENTRED, task, mu, trials, seed)


# ---- the package's proposals on values ------------------------------------------------------------------------


class OneScale(GroupedRegression):
    """All values have one unknown constant in common: they are levels, not differences."""

    def fit(self, groups: Any) -> None:
        """Fit to all groups as one."""
        points, values = (np.concatenate([getattr(group, name) for group in groups]) for name in ("points", "values"))
        super().fit([Group(points, values, groups[-1].sigma)])


def on_values(kind: type[Centred], clip: tuple[float, float]) -> Callable[[CentredSettings], Any]:
    """The search by its proposals and its model, told the new points' mean losses with noise instead of differences."""

    class OnValues(kind):
        def __init__(self, settings: CentredSettings) -> None:
            super().__init__(settings)
            self.surrogate = OneScale(settings.d)

        def next_question(self) -> Question:
            asked, names = super().next_question(), self.waiting()
            if isinstance(asked.query, NormQuery):
                return replace(asked, query=replace(asked.query, points=names, weights=_root_mean_square(len(names))))
            high = min(clip[0] + self.radius, clip[1]) if self.settings.tuning.radius_share else clip[1]
            means = MeanQuery(names, np.eye(len(names)), Box(clip[0], high, len(names)), self.settings.mean_mu)
            return replace(asked, query=means, note={**asked.note, "points": self.points_at(names).tolist()})

    return OnValues


def _root_mean_square(m: int) -> Array:
    return np.eye(m) / math.sqrt(m)


def surrogate_on_values(task: FrontierTask, mu: float | None, trials: int, seed: int) -> Found:
    """The package's proposals, model and recommendation on privatised values; nothing is spent on an estimate."""

    def algorithm(settings: CentredSettings) -> Any:
        return on_values(CentredCMA if settings.space is None else CentredMixed, task.clip)(settings)

    tuning = {"radius_share": 0.0, "references": 0}
    if task.space.plain:
        tuning["saturated"] = 0.0  # nor is the share of unclipped people that a clip follows
    plain: dict[str, Any] = {"tuning": tuning, "choice_share": 0.0, "final_share": 0.0}
    return run(replace(CENTRED, algorithm=algorithm, joined=None), task, mu, trials, seed, **plain)


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
        study.optimize(lambda trial: value(suggest(trial, task)), n_trials=trials)

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


OURS, START, SELECTION, KEEPING = "centred", "start", "selection", "selection, default kept"
TPE, CMA, RANDOM = "values, TPE", "values, CMA-ES", "values, random"
GP = "values, GP told the noise"
METHODS: dict[str, Callable[..., Found]] = {
    START: start,
    OURS: centred,
    "values, ours": surrogate_on_values,
    TPE: _optuna("TPESampler", multivariate=True, group=True),
    CMA: _optuna("CmaEsSampler"),
    RANDOM: _optuna("RandomSampler"),
    GP: gaussian_process,
    SELECTION: selection,
    KEEPING: partial(selection, keeps=True),
}
NUMERIC = (CMA,)
