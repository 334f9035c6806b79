"""What the tests of the ledger pay with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dptune import PrivacyLedger
from dptune.accounting.events import GaussianRelease

Urls = Callable[[], str]


def gaussian(mu: float, statistic: str = "mean") -> GaussianRelease:
    return GaussianRelease(mu, sensitivity=1.0, sigma=1 / mu, dimension=1, statistic=statistic)


def pay(ledger: PrivacyLedger, key: str, mu: float = 1.0, **settings: Any) -> Any:
    settings = {"digest": "question", **settings}
    return ledger.charge(settings.pop("scope", "study"), key, gaussian(mu), **settings)
