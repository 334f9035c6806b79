"""One user's device: the randomiser, and the ledger of what users have paid. Needs OpenDP and nothing else."""

from dptune.local.ledger import CapReached, UserLedger
from dptune.local.randomizer import InsecureRandomizer, LocalRandomizer, Randomizer

__all__ = ["CapReached", "InsecureRandomizer", "LocalRandomizer", "Randomizer", "UserLedger"]
