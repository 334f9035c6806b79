"""One user's device: the randomiser, and the ledger of what users have paid. Needs OpenDP and nothing else."""

from dptune.errors import CapReached
from dptune.local.hybrid import HybridRandomizer, InsecureHybrid
from dptune.local.ledger import UserLedger
from dptune.local.randomizer import InsecureRandomizer, LocalRandomizer, Randomizer
from dptune.local.statement import LocalStatement

__all__ = [
    "CapReached",
    "HybridRandomizer",
    "InsecureHybrid",
    "InsecureRandomizer",
    "LocalRandomizer",
    "LocalStatement",
    "Randomizer",
    "UserLedger",
]
