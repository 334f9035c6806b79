"""What a run says of its own result is true as often as it says: made-up losses, seeded noise, a ledger in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import binom

from benchmarks.tails.__main__ import recommended
from benchmarks.tails.tasks import MADE_UP, make
from dptune.search.answer import Estimate, Recommendation

RUNS, TRIALS, SURE = 150, 36, 1e-3
Said = Callable[[Recommendation], Estimate | None]
CLIPS_HALF: dict[str, Any] = {"quantile": 0.5, "saturated": 0.6, "choice_share": 0.0}


def audit(name: str, said: Said, settings: dict[str, Any] | None = None) -> tuple[float, float]:
    """Probabilities of so few intervals that cover, and of so many "better" that are false, if all is as promised."""
    made, covered, false = 0, 0, 0
    for i in range(RUNS):
        task = make(name, (300, 1000)[i % 2], i // 2)
        found = recommended(task, 1.0, TRIALS, i, **(settings or {}))
        truth = float(task.losses(task.default).mean() - task.losses(found).mean())
        improvement = said(found)
        if improvement is None:
            continue
        low, high = improvement.interval()
        made, covered = made + 1, covered + (low <= truth <= high)
        false += improvement.verdict == "better" and truth <= 0
    return float(binom.cdf(covered, made, 0.95)), float(binom.sf(false - 1, RUNS, 0.025))


def released(found: Recommendation) -> Estimate | None:
    return found.improvement


def of_the_model(found: Recommendation) -> Estimate | None:
    """The planted bug: what the package said when it clipped half of the people and released no improvement."""
    return None if found == found.defaults else found.hint


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE_UP)
def test_an_interval_covers_as_it_says_and_better_is_true(name: str) -> None:
    assert min(audit(name, released)) > SURE


@pytest.mark.slow
def test_the_audit_finds_an_interval_of_the_model() -> None:
    assert max(min(audit(name, of_the_model, CLIPS_HALF)) for name in ("minority loses", "bowl")) < SURE
