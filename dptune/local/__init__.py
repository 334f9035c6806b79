"""One user's device: the randomiser, and the ledger of users' charges. It needs OpenDP only."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
