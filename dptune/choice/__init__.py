"""Private selection, which of many trained models is best, paid once; and the report of the model that was chosen."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
