"""The benchmark of trials that stop early: a small search of each kind, and its table."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.optuna import pruning


def test_a_search_counts_its_epochs_and_the_losses_of_its_recommendations(monkeypatch: pytest.MonkeyPatch) -> None:
    search = "private, private rungs"
    monkeypatch.setitem(pruning.SEARCHES, search, (*pruning.SEARCHES[search][:3], 8))
    monkeypatch.setattr(pruning, "EPOCHS", 3)
    monkeypatch.setattr(pruning, "RUNGS", (1, 2))
    found = pruning.measure("MLP, digits", search, 0)
    epochs = [done for done, _ in found["path"]]
    assert epochs == sorted(epochs)
    assert found["epochs"] == epochs[-1] <= 16 * 3
    assert all(0 < loss < 3 for _, loss in found["path"])


def test_the_page_says_what_the_stored_runs_say() -> None:
    """The table, and of the two ways to prune savings and ratios."""
    stored = [json.loads(line) for line in (pruning.DOCS / "results/pruning.jsonl").read_text().splitlines()]
    page = (pruning.DOCS / "research/optuna.md").read_text(encoding="utf-8")
    assert pruning.table(stored) in page
    seen = " ".join(page.partition("**What was seen.**")[2].partition("The rule was chosen")[0].split())
    for task in pruning.TASKS:
        runs = {(one["search"], one["seed"]): one for one in stored if one["task"] == task}
        for search in ("private, private rungs", "private, MedianPruner on 100 public images"):
            pairs = [(runs["private, no pruning", seed], one) for (name, seed), one in runs.items() if name == search]
            ratios = [one["path"][-1][1] / usual["path"][-1][1] for usual, one in pairs]
            error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
            assert f"{1 - np.mean([one['epochs'] / usual['epochs'] for usual, one in pairs]):.0%}" in seen
            assert f"{np.mean(ratios):.2f} ± {error:.2f}".replace("0.", ".") in seen
