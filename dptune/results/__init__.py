"""Releases in words: estimates, verdicts and budgets, and the start of a plan under a name."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
