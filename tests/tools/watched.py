"""A ledger and a source of noise that record the calls to them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dptune import Budget, PrivacyLedger
from noises import NoNoise


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


class Draws(NoNoise):
    """Noise off; notes that it was asked."""

    def __init__(self, happened: list[str]) -> None:
        super().__init__()
        self.happened = happened

    def add_gaussian(self, statistic: Any, sigma: float) -> Any:
        self.happened.append("draw")
        return super().add_gaussian(statistic, sigma)
