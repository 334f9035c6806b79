"""The names of this room, and where each is defined."""

from dptune.algorithms.asks_nothing import SELECTION as SELECTION
from dptune.algorithms.asks_nothing import VALUES as VALUES
from dptune.algorithms.centred import CentredCMA as CentredCMA
from dptune.algorithms.centred import CentredMixed as CentredMixed
from dptune.algorithms.centred import CentredSettings as CentredSettings
from dptune.algorithms.centred_plan import CENTRED as CENTRED
from dptune.algorithms.gibo import DPGIBO as DPGIBO
from dptune.algorithms.gibo import AdaGrad as AdaGrad
from dptune.algorithms.gibo import AdaGradNorm as AdaGradNorm
from dptune.algorithms.gibo import GIBOSettings as GIBOSettings
from dptune.algorithms.gibo import GradientDescent as GradientDescent
from dptune.algorithms.gibo_plan import GIBO as GIBO
from dptune.algorithms.method import Method as Method
from dptune.algorithms.method import Plan as Plan
from dptune.algorithms.method import PublicFacts as PublicFacts
from dptune.algorithms.rounds import Rounds as Rounds
from dptune.algorithms.rounds import RoundSettings as RoundSettings
