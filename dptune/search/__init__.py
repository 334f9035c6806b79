"""One run for every algorithm: questions to the privatizer, answers back, the ledger as the only memory."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
