"""A ledger in memory without a budget, for audits that need thousands of releases about made-up rows."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from dptune.accounting.ledger import PrivacyLedger


class FreeLedger(PrivacyLedger):
    """Pays for everything and remembers nothing. Never for private rows."""

    def __init__(self) -> None:
        self.paid: dict[tuple[str, str], SimpleNamespace] = {}

    def bind_people(self, n: int) -> None:
        """Take any number of people."""

    def find(self, scope: str, key: str) -> Any:
        """Return the charge under a key, or None."""
        return self.paid.get((scope, key))

    def charge(self, scope: str, key: str, event: Any, **_: Any) -> Any:
        """Note a charge."""
        return self.paid.setdefault(
            (scope, key), SimpleNamespace(scope=scope, value=None, mu=event.mu, seq=len(self.paid) + 1)
        )

    def record(self, charge: Any, value: Sequence[float], *, at: str | None = None) -> Any:
        """Note a released value."""
        charge.value = tuple(value)
        return charge
