"""dptune in Ray Tune: a private searcher, and one that makes any searcher private; losses go to a vault."""

from dptune_ray.gibo import DPGIBOSearch
from dptune_ray.random_search import RandomSearch
from dptune_ray.wrapper import PrivateSearch

__all__ = ["DPGIBOSearch", "PrivateSearch", "RandomSearch"]
