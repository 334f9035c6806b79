"""What a run states about its own result is true as often as stated: made-up losses, seeded noise, in memory.

An honest audit fails once in 1000. Of 120 intervals, coverage of 80% instead of 95% is found with probability .99, and
of 85% with .8. Of 60 runs, a false "better" in 20% instead of 2.5% is found with probability .97. If no gain is
possible, few runs leave their default, so few intervals are made there.
"""

import pytest
from scipy.stats import binom

from benchmarks.measurements.tails.__main__ import recommended
from benchmarks.measurements.tails.tasks import make

RUNS = {"bowl": 120, "minority loses": 60, "nothing to gain": 60}
TRIALS, SURE = 36, 1e-3
CLIPS_HALF = {"tuning": {"quantile": 0.5, "saturated": 0.6}}


def audit(name, runs, said, settings=None):
    """Probabilities of so few intervals that cover, and of so many "better" that are false, if all is as promised."""
    made, covered, false = 0, 0, 0
    for i in range(runs):
        task = make(name, (300, 1000)[i % 2], i // 2)
        found = recommended(task, 1.0, TRIALS, i, **(settings or {}))
        truth = float(task.losses(task.default).mean() - task.losses(found).mean())
        improvement = said(found)
        if improvement is None:
            continue
        low, high = improvement.interval()
        made, covered = made + 1, covered + (low <= truth <= high)
        false += improvement.verdict == "better" and truth <= 0
    return float(binom.cdf(covered, made, 0.95)), float(binom.sf(false - 1, runs, 0.025))


def released(found):
    return found.improvement


def of_the_model(found):
    """The planted bug: what the package said when it clipped half of the people and released no improvement."""
    return None if found == found.defaults else found.hint


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_an_interval_covers_as_it_says_and_better_is_true(name):
    assert min(audit(name, RUNS[name], released)) > SURE


@pytest.mark.slow
def test_the_audit_finds_an_interval_of_the_model():
    assert max(audit("minority loses", 30, of_the_model, CLIPS_HALF)) < SURE
