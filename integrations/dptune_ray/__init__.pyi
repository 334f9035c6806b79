"""The public names, and where each is defined: read by type checkers and by ``__init__``."""

from dptune_ray.choice import choose as choose
from dptune_ray.federated import DPFTSSearch as DPFTSSearch
from dptune_ray.federated import Federation as Federation
from dptune_ray.local import LDPATASearch as LDPATASearch
from dptune_ray.local import LDPMoMASearch as LDPMoMASearch
from dptune_ray.local import LDPTGPSearch as LDPTGPSearch
from dptune_ray.places import RayPlace as RayPlace
from dptune_ray.private_searcher import PrivateSearcher as PrivateSearcher
from dptune_ray.repeats import repeat_and_select as repeat_and_select
from dptune_ray.reports import report_public as report_public
from dptune_ray.search import CentredSearch as CentredSearch
from dptune_ray.search import DPGIBOSearch as DPGIBOSearch
from dptune_ray.search import SpaceSearch as SpaceSearch
from dptune_ray.transport import RayTransport as RayTransport
