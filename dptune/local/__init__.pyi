"""The names of this room, and where each is defined."""

from dptune.errors import CapReached as CapReached
from dptune.local.hybrid import HybridRandomizer as HybridRandomizer
from dptune.local.hybrid import InsecureHybrid as InsecureHybrid
from dptune.local.ledger import UserLedger as UserLedger
from dptune.local.randomizer import InsecureRandomizer as InsecureRandomizer
from dptune.local.randomizer import LocalRandomizer as LocalRandomizer
from dptune.local.randomizer import Randomizer as Randomizer
from dptune.local.statement import LocalStatement as LocalStatement
