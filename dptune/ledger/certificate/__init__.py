"""A statement as others want it: risk in words, the registry's record, NIST's questions, a signed receipt.

Nothing here reads private data or spends: it says in other forms what a ledger's statement says. ``sign`` and
``verify`` need ``cryptography``.
"""
