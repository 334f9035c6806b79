"""Budgets, conversions, and the durable ledger."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
