"""One algorithm per file; none of them sees private data."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
