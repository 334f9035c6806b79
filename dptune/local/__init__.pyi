"""The names of this room, and where each is defined."""

from dptune.errors import CapReached as CapReached
from dptune.local.bandits.ata import LDPATA as LDPATA
from dptune.local.bandits.bandit import LDPSettings as LDPSettings
from dptune.local.bandits.moma import LDPMoMA as LDPMoMA
from dptune.local.bandits.replies import HybridReplies as HybridReplies
from dptune.local.bandits.replies import LaplaceReplies as LaplaceReplies
from dptune.local.bandits.run import LDPRun as LDPRun
from dptune.local.bandits.tgp import LDPTGP as LDPTGP
from dptune.local.hybrid import HybridRandomizer as HybridRandomizer
from dptune.local.hybrid import InsecureHybrid as InsecureHybrid
from dptune.local.ledger import UserLedger as UserLedger
from dptune.local.randomizer import InsecureRandomizer as InsecureRandomizer
from dptune.local.randomizer import LocalRandomizer as LocalRandomizer
