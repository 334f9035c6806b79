"""The benchmark of trials that stop early: a small search of each kind, and its table."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.optuna import pruning


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


def test_the_page_says_what_was_seen_and_no_more() -> None:
    """Savings, ratios with two standard errors and who reached 2%, from the stored runs."""
    stored = [json.loads(line) for line in (pruning.DOCS / "results/pruning.jsonl").read_text().splitlines()]
    page = " ".join((pruning.DOCS / "research/optuna.md").read_text(encoding="utf-8").split())
    seen = page.partition("**What was seen.**")[2].partition("The rule was chosen")[0]
    for task in pruning.TASKS:
        runs = {(one["search"], one["seed"]): one for one in stored if one["task"] == task}
        pairs = [(runs[("private, no pruning", s)], runs[("private, private rungs", s)]) for s in range(20)]
        ratios = [rungs["path"][-1][1] / plain["path"][-1][1] for plain, rungs in pairs]
        error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
        saved = 1 - np.mean([rungs["epochs"] / plain["epochs"] for plain, rungs in pairs])
        ends = [pruning.epochs_to(rungs["path"], pruning.TOLERANCE * plain["path"][-1][1]) for plain, rungs in pairs]
        assert f"{saved:.0%}" in seen
        assert f"{np.mean(ratios):.2f} ± {error:.2f}".replace("0.", ".") in seen
        assert math.isclose(np.mean(ratios) + 2 * error - 1, 0.15 if "MLP" in task else 0.1, abs_tol=0.012)
        assert (
            f"{sum(map(math.isfinite, ends))} of 20 runs on" in seen
            or f"{sum(map(math.isfinite, ends))} of 20 on" in seen
        )
        assert ("median run never did" in seen) >= math.isinf(np.median(ends))
    assert "met" not in seen
    rungs = " ".join((pruning.DOCS / "pruning.md").read_text(encoding="utf-8").split())
    assert "a failed trial cannot be the incumbent (assumption 1" in rungs
    assert "linear scaling" not in (pruning.DOCS / "training.md").read_text().lower()  # advice that nobody measured
