"""Private selection among many trained models, charged once, and the report of the chosen model."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
