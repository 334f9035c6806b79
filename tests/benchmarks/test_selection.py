"""The benchmark of selection runs the package's code and keeps what it found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.centred import selection


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One task whose loss is the first coordinate, for everybody."""
    task = SimpleNamespace(d=2, n=50, clip=(0.0, 1.0), losses=lambda u: np.full(50, u[0]), test_loss=lambda u: u[0])
    monkeypatch.setattr(selection, "TASKS", {"toy": lambda n, seed: task})
    monkeypatch.setattr(selection, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(selection, "CANDIDATES", (5, 12))
    monkeypatch.setattr(selection, "PEOPLE", 50)
    return tmp_path


def test_choices_get_better_with_budget_and_none_beats_the_exact_one(toy: Path) -> None:
    found = selection.measure(selection.Cell("toy", 50, 0), draws=3)
    for name, loss in found.items():
        assert loss >= found[f"exact {name.split()[1]}"]
    again = selection.measure(selection.Cell("toy", 50, 0), draws=3)
    assert again == found  # seeded, and the candidates are kept
    assert len(list((toy / "kept").iterdir())) == 1
