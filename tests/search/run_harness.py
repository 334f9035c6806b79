"""What the small runs of all methods share: a space, its losses, a trial, and the keys a run has paid for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dptune import Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.algorithms import Method
from dptune.privacy import PendingLosses

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True)})


def begin(
    method: Method,
    ledger: PrivacyLedger,
    n: int,
    *,
    noise: Any = None,
    pending: PendingLosses | None = None,
    **settings: Any,
) -> SearchRun:
    """Return a run with a ledger and a privatizer of its own, as another process would have."""
    privatizer = LossPrivatizer(PrivacyLedger(ledger.url.database), n=n, clip=(0.0, 1.0), noise=noise, pending=pending)
    return SearchRun(method, privatizer, **{"scope": "run", "space": SPACE, **settings})


def losses_of(x: dict[str, Any], n: int) -> np.ndarray:
    """Return the loss at x of each of n people, (n,)."""
    return np.asarray((x["a"] - np.linspace(0.2, 0.6, n)) ** 2 + 0.02 * math.log10(x["b"]) ** 2)


def trial(run: Any, name: str) -> float:
    run.check(name)
    x = run.ask()
    return run.finish(name, x, losses_of(x, run.privatizer.n))


def trials(run: Any, count: int, name: str = "") -> list[float]:
    return [trial(run, f"{name}{i}") for i in range(count)]


def keys(ledger: PrivacyLedger, prefix: str = "", scope: str = "run") -> list[str]:
    return [c.key for c in ledger.charges(scope, prefix=prefix)]
