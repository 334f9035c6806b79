"""A chain of rows, each of which vouches for all rows before it. Standard library only: a user's device has one, too.

::

    hash_n = sha256(hash_{n-1}, content of row n)

Whoever remembers one row's number and hash, a :class:`Mark`, notices if an older copy of the file is put back, or a row
is lost or changed. It guards against accidents; who may write the file can also compute hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from dptune._checks import at_least, shown
from dptune.errors import InputError, LedgerError


@dataclass(frozen=True)
class Mark:
    """The last row that somebody has seen.

    Attributes:
        seq: its number, from 1, without gaps; 0 before the first row.
        hash: of this row and all before it.
    """

    seq: int = 0
    hash: str = ""

    def link(self, content: object) -> Mark:
        """Return the mark after one more row; ``content`` is JSON data."""
        text = json.dumps([self.hash, content], sort_keys=True, allow_nan=False)
        return Mark(self.seq + 1, hashlib.sha256(text.encode()).hexdigest())

    def to_json(self, identity: str) -> dict[str, object]:
        """Return the mark in the ledger ``identity``, to be kept elsewhere."""
        return {"ledger": identity, "seq": self.seq, "hash": self.hash}

    @classmethod
    def from_json(cls, mark: object, identity: str, name: str) -> Mark:
        """Return a mark that was kept elsewhere.

        Raises:
            InputError: it is not one.
            LedgerError: it is of another ledger than ``identity``, which lies at ``name``.
        """
        if not (isinstance(mark, Mapping) and {"ledger", "seq", "hash"} <= mark.keys()):
            raise InputError(f"a mark is what ledger.mark() returned, with ledger, seq and hash; got {shown(mark)}.")
        if mark["ledger"] != identity:
            raise LedgerError(
                f"{name} is another ledger than the one this study was begun with, so the budget of that one does not "
                "hold here. Open the ledger of the study (check the path and the working directory), or begin a new "
                "study."
            )
        return cls(at_least("seq of a mark", mark["seq"], 0), str(mark["hash"]))


def behind(name: str, mark: Mark) -> LedgerError:
    """Return the refusal of a ledger that does not hold a row which was seen."""
    return LedgerError(
        f"the ledger {name} is behind: it does not hold its row {mark.seq}, which was seen before. An older copy was "
        "put back, or a part of the file was lost. What was spent since is in the newest file: put that one back."
    )


def damaged(name: str, what: str) -> LedgerError:
    """Return the refusal of a ledger that contradicts itself."""
    return LedgerError(
        f"the ledger {name} is damaged ({what}); nothing was charged. Put the newest intact copy back. What was spent "
        "since then is not in it: count it as spent."
    )
