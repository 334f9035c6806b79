"""A small run of CMA-ES on centred releases: four generations of five trials, fifty people."""

from __future__ import annotations

from typing import Any

import numpy as np
from session_harness import SPACE, losses_of, trial

from dptune import CentredCMASession, LossPrivatizer, PrivacyLedger
from dptune.algorithms.centred_plan import cell_widths, plan_centred_cma

N, POPULATION, GENERATIONS = 50, 5, 4
TRIALS = POPULATION * GENERATIONS
EVERY = [f"{kind}/{g}" for g in range(1, GENERATIONS + 1) for kind in ("share", "generation")]


def session(ledger: PrivacyLedger, *, scope: str = "run", mu: float | None = None, **change: Any) -> CentredCMASession:
    """Return a session with a privatizer of its own, as another process would have."""
    seed, space = change.pop("seed", None), change.pop("space", SPACE)
    privatizer = LossPrivatizer(PrivacyLedger(ledger._url.database), n=N, clip=(0.0, 1.0))
    options = {"trials": TRIALS, "population": POPULATION, "steps": cell_widths(space), **change}
    return CentredCMASession(
        privatizer,
        scope=scope,
        space=space,
        make_plan=lambda m, s: plan_centred_cma(d=len(space), loss_range=1.0, mu=m, seed=s, **options),
        mu=mu,
        seed=seed,
    )


def losses(x: dict[str, Any]) -> np.ndarray:
    return losses_of(x, N)


def trials(run: CentredCMASession, name: str) -> None:
    for i in range(POPULATION):
        trial(run, f"{name} {i}")
