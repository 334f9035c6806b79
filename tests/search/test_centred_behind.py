"""A centred run that falls behind its plan, and why: too many workers, odd trials, others' spending."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from centred_runs import POPULATION, TRIALS, N, losses, start
from run_harness import SPACE, trial

from dptune import PrivacyLedger


def test_workers_with_too_few_trials_each_are_told(ledger: PrivacyLedger) -> None:
    workers, told = [start(ledger) for _ in range(8)], []
    for i in range(TRIALS + 2 * POPULATION):
        trial(workers[i % 8], str(i))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            workers[0].warn_if_behind(i + 1)
        told += [(i + 1, str(warning.message)) for warning in caught]
    ((when, message),) = told  # once, with the last planned trial
    assert when == TRIALS
    assert "0 of 4 generations" in message
    assert "n_jobs" in message
    assert "were not" not in message
    with pytest.warns(UserWarning, match=r"centre of the search space.*0 of 4 generations.*n_jobs"):
        assert workers[1].recommend() == SPACE.decode(np.full(2, 0.5))
    assert ledger.spent() == 0.0
    for i in range(TRIALS):
        if not workers[1].complete:
            trial(workers[1], f"enough {i}")
    assert not workers[2].complete
    workers[2].warn_if_behind(10**6)  # it looks at the ledger first, and says nothing
    assert workers[2].complete
    workers[2].recommend()


def test_a_warning_says_why_generations_are_missing(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        run.finish(f"outside {i}", {"a": 7.0, "b": 1.0}, np.zeros(N))
    with pytest.warns(
        UserWarning, match=f"0 of 4.*in the search space, and {TRIALS} of this process's trials were not"
    ):
        run.warn_if_behind(TRIALS)
    other = run.privatizer
    other.observe("x", np.zeros(N))
    other.release(other.mean_query("x", ledger.remaining() * 0.999), scope="another study", key="1")
    for i in range(POPULATION):
        x = run.ask()
        run.finish(f"late {i}", x, losses(x))
    with pytest.warns(UserWarning, match="0 of 4.*Other runs have spent the budget"):
        run.recommend()
