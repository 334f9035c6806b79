"""Reports of final models that may be published: :func:`dptune.report`, and what it returns."""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
