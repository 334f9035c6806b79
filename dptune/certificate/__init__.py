"""A statement as others want it: risk in words, the registry's record, NIST's questions, a signed receipt.

Nothing here reads private data or spends: it says in other forms what a ledger's statement says. Signed receipts are in
:mod:`dptune.certificate.receipt`, which needs ``cryptography``.
"""

from dptune.certificate.checklist import Item, checklist
from dptune.certificate.registry import About, record, to_yaml
from dptune.certificate.risk import Risk

__all__ = ["About", "Item", "Risk", "checklist", "record", "to_yaml"]
