"""One run for every algorithm: it queries the privatizer, and its only memory is the ledger."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
