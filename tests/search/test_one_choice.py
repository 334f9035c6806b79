"""Search by one choice: nothing is released before all candidates are in, and then one choice is paid."""

from __future__ import annotations

from typing import Any

import centred_runs
import mixed_runs
import numpy as np
import pytest
from run_harness import SPACE, keys, losses_of

from dptune import BudgetExhausted, LossPrivatizer, PlanComplete, PrivacyLedger, SearchRun, Space
from dptune.algorithms import SELECTION

N, TRIALS = centred_runs.N, 40


def start(ledger: PrivacyLedger, mu: float = 3.0, space: Space = mixed_runs.MIXED, **settings: Any) -> SearchRun:
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    settings = {"trials": TRIALS, **settings}
    return SearchRun(SELECTION, privatizer, scope="run", space=space, mu=mu, seed=1, **settings)


def trial(run: SearchRun, number: int, *, fails: bool = False) -> dict[str, Any]:
    point = run.ask(number, trial=str(number))
    value = run.finish(str(number), point, None if fails else losses_of(point, N))
    assert value == np.inf
    return point


@pytest.mark.parametrize("space", [mixed_runs.MIXED, SPACE], ids=["any space", "numbers"])
def test_one_choice_is_paid_when_all_candidates_are_in(ledger: PrivacyLedger, space: Any) -> None:
    run = start(ledger, space=Space(space))
    points = [trial(run, i) for i in range(TRIALS - 1)]
    assert ledger.spent() == 0
    assert not run.complete
    points.append(trial(run, TRIALS - 1))
    assert run.complete
    assert keys(ledger, "choice") == ["choice"]
    assert ledger.spent() ** 2 == pytest.approx(9 * 0.95)
    best = run.recommend()
    assert dict(best) in points
    losses = sorted(losses_of(point, N).mean() for point in points)
    assert losses_of(best, N).mean() <= losses[3 * TRIALS // 4]  # a right choice is worse once in 10^12
    with pytest.raises(PlanComplete):
        run.check("another")
    assert dict(start(ledger, space=Space(space)).recommend()) == dict(best)  # another process
    assert start(ledger, space=Space(space)).complete


def test_the_default_is_the_first_candidate_and_processes_share_the_sequence(ledger: PrivacyLedger) -> None:
    run = start(ledger, space=Space(SPACE), default=Space(SPACE).centre())
    assert run.ask(0) == pytest.approx(Space(SPACE).centre())
    again = start(ledger, space=Space(SPACE), default=Space(SPACE).centre())
    assert run.ask(7) == again.ask(7) != run.ask(8)
    with pytest.warns(UserWarning, match="no answer is released yet"):
        assert dict(run.recommend()) == pytest.approx(Space(SPACE).centre())


def test_a_failed_candidate_counts_and_is_never_chosen(ledger: PrivacyLedger) -> None:
    run = start(ledger, trials=3)
    good = [trial(run, 0), trial(run, 1)]
    trial(run, 2, fails=True)
    assert run.complete
    assert dict(run.recommend()) in good


def test_a_choice_that_could_not_be_paid_is_refused_before_training(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    trial(run, 0)
    spender = SearchRun(SELECTION, run.privatizer, scope="other", space=Space(SPACE), mu=3.0, seed=1, trials=2)
    for i in range(2):
        trial(spender, i)
    with pytest.raises(BudgetExhausted):
        run.check("1")
