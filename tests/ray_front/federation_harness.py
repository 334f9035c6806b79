"""A small federation on Ray: its settings, its server, its agents' searches and their trials."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.tune.utils import flatten_dict

from dptune.federated import FTSServer, Message
from dptune.federated.settings import FTSSettings
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussianPlan
from dptune.privacy.noise import SeededNoise, SeededSample
from dptune_ray import DPFTSSearch, RayTransport
from dptune_ray.actors import Actor, in_parts
from dptune_ray.transport import Server
from ray_harness import SPACE

SETTINGS = FTSSettings(agents=4, d=2, M=20, own_features=40, candidates=64, regions=(2, 1), initial=3, refit=5)
ROUNDS, LONG = 4, 600.0
SECRET = 8765.4321098


def open_plan(folder):
    return PlanLedger(folder / "agents.db", SubsampledGaussianPlan(q=0.5, z=1.0, steps=ROUNDS), n=SETTINGS.agents)


def serve(folder, timeout=LONG):
    return RayTransport.serve(open_plan(folder), SETTINGS, timeout=timeout)


class Seeded(Server):
    """Its noise and samples are those of any other such one."""

    def __init__(self, ledger, *about):
        super().__init__(ledger, *about)
        self.server = FTSServer(ledger, SETTINGS, noise=SeededNoise(5), samples=SeededSample(5))


def new_life(local_actors, folder, kind=Server):
    """Put a new life of the server in the place of the one that runs; return it."""
    (name,) = local_actors
    local_actors[name] = Actor(*in_parts(kind, open_plan(folder), SETTINGS, LONG))
    return local_actors[name].served.server


def value(agent, config):
    return float((config["x"] - 0.1 * agent) ** 2 + (np.log10(config["y"]) / 2 + 0.2) ** 2)


def result_of(loss, config):
    """What Tune tells a searcher: it flattens a trial's result."""
    return flatten_dict({"value": loss, "config": config, "training_iteration": 1})


def open_searches(folder, transport, seed=1):
    searches = []
    for n in range(SETTINGS.agents):
        search = DPFTSSearch(transport, SETTINGS, SPACE, agent=n, trials=folder / f"agent{n}.db", seed=seed)
        assert search.set_search_properties("value", "min", SPACE)
        searches.append(search)
    return searches


def step(searches, trials):
    configs: list[list[dict[str, Any]]] = [[] for _ in searches]
    for k in trials:
        for n, search in enumerate(searches):
            config = search.suggest(f"a{n}t{k}")
            assert isinstance(config, dict)
            configs[n].append(config)
            search.on_trial_complete(f"a{n}t{k}", result_of(value(n, config), config))
    return configs


def a_message(n, t=0, size=1.0):
    return Message(n, t, np.full(SETTINGS.M, size))
