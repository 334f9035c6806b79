"""The names of this room, and where each is defined."""

from dptune.bandits.ata import LDPATA as LDPATA
from dptune.bandits.bandit import LDPSettings as LDPSettings
from dptune.bandits.curator import Refinement as Refinement
from dptune.bandits.moma import LDPMoMA as LDPMoMA
from dptune.bandits.replies import HeavyTailedReplies as HeavyTailedReplies
from dptune.bandits.replies import HybridReplies as HybridReplies
from dptune.bandits.replies import LaplaceReplies as LaplaceReplies
from dptune.bandits.run import LDPRun as LDPRun
from dptune.bandits.tgp import LDPTGP as LDPTGP
