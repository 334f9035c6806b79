"""The audits of an export: functions that run the real curator and raise AssertionError if it breaks its promise."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from audit_tools import MISTAKE, FreeLedger, audit_uncorrelated, dump
from every_logger import every_logger, without_clocks
from noises import CannedNoise, NoNoise
from scipy.stats import chi2, kstest, norm

from dptune import Budget, PrivacyLedger
from dptune.ledger.budget_ledger import adjacency_of
from dptune.outsourced.curator import OutsourcedCurator
from dptune.outsourced.formats import Exchange, Table, TableFacts
from dptune.outsourced.outputs import PublicOutputs

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

    def check(self, mu: float, *, releases: int = 1) -> None:
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


# ---- sensitivity ---------------------------------------------------------------------------------------


def audit_pair(table: Array, neighbour: Array, folder: Path, **settings: Any) -> float:
    """Neighbours' statistics differ by no more than the noise covers; returns the share of it."""
    (a, sigma), (b, other) = (statistic(X, folder, **settings) for X in (table, neighbour))
    assert sigma == other, "the scale of the noise depends on the rows"
    share = float(np.linalg.norm(a - b)) / (MU * sigma)
    assert share <= 1, f"neighbours differ by {share:.6g} of what the noise covers"
    return share


def audit_replacing(folder: Path, n: int = 12, d: int = 3) -> None:
    """The worst replacement reaches 2R sqrt(1 - 1/n), whoever the others are."""
    for background in (0.0, 1e200, np.nan, 1.0):
        table = np.full((n, d), background)
        table[0] = 1e3 * np.eye(d)[0]
        neighbour = table.copy()
        neighbour[0] = -table[0]
        share = audit_pair(table, neighbour, folder)
        assert abs(share / np.sqrt(1 - 1 / n) - 1) < 1e-5, f"the noise covers {1 / share:.4g} of the worst case"


def audit_changing(folder: Path, n: int = 12, d: int = 3, change: float = 1.0) -> None:
    """One row moves by Delta, inside the ball, across its edge and outside, with and without a projection."""
    W, rng = random_projection(d, 2), np.random.default_rng(0)
    for projection in (None, W):
        singular = np.linalg.svd(np.eye(d) if projection is None else W)[0][:, 0]  # the direction W stretches most
        for norm_of_row in (0.0, R - 0.5, R, 50.0):
            table = rng.normal(size=(n, d))
            table[3] = norm_of_row * singular
            neighbour = table.copy()
            neighbour[3] -= change * singular
            share = audit_pair(table, neighbour, folder, max_change=change, projection=projection)
            if norm_of_row < R:
                assert abs(share / np.sqrt(1 - 1 / n) - 1) < 1e-5


# ---- the noise -----------------------------------------------------------------------------------------


def noises(folder: Path, exports: int, n: int = 150, d: int = 4) -> Array:
    """The noise of exports of one table under several keys, in units of its promised deviation: (exports, n d)."""
    table = np.zeros((n, d))
    W = random_projection(d, d)
    made = curator(MemoryLedger(), table, folder, projection=W)
    for t in range(exports):
        made.export(folder / f"s{t}", mu=MU, key=f"export {t}")
    drawn = np.array([Exchange(folder / f"s{t}").table().values.ravel() for t in range(exports)])
    return drawn / (2 * R * np.linalg.norm(W, 2) / MU)


def audit_noise(folder: Path, exports: int = 6) -> None:
    """N(0, (Delta |W| / mu)^2) in every number, nothing shared by numbers, rows, columns, exports or public seeds."""
    Z = noises(folder, exports)
    z, count = Z.ravel(), Z.size
    square = float(z @ z)
    assert min(chi2.cdf(square, count), chi2.sf(square, count)) > MISTAKE, f"variance {square / count:.4g}, not 1"
    assert kstest(z, norm.cdf).pvalue > MISTAKE, "not a normal law"
    assert len(np.unique(z)) > count - 5, "the same noise twice"
    for i in range(exports):
        for j in range(i):
            audit_uncorrelated(Z[i], Z[j], "correlation of two exports")
    for lag in (1, 2, 3, 4, 8):
        audit_uncorrelated(z[lag:], z[:-lag], f"correlation at lag {lag}")


# ---- what crosses the wire -----------------------------------------------------------------------------


def audit_wire(folder: Path) -> None:
    """With canned noise, neighbours leave byte-identical folders, ledgers, statements, reprs and log lines."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(9, 2))
    neighbours = [table, np.where(np.arange(9)[:, None] == 4, 1e6, table), np.where(np.eye(9, 2) > 0, np.nan, table)]
    told = [transcript(X, folder / str(i)) for i, X in enumerate(neighbours)]
    for other in told[1:]:
        assert other == told[0], "what crosses the wire depends on the rows"


def transcript(table: Array, folder: Path) -> dict[str, object]:
    folder.mkdir()
    with every_logger() as lines:
        ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(mu=2.0), dataset="rows", unit="one row")
        made = curator(ledger, table, folder, noise=CannedNoise())
        made.export(folder / "shared", mu=MU)
        exchange = Exchange(folder / "shared", timeout=5)
        for t, row in enumerate((4, 0, 8), start=1):
            exchange.ask(row)
            made.serve(exchange, rounds=t)
        said = [repr(made), ledger.statement(delta=1e-5).to_json()]
    files = {p.name: p.read_bytes() for p in (folder / "shared").iterdir()}
    return {"files": files, "ledger": dump(ledger), "said": said, "log": without_clocks(lines, folder)}


def published(folder: Path) -> str | None:
    """Digest of the table in a shared folder, or None."""
    path = folder / "table.npy"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


TABLE = np.random.default_rng(0).normal(size=(7, 2))
