"""Models, people and privatizers for the tests of reports."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

import dptune
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.choice import Report
from noises import NoNoise

Array = npt.NDArray[Any]
SEED = 7


def people(n: int, *, seed: int = SEED, classes: int = 2, signal: float = 1.2) -> tuple[Array, Array]:
    """Rows (n, 3) and labels (n,) of classes that overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.normal(size=(n, 3)) + signal * np.eye(max(classes, 3))[y][:, :3], y


PUBLIC = people(300, seed=1)
PRIVATE = people(400)
MODEL = LogisticRegression().fit(*PUBLIC)


def privatizer(path: Path | None = None, *, mu: float = 2.0, noise: Any = None, **who: Any) -> LossPrivatizer:
    """Return a privatizer on a ledger of its own; ``noise=None`` is OpenDP's."""
    who = who or {"n": 400}
    return LossPrivatizer(
        PrivacyLedger((path or Path()) / "ledger.db", Budget.gdp(mu)), clip=(0, 1), noise=noise, **who
    )


def silent(path: Path, **who: Any) -> LossPrivatizer:
    """Return a privatizer without noise."""
    return privatizer(path, noise=NoNoise(), **who)


def charged(mine: LossPrivatizer) -> dict[str, Any]:
    """Return what the only charge states."""
    (charge,) = mine.ledger.charges()
    return charge.description


def report(mine: LossPrivatizer, model: Any = MODEL, data: Any = PRIVATE, **settings: Any) -> Report:
    """Return a report with the usual model, people, public rows and bins, unless others are given."""
    rows = {} if "held_out" in settings else {"public": PUBLIC}
    return dptune.report(model, mine, data=data, **{**rows, "mu": 0.5, "bins": 6, **settings})
