"""The names of this room, and where each is defined."""

from dptune.search import gp as gp
from dptune.search.algorithms.centred_plan import CENTRED as CENTRED
from dptune.search.algorithms.centred_settings import Tuning as Tuning
from dptune.search.algorithms.gibo import DPGIBO as DPGIBO
from dptune.search.algorithms.gibo import AdaGradNorm as AdaGradNorm
from dptune.search.algorithms.gibo import GIBOSettings as GIBOSettings
from dptune.search.algorithms.gibo_plan import GIBO as GIBO
from dptune.search.algorithms.method import Method as Method
from dptune.search.algorithms.method import PublicFacts as PublicFacts
from dptune.search.algorithms.method import RunPlan as RunPlan
from dptune.search.algorithms.rounds import Rounds as Rounds
from dptune.search.algorithms.rounds import RoundSettings as RoundSettings
from dptune.search.algorithms.values import VALUES as VALUES
from dptune.search.loop import drive as drive
from dptune.search.run import SearchRun as SearchRun
