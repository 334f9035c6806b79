"""dptune in Ray Tune: private searchers, and one that makes any searcher private; losses go to a vault."""

from dptune_ray.centred import CentredCMASearch
from dptune_ray.federated import DPFTSSearch
from dptune_ray.gibo import DPGIBOSearch
from dptune_ray.hosts import Federation
from dptune_ray.ldp import LDPATASearch, LDPMoMASearch, LDPTGPSearch
from dptune_ray.random_search import RandomSearch
from dptune_ray.space_search import SpaceSearch
from dptune_ray.transport import RayTransport
from dptune_ray.wrapper import PrivateSearch

__all__ = [
    "CentredCMASearch",
    "DPFTSSearch",
    "DPGIBOSearch",
    "Federation",
    "LDPATASearch",
    "LDPMoMASearch",
    "LDPTGPSearch",
    "PrivateSearch",
    "RandomSearch",
    "RayTransport",
    "SpaceSearch",
]
