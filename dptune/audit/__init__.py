"""Audits of the user's objective and configuration on public or synthetic rows: do they keep the promise?

An audit can prove that a promise is broken, or that an attack of a certain strength succeeds. It cannot prove privacy:
only the proofs can.
"""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
