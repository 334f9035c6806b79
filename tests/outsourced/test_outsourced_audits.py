"""Each audit passes on the package and fails on the package with one planted bug."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from outsourced_tools import (
    PROJECTION_SEED,
    TABLE,
    MemoryLedger,
    R,
    audit_changing,
    audit_noise,
    audit_pair,
    audit_replacing,
    audit_wire,
    curator,
)

from dptune import InputError
from dptune.outsourced import curator as implementation
from dptune.outsourced.curator import OutsourcedCurator
from dptune.privacy.noise import OpenDPNoise

Bug = Callable[[pytest.MonkeyPatch], None]
Audit = Callable[[Path], None]


def data_driven_normalisation(patch: pytest.MonkeyPatch) -> None:
    true = implementation.bounded_rows

    def standardised(cells: Any, middle: Any, scale: Any, row_norm: float) -> Any:
        return true(cells, middle, np.nanstd(cells, axis=0) + 1e-9, row_norm)

    patch.setattr(implementation, "bounded_rows", standardised)


def scaled_to_the_largest_row(patch: pytest.MonkeyPatch) -> None:
    def largest(cells: Any, middle: Any, scale: Any, row_norm: float) -> Any:
        norms = np.linalg.norm(np.nan_to_num(cells), axis=1)
        return np.nan_to_num(cells) * row_norm / max(norms.max(), 1e-9)

    patch.setattr(implementation, "bounded_rows", largest)


def rows_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(implementation, "bounded_rows", lambda cells, *_: np.nan_to_num(cells))


def half_the_change(patch: pytest.MonkeyPatch) -> None:
    true = implementation.largest_change
    patch.setattr(implementation, "largest_change", lambda *args: true(*args) / 2)


def norm_of_the_map_forgotten(patch: pytest.MonkeyPatch) -> None:
    true = implementation.noise_scale

    def forgotten(*, sensitivity: float, mu: float, dimension: int) -> float:
        return true(sensitivity=min(sensitivity, 1.0), mu=mu, dimension=dimension)

    patch.setattr(implementation, "noise_scale", forgotten)


def projection_seed_shared(patch: pytest.MonkeyPatch) -> None:
    """The noise comes from the generator that made the public projection."""

    def add(self: Any, statistic: Any, sigma: float) -> Any:
        return statistic + sigma * np.random.default_rng(PROJECTION_SEED).standard_normal(len(statistic))

    patch.setattr(OpenDPNoise, "add_gaussian", add)


def noise_reused_for_a_second_export(patch: pytest.MonkeyPatch) -> None:
    true, kept = OpenDPNoise.add_gaussian, {}

    def add(self: Any, statistic: Any, sigma: float) -> Any:
        noise = kept.setdefault(len(statistic), true(self, np.zeros(len(statistic)), 1.0))
        return statistic + sigma * noise

    patch.setattr(OpenDPNoise, "add_gaussian", add)


def one_noise_a_row(patch: pytest.MonkeyPatch) -> None:
    true = OpenDPNoise.add_gaussian

    def add(self: Any, statistic: Any, sigma: float) -> Any:
        return statistic + np.repeat(true(self, np.zeros(-(-len(statistic) // 4)), sigma), 4)[: len(statistic)]

    patch.setattr(OpenDPNoise, "add_gaussian", add)


def means_in_the_note(patch: pytest.MonkeyPatch) -> None:
    true = implementation.PrivacyLedger.charge

    def charge(self: Any, scope: str, key: str, event: Any, **more: Any) -> Any:
        return true(self, scope, key, event, **{**more, "note": {"means": str(np.nanmean(rows[-1], axis=0))}})

    rows: list[Any] = []
    cells = implementation.cells_of
    patch.setattr(implementation, "cells_of", lambda table: (rows.append(cells(table)), rows[-1])[1])
    patch.setattr(implementation.PrivacyLedger, "charge", charge)


def scale_fitted_to_the_rows_is_told(patch: pytest.MonkeyPatch) -> None:
    true = OutsourcedCurator._facts

    def about(self: Any, event: Any, digest: str) -> Any:
        told = true(self, event, digest)
        object.__setattr__(told, "outputs", f"deviation {np.nanstd(self._cells):.3g}")
        return told

    patch.setattr(OutsourcedCurator, "_facts", about)


FOUND: list[tuple[Bug, Audit]] = [
    (data_driven_normalisation, audit_replacing),
    (data_driven_normalisation, audit_changing),
    (scaled_to_the_largest_row, audit_changing),
    (rows_not_cut, audit_replacing),
    (half_the_change, audit_replacing),
    (half_the_change, audit_changing),
    (half_the_change, audit_noise),
    (norm_of_the_map_forgotten, audit_replacing),
    (norm_of_the_map_forgotten, audit_changing),
    (projection_seed_shared, audit_noise),
    (noise_reused_for_a_second_export, audit_noise),
    (one_noise_a_row, audit_noise),
    (means_in_the_note, audit_wire),
    (scale_fitted_to_the_rows_is_told, audit_wire),
]


def _name(case: Any) -> str:
    return getattr(case, "__name__", str(case))


@pytest.mark.parametrize("audit", [audit_replacing, audit_changing, audit_noise, audit_wire], ids=_name)
def test_every_audit_passes_on_the_package(audit: Audit, fast_path: Path) -> None:
    audit(fast_path)


@pytest.mark.parametrize(("bug", "audit"), FOUND, ids=_name)
def test_the_audit_finds_the_planted_bug(
    bug: Bug, audit: Audit, fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit(fast_path)


ANY_CELL = st.one_of(st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324]), st.floats(-20, 20))


@settings(max_examples=30)
@given(st.data(), st.integers(1, 6), st.integers(1, 3))
def test_replacing_a_row_never_moves_the_table_beyond_what_the_noise_covers(
    tmp_path_factory: pytest.TempPathFactory, data: Any, n: int, d: int
) -> None:
    table = data.draw(arrays(np.float64, (n, d), elements=ANY_CELL))
    neighbour = table.copy()
    neighbour[data.draw(st.integers(0, n - 1))] = data.draw(arrays(np.float64, d, elements=ANY_CELL))
    scale = data.draw(arrays(np.float64, d, elements=st.floats(1e-3, 1e3)))
    W = data.draw(arrays(np.float64, (d, 2), elements=st.floats(-3, 3)).filter(lambda W: np.abs(W).max() > 1e-3))
    audit_pair(table, neighbour, tmp_path_factory.mktemp("audit"), scale=scale, projection=W)


@settings(max_examples=30)
@given(st.data(), st.integers(1, 6), st.integers(1, 3), st.floats(0.01, 2 * R))
def test_moving_a_row_by_delta_never_moves_the_table_beyond_what_the_noise_covers(
    tmp_path_factory: pytest.TempPathFactory, data: Any, n: int, d: int, change: float
) -> None:
    table = data.draw(arrays(np.float64, (n, d), elements=ANY_CELL))
    row = data.draw(st.integers(0, n - 1))
    direction = data.draw(arrays(np.float64, d, elements=st.floats(-1, 1)))
    neighbour = table.copy()
    with np.errstate(all="ignore"):
        neighbour[row] += change * direction / max(1.0, float(np.linalg.norm(direction)))
    audit_pair(table, neighbour, tmp_path_factory.mktemp("audit"), max_change=change)


SIZES = [1e-30, 1e-18, 1e-6, 1.0, 1e6, 1e18, 1e30]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("of_map", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("change", [None, 2e-3])
def test_at_every_size_that_is_allowed_the_table_moves_by_what_it_is_charged_and_no_more(
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


@pytest.mark.parametrize("wrong", [1e150, 1.1e30, 0.9e-30, 1e-165, 0.0, -1.0, np.inf, np.nan])
def test_a_size_at_which_squares_overflow_or_vanish_is_refused(fast_path: Path, wrong: float) -> None:
    """At 1e150 squares overflow and at 1e-165 they vanish: the table moved by 816 and 1111 times its price."""
    with pytest.raises(InputError, match="row_norm"):
        curator(MemoryLedger(), TABLE, fast_path, row_norm=wrong)
    if not 1e-30 <= abs(wrong) <= 1e30:
        with pytest.raises(InputError, match="projection"):
            curator(MemoryLedger(), TABLE, fast_path, projection=np.full((TABLE.shape[1], 1), wrong))


def test_the_curator_has_nothing_that_could_release_losses_at_a_private_row() -> None:
    """What a question's points are made of must be public, and the curator's points are private rows."""
    program = "import sys, dptune.outsourced.curator; print([name for name in sys.modules if 'privatizer' in name])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
