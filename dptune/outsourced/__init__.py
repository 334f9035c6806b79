"""Outsourced tuning: a curator releases a noisy table of features, a modeler chooses rows of it to evaluate."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
