"""One user's device: the randomiser, and the ledger of what users have paid. Needs OpenDP and nothing else."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
