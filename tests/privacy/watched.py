"""A ledger that notes what happens to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dptune import Budget, PrivacyLedger


class Watched(PrivacyLedger):
    """Notes what happened, calls ``after_charge``, and records nothing while there is an ``error``."""

    def __init__(self, path: Path, budget: Budget) -> None:
        super().__init__(path, budget)
        self.happened: list[str] = []
        self.after_charge: Callable[[], None] = lambda: None
        self.error: BaseException | None = None

    def charge(self, *asked: Any, **options: Any) -> Any:
        paid = super().charge(*asked, **options)
        self.happened.append("charge")
        self.after_charge()
        return paid

    def record(self, charge: Any, value: Any, **options: Any) -> Any:
        if self.error is not None:
            try:
                raise ValueError(value)
            except ValueError:
                raise self.error  # noqa: B904 - its context is what is tested
        self.happened.append("record")
        return super().record(charge, value, **options)
