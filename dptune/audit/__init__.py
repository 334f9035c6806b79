"""Audits of one's own objective and configuration, on public or made-up rows: what breaks the promise, and what holds.

An audit can prove that a promise is broken, or that an attack of a certain strength succeeds. It cannot prove privacy:
that is what the proofs are for.
"""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
