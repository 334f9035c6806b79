"""A curator with its table and its ledger in memory, and the statistic before an export's noise."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from audit_tools import FreeLedger
from dptune.ledger.budget_ledger import adjacency_of
from dptune.outsourced.curator import OutsourcedCurator
from dptune.outsourced.formats import Table, TableFacts
from dptune.outsourced.outputs import PublicOutputs
from noises import NoNoise

R, MU = 5.0, 0.8
PROJECTION_SEED = 7
Array = np.ndarray


def random_projection(d: int, k: int) -> Array:
    """A public map (d, k) with orthogonal columns."""
    Q: Array = np.linalg.qr(np.random.default_rng(PROJECTION_SEED).standard_normal((d, k)))[0]
    return Q * np.sqrt(d / k)


class MemoryLedger(FreeLedger):
    """A ledger without database, with an adjacency."""

    def __init__(self, max_change: float | None = None) -> None:
        super().__init__()
        self.adjacency = adjacency_of(max_change)

    def check(self, mu: float) -> None:
        pass


def released(Z: Array, sigma: float, *, maximise: bool = True) -> Table:
    """A table of these rows, as a modeler has it."""
    return Table(Z, TableFacts(sigma, maximise, "mu", "public", "0"))


def measure(row: int) -> float:
    """A public function of the row's number."""
    return float(np.sin(row))


PUBLIC = PublicOutputs(measure, because="outputs are in a yearbook")


def curator(ledger: Any, table: Array, folder: Path, **settings: Any) -> OutsourcedCurator:
    chosen = {"scale": 1.0, "row_norm": R, "outputs": PUBLIC, "folder": folder / "own", **settings}
    return OutsourcedCurator(ledger, table, **chosen)


def statistic(table: Array, folder: Path, max_change: float | None = None, **settings: Any) -> tuple[Array, float]:
    """What noise would be added to, and its scale."""
    noise = NoNoise()
    made = curator(MemoryLedger(max_change), table, folder, max_change=max_change, noise=noise, **settings)
    made.export(folder / f"shared-{np.random.default_rng().integers(2**62)}", mu=MU)
    return np.concatenate([part for part, _ in noise.seen]), noise.sigma


def published(folder: Path) -> str | None:
    """Digest of the table in a shared folder, or None."""
    path = folder / "table.npy"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


TABLE = np.random.default_rng(0).normal(size=(7, 2))
