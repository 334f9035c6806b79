"""Run searches and their trials in the order of Tune, in this process and without a cluster."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from ray import tune
from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders, resolve_placeholders
from ray.tune.search import Searcher
from ray.tune.utils import merge_dicts

import dptune
import dptune_ray
from dptune.local.randomizer import LocalRandomizer
from dptune_ray import LDPTGPSearch, PrivateSearcher
from dptune_ray.spaces import flat
from dptune_ray.worker import losses_at
from ray_harness import SPACE, open_centred, open_privatizer, open_search, random_search
from ray_people import losses

CONFIG = {"x": 0.1, "y": 1.0}
local = pytest.mark.usefixtures("local_actors")


def open_private(privatizer, searcher=None, **settings):
    settings = {"n_trials": 12, "name": "run", "seed": 3, **settings}
    return PrivateSearcher(searcher or random_search(seed=3), privatizer, **settings)


OPENED = [open_search, open_centred, open_private]
on_both = pytest.mark.parametrize("opened", OPENED[:2])  # the searchers that propose points
on_all = pytest.mark.parametrize("opened", OPENED)


class Half(Searcher):
    """Chooses one parameter, and fails when it is told a value."""

    def set_search_properties(self, metric, mode, config, **spec):
        return True

    def suggest(self, trial_id):
        return {"x": 0.5}

    def on_trial_complete(self, trial_id, result=None, error=False):
        raise RuntimeError("a bug in another library")


def begin(search, mode="min", space=SPACE):
    assert search.set_search_properties(search.metric, mode, space)
    return search


def finish(search, trial, config, function=losses):
    """Evaluate and hand in, without a trainable; return what the trial is told."""
    return search.vault.finish(trial, flat(config), losses_at(function, config))


def run(search, trials=40, function=losses, first=0):
    """Suggest, evaluate and complete until the run is over; return configurations and reported values."""
    configs, values = [], []
    for trial in (f"t{first + i}" for i in range(trials)):
        config = search.suggest(trial)
        if config == Searcher.FINISHED:
            break
        configs.append(config)
        values.append(finish(search, trial, config, function))
        search.on_trial_complete(trial_id=trial, result={search.metric: values[-1], "training_iteration": 1})
    return configs, values


def a_trial(trainable, trial, config=CONFIG):
    kind = type(trainable.__name__, (trainable,), {"trial_id": trial})
    one = kind.__new__(kind)
    one.config = dict(config)
    return one


def value_of(trainable, trial, config=CONFIG):
    """Run a trial of one step."""
    return float(a_trial(trainable, trial, config).step()[trainable.metric])


def played(search, trainable, most=40, space=None):
    """Run trials of a trainable until the search ends; return configurations and what they reported at last.

    A Tuner has its own ``space``: as Tune does, it hides objects from the searcher and puts them back into trials.
    """
    trials, hidden = [], create_resolvers_map()
    shown = inject_placeholders(copy.deepcopy(space or {}), hidden)
    if shown:
        begin(search, search.mode, shown)
    for trial in map(str, range(most)):
        suggested = search.suggest(trial)
        if suggested == Searcher.FINISHED:
            break
        config = merge_dicts(shown, suggested)
        resolve_placeholders(config, hidden)
        result = a_trial(trainable, trial, config).step()
        search.on_trial_complete(trial, result={**result, "training_iteration": 1})
        trials.append((config, result[search.metric]))
    return trials


def made(folder, function, n_trials=2, n=None, **settings):
    """Return a search of Tune's, begun, and a trainable."""
    search = open_private(open_privatizer(folder, **({} if n is None else {"n": n})), n_trials=n_trials, **settings)
    trainable = search.trainable(function)
    return begin(search), trainable


def reporting(config):
    for step in range(1, 4):
        dptune_ray.report_public(config["x"] / step, step)
    return losses(config)


# ---- users' replies --------------------------------------------------------------------------------

LDP_SPACE = {"x": tune.uniform(-1.0, 1.0), "n": tune.lograndint(1, 101)}
LDP = dptune.local.LDPSettings(dptune.local.LaplaceReplies(8.0, B=1.0, R=0.2), horizon=400, plays=3, exploration=0.1)
SECRET = 0.87654321987


def told(epsilon, half):
    """Settings for the replies of a randomiser."""
    return replace(LDP, replies=dptune.local.LaplaceReplies(epsilon, B=0.8 * half, R=0.2 * half))


ONE = told(1.0, 1.0)


class NoNoise(LocalRandomizer):
    """NOT PRIVATE: replies with the clamped value itself."""

    private = False

    def randomize(self, value):
        return self.clamp(value)

    def __reduce__(self):  # it has no seed that two copies would share
        return partial(NoNoise, self.epsilon, (self.low, self.high), invalid=self.invalid), ()


def satisfaction(config):
    return float(1 - (config["x"] - 0.4) ** 2 - 0.1 * np.log(config["n"] / 10) ** 2)


def open_ldp(folder, kind=LDPTGPSearch, **more):
    settings = {"replies": folder / "replies.db", "name": "run", "count": 24, "seed": 1, **more}
    return kind(settings.pop("settings", LDP), settings.pop("param_space", LDP_SPACE), **settings)
