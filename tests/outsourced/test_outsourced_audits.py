"""Each audit passes on the package and fails on the package with one planted bug."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2, kstest, norm

from audit_tools import MISTAKE, audit_uncorrelated, dump, noisy, planted
from dptune import Budget, PrivacyLedger
from dptune.outsourced import curator as curating
from dptune.outsourced.curator import OutsourcedCurator
from dptune.outsourced.formats import Exchange
from every_logger import every_logger, without_clocks
from noises import CannedNoise
from outsourced_tools import MU, PROJECTION_SEED, Array, MemoryLedger, R, curator, random_projection, statistic

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
        exchange = Exchange(folder / "shared", timeout=600)
        for t, row in enumerate((4, 0, 8), start=1):
            exchange.ask(row)
            made.serve(exchange, rounds=t)
        said = [repr(made), ledger.statement(delta=1e-5).to_json()]
    files = {p.name: p.read_bytes() for p in (folder / "shared").iterdir()}
    return {"files": files, "ledger": dump(ledger), "said": said, "log": without_clocks(lines, folder)}


# ---- planted bugs --------------------------------------------------------------------------------------


def data_driven_normalisation(true: Any) -> Any:
    def standardised(cells: Any, middle: Any, scale: Any, row_norm: float) -> Any:
        return true(cells, middle, np.nanstd(cells, axis=0) + 1e-9, row_norm)

    return standardised


def scaled_to_the_largest_row(true: Any) -> Any:
    def largest(cells: Any, middle: Any, scale: Any, row_norm: float) -> Any:
        norms = np.linalg.norm(np.nan_to_num(cells), axis=1)
        return np.nan_to_num(cells) * row_norm / max(norms.max(), 1e-9)

    return largest


def norm_of_the_map_forgotten(true: Any) -> Any:
    return lambda *, sensitivity, mu, dimension: true(sensitivity=min(sensitivity, 1.0), mu=mu, dimension=dimension)


def mean_in_the_facts(true: Any) -> Any:
    def about(self: Any, event: Any, digest: str) -> Any:
        told = true(self, event, digest)
        object.__setattr__(told, "outputs", f"mean {np.nanmean(self._cells):.3g}")
        return told

    return about


def mean_in_the_ledger(true: Any) -> Any:
    def export(self: Any, folder: Any, *, mu: float, key: str = "table") -> Any:
        self.ledger.fix("outsourced", "mean", str(np.nanmean(self._cells)))
        return true(self, folder, mu=mu, key=key)

    return export


def seeded(p: int) -> Any:
    """Noise of the generator that made the public projection."""
    return np.random.default_rng(PROJECTION_SEED).standard_normal(p)


AUDITS = {"replacing": audit_replacing, "changing": audit_changing, "noise": audit_noise, "wire": audit_wire}
FIRST: dict[int, Any] = {}  # draw of each size
BUGS = {  # -> the bug, and the audits that find it
    "normalised by the data": (planted(curating, "bounded_rows", data_driven_normalisation), "replacing changing"),
    "scaled to the largest row": (planted(curating, "bounded_rows", scaled_to_the_largest_row), "changing"),
    "not cut": (planted(curating, "bounded_rows", lambda _: lambda cells, *_: np.nan_to_num(cells)), "replacing"),
    "half the change": (
        planted(curating, "largest_change", lambda true: lambda *args: true(*args) / 2),
        "replacing changing noise",
    ),
    "norm of the map forgotten": (planted(curating, "noise_scale", norm_of_the_map_forgotten), "replacing changing"),
    "seed of the projection": (noisy(lambda draw, s, sigma: s + sigma * seeded(len(s))), "noise"),
    "noise of another export": (
        noisy(lambda draw, s, sigma: s + sigma * FIRST.setdefault(len(s), draw(len(s)))),
        "noise",
    ),
    "one noise a row": (
        noisy(lambda draw, s, sigma: s + sigma * np.repeat(draw(-(-len(s) // 4)), 4)[: len(s)]),
        "noise",
    ),
    "mean in the facts": (planted(OutsourcedCurator, "_facts", mean_in_the_facts), "wire"),
    "mean in the ledger": (planted(OutsourcedCurator, "export", mean_in_the_ledger), "wire"),
}


@pytest.mark.parametrize("audit", AUDITS)
def test_every_audit_passes_on_the_package(audit: str, fast_path: Path) -> None:
    AUDITS[audit](fast_path)


@pytest.mark.parametrize("bug", BUGS)
def test_the_audits_find_the_planted_bug(bug: str, fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, found_by = BUGS[bug]
    plant(monkeypatch)
    for audit in found_by.split():
        folder = fast_path / audit
        folder.mkdir()
        with pytest.raises(AssertionError):
            AUDITS[audit](folder)


ANY_CELL = st.one_of(st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324]), st.floats(-20, 20))


@settings(max_examples=30)
@given(st.data(), st.integers(1, 6), st.integers(1, 3), st.one_of(st.none(), st.floats(0.01, 2 * R)))
def test_no_row_moves_the_table_beyond_what_the_noise_covers(
    tmp_path_factory: pytest.TempPathFactory, data: Any, n: int, d: int, change: float | None
) -> None:
    """Replaced by any row, or moved by at most ``change``."""
    table, who = data.draw(arrays(np.float64, (n, d), elements=ANY_CELL)), data.draw(st.integers(0, n - 1))
    neighbour = table.copy()
    if change is None:
        neighbour[who] = data.draw(arrays(np.float64, d, elements=ANY_CELL))
    else:
        direction = data.draw(arrays(np.float64, d, elements=st.floats(-1, 1)))
        with np.errstate(all="ignore"):
            neighbour[who] += change * direction / max(1.0, float(np.linalg.norm(direction)))
    scale = data.draw(arrays(np.float64, d, elements=st.floats(1e-3, 1e3))) if change is None else 1.0
    W = data.draw(arrays(np.float64, (d, 2), elements=st.floats(-3, 3)).filter(lambda W: np.abs(W).max() > 1e-3))
    audit_pair(table, neighbour, tmp_path_factory.mktemp("audit"), scale=scale, projection=W, max_change=change)


@pytest.mark.parametrize(
    ("size", "of_map", "change"), [(1e-30, 1e30, None), (1e-30, 1e-30, 2e-3), (1.0, 1.0, None), (1e30, 1e30, 2e-3)]
)
def test_at_every_allowed_size_the_charge_covers_the_change_of_the_table(
    fast_path: Path, size: float, of_map: float, change: float | None
) -> None:
    """Rows at the edge of the ball and far outside, among others that are near it, at 0 or as far as doubles go."""
    rng, n = np.random.default_rng(0), 12
    largest = None if change is None else change * size
    for others in (0.5, 0.0, 1e-300, 1e100):
        table = rng.normal(size=(n, 2)) * size * others
        table[3] = [size, 0.0]
        neighbour = table.copy()
        neighbour[3] -= [2 * size if largest is None else largest, 0.0]
        share = audit_pair(
            table, neighbour, fast_path, row_norm=size, max_change=largest, projection=np.eye(2) * of_map
        )
        assert abs(share / np.sqrt(1 - 1 / n) - 1) < 1e-5, f"the noise covers {1 / share:.4g} of the worst case"
