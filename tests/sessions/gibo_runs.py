"""A small run of DP-GIBO: a start, a few steps, twenty people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from session_harness import SPACE, losses_of

from dptune import AdaGradNorm, GIBOPlan, GIBOSession, GIBOSettings, LossPrivatizer, PrivacyLedger

N, STEPS, BATCH, STARTS = 20, 4, 3, 4
TRIALS = STARTS + STEPS * BATCH


def planner(**change: Any) -> Callable[[float, int], GIBOPlan]:
    shares = {key: change.pop(key) for key in list(change) if key.endswith("_share")}

    def make_plan(mu: float, seed: int) -> GIBOPlan:
        base: dict[str, Any] = {"d": 2, "steps": STEPS, "batch": BATCH, "clip": 0.5, "rule": AdaGradNorm(0.1)}
        base |= {"starts": STARTS, "start_mu": 1.0, "memory": 1, "constant_mean": True}
        settings = GIBOSettings(**{**base, **change, "mu": mu, "seed": seed})
        return GIBOPlan.split(mu=mu, settings=settings, **{"start_share": 0.1, **shares})

    return make_plan


def session(ledger: PrivacyLedger, *, scope: str = "run", mu: float | None = None, **change: Any) -> GIBOSession:
    """Return a session with a privatizer of its own, as another process would have."""
    seed, space = change.pop("seed", None), change.pop("space", SPACE)
    privatizer = LossPrivatizer(PrivacyLedger(ledger._url.database), n=N, clip=(0.0, 1.0))
    return GIBOSession(privatizer, scope=scope, space=space, make_plan=planner(**change), mu=mu, seed=seed)


def losses(x: dict[str, Any]) -> np.ndarray:
    return losses_of(x, N)
