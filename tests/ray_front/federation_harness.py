"""A small federation on Ray: its settings, its server and its agents' searches."""

import numpy as np
from ray.tune.utils import flatten_dict

from dptune.federated.settings import FTSSettings
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussian
from dptune_ray import DPFTSSearch, RayTransport
from ray_harness import SPACE

SETTINGS = FTSSettings(agents=4, d=2, M=20, own_features=40, candidates=64, regions=(2, 1), initial=3, refit=5)
ROUNDS, LONG = 4, 600.0
SECRET = 8765.4321098


def open_plan(folder):
    return PlanLedger(folder / "agents.db", SubsampledGaussian(q=0.5, z=1.0, steps=ROUNDS), n=SETTINGS.agents)


def serve(folder, timeout=LONG):
    return RayTransport.serve(open_plan(folder), SETTINGS, timeout=timeout)


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
