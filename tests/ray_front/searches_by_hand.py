"""Searchers that are asked and told as Tune does it, in this process."""

from __future__ import annotations

import pytest
from ray.tune.search import ConcurrencyLimiter, Searcher

from dptune_ray import PrivateSearch
from dptune_ray.spaces import flat
from dptune_ray.worker import losses_at as evaluated
from ray_harness import SPACE, open_centred, open_privatizer, open_search, random_search
from ray_people import losses

on_both = pytest.mark.parametrize("opened", [open_search, open_centred])  # the searchers that propose points


def private_search(folder, searcher=None, **settings):
    searcher = searcher or random_search(seed=3)
    return PrivateSearch(searcher, open_privatizer(folder), **{"n_trials": 8, "name": "run", "seed": 3, **settings})


class Half(Searcher):
    """Chooses one parameter, and fails when it is told a value."""

    def set_search_properties(self, metric, mode, config, **spec):
        return True

    def suggest(self, trial_id):
        return {"x": 0.5}

    def on_trial_complete(self, trial_id, result=None, error=False):
        raise RuntimeError("a bug in another library")


def begin(search, mode="min", space=SPACE):
    assert search.set_search_properties("loss", mode, space)
    return search


def run(search, trials, function=losses, first=0):
    """Suggest, evaluate and complete like Tune; return the reported values."""
    inner = search.searcher if isinstance(search, ConcurrencyLimiter) else search
    values = []
    for trial in (f"t{first + i}" for i in range(trials)):
        config = search.suggest(trial)
        if config == Searcher.FINISHED:
            break
        values.append(inner.vault.hand_in("finish", trial, flat(config), evaluated(function, config)))
        search.on_trial_complete(trial_id=trial, result={"loss": values[-1], "training_iteration": 1}, error=False)
    return values
