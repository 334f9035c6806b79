"""dptune in Ray Tune: private searchers, and one that makes any searcher private; losses go to a vault.

Example::

    search = CentredSearch(space, privatizer, name="svm", n_trials=100)
    trainable = search.trainable(losses)  # config -> one loss per example
    tuning = tune.TuneConfig(search_alg=search, num_samples=search.n_trials, metric="loss", mode="min")
    tune.Tuner(trainable, param_space=space, tune_config=tuning).fit()

Guarantee: what Tune sees, stores and shows is released: paid in the ledger before any loss is read. See docs/ray.md.
"""

from dptune_ray.federated import DPFTSSearch
from dptune_ray.hosts import Federation
from dptune_ray.local import LDPATASearch, LDPMoMASearch, LDPTGPSearch
from dptune_ray.public import report_public
from dptune_ray.repeats import repeat_and_select
from dptune_ray.rungs import report_private
from dptune_ray.search import CentredCMASearch, CentredSearch, DPGIBOSearch, SelectionSearch, SpaceSearch
from dptune_ray.transport import RayTransport
from dptune_ray.wrapper import PrivateSearch

__all__ = [
    "CentredCMASearch",
    "CentredSearch",
    "DPFTSSearch",
    "DPGIBOSearch",
    "Federation",
    "LDPATASearch",
    "LDPMoMASearch",
    "LDPTGPSearch",
    "PrivateSearch",
    "RayTransport",
    "SelectionSearch",
    "SpaceSearch",
    "repeat_and_select",
    "report_private",
    "report_public",
]
