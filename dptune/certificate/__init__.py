"""A statement as others want it: risk in words, the registry's record, NIST's questions, a signed receipt.

Nothing here reads private data or spends: it says in other forms what a ledger's statement says. ``sign`` and
``verify`` need ``cryptography``.
"""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
