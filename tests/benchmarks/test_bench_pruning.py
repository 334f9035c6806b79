"""The benchmark of trials that stop early: a small search of each kind, and its table."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks import pruning


@pytest.mark.parametrize("search", ["private, private rungs", "no privacy, TPE, MedianPruner"])
def test_a_search_counts_its_epochs_and_the_losses_of_its_recommendations(
    monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    of = (*pruning.SEARCHES[search][:3], 8)
    monkeypatch.setitem(pruning.SEARCHES, search, of)
    monkeypatch.setattr(pruning, "EPOCHS", 3)
    monkeypatch.setattr(pruning, "RUNGS", (1, 2))
    found = pruning.measure("MLP, digits", search, 0)
    epochs = [done for done, _ in found["path"]]
    assert epochs == sorted(epochs)
    assert found["epochs"] == epochs[-1] <= 16 * 3
    assert all(0 < loss < 3 for _, loss in found["path"])


def test_equal_means_from_then_on() -> None:
    assert pruning.epochs_to([[1, 0.5], [2, 0.1], [3, 0.5], [4, 0.2], [5, 0.1]], 0.2) == 4
    assert math.isinf(pruning.epochs_to([[1, 0.1], [2, 0.5]], 0.2))


def test_the_table_has_a_row_for_each_search() -> None:
    results: list[dict[str, Any]] = [
        {"task": task, "search": search, "seed": seed, "epochs": 10.0 * seed, "path": [[5.0, 0.2], [10.0 * seed, 0.1]]}
        for task in pruning.TASKS
        for search in pruning.SEARCHES
        for seed in (1, 2)
    ]
    lines = pruning.table(results).splitlines()
    assert len(lines) == 2 + len(pruning.SEARCHES) * len(pruning.TASKS)
    assert lines[2].endswith("| 0.100 ± 0.000 | 1.00 ± 0.00 | 1.00 | 1.00 | 2 of 2 |")
