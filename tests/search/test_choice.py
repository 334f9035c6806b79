"""The choice among all trials at the end of a run: paid once, by whoever ends it; without it the algorithm answers."""

from __future__ import annotations

import pickle
from typing import Any

import centred_runs
import mixed_runs
import numpy as np
import pytest
from run_harness import keys, losses_of

from dptune import BudgetExhausted, InputError, LossPrivatizer, PrivacyLedger, SearchRun
from dptune.algorithms import CentredMixed

N = centred_runs.N


def trials(run, count, name=""):
    return [run_one(run, f"{name}{i}") for i in range(count)]


def run_one(run, name):
    run.check(name)
    x = run.ask()
    run.finish(name, x, losses_of(x, N))
    return x


def test_a_run_in_a_mixed_space_ends_with_one_paid_choice_of_an_evaluated_point(ledger: PrivacyLedger) -> None:
    run = mixed_runs.start(ledger, mu=3.0)
    points = trials(run, run.plan.trials)
    assert run.complete
    assert keys(ledger, "choice") == ["choice"]
    charge = ledger.find("run", "choice")
    assert charge is not None
    assert charge.mu == pytest.approx(run.plan.choice_mu)
    assert run.plan.choice_mu**2 + run.plan.settings.mu**2 + run.plan.final_mu**2 == pytest.approx(9.0)
    assert dict(run.recommend()) in points
    assert ledger.spent() ** 2 == pytest.approx(9.0 - run.plan.final_mu**2)
    assert run.privatizer.points() == ()  # nothing is held any more
    means = [losses_of(x, N).mean() for x in points]
    assert losses_of(run.recommend(), N).mean() < np.quantile(means, 0.75)


def test_the_choice_takes_its_part_of_what_else_is_left(ledger: PrivacyLedger) -> None:
    plan = mixed_runs.start(ledger, final_share=0.2, rung_share=0.4).plan
    assert plan.choice_share == pytest.approx(0.7 * 0.4)
    assert plan.settings.mu**2 == pytest.approx(0.3 * 0.4 * plan.mu**2)


def test_restarts_and_copies_know_the_choice(ledger: PrivacyLedger) -> None:
    run = mixed_runs.start(ledger)
    trials(run, run.plan.trials)
    assert mixed_runs.start(ledger).recommend() == run.recommend()
    assert pickle.loads(pickle.dumps(run)).recommend() == run.recommend()


@pytest.fixture
def asked_again(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What runs ask for again, in place of a proposal; a mutation may come to an old point by itself."""
    found, proposed, run_asks, proposes = list[Any](), list[int](), SearchRun.ask, CentredMixed.ask

    def propose(self: CentredMixed, slot: int) -> np.ndarray:
        proposed.append(slot)
        return proposes(self, slot)

    def ask(self: SearchRun, *args: Any, **options: Any) -> Any:
        before, point = len(proposed), run_asks(self, *args, **options)
        found.extend([point] if len(proposed) == before else [])
        return point

    monkeypatch.setattr(CentredMixed, "ask", propose)
    monkeypatch.setattr(SearchRun, "ask", ask)
    return found


def test_a_restarted_run_asks_again_for_the_best_of_the_lost_points_at_its_end(
    ledger: PrivacyLedger, asked_again: list[Any]
) -> None:
    """Their losses were in the memory of the process that ended; the choice is to be among them, too."""
    plan = mixed_runs.start(ledger).plan
    batch = plan.settings.population
    trials(mixed_runs.start(ledger), plan.trials - 2 * batch)
    run = mixed_runs.start(ledger)
    between = trials(run, batch, "between ")
    assert asked_again == []
    mine = [run.space.encode(point) for point in between]
    best = run.algorithm.best_points(batch)
    lost = [run.space.decode(x) for x in best if not any(np.allclose(x, u) for u in mine)]
    last = trials(run, batch, "last ")
    assert asked_again == lost == last[: len(lost)]
    chosen_among = ledger.find("run", "choice").note["parameters"]
    assert all(point in chosen_among for point in (*between, *last))


def test_a_run_that_lost_nothing_or_will_not_choose_asks_for_no_point_again(
    ledger: PrivacyLedger, asked_again: list[Any]
) -> None:
    run = mixed_runs.start(ledger, mu=1.0)
    trials(run, run.plan.trials)
    about = {"scope": "without", "choice_share": 0.0, "mu": 1.0}
    trials(mixed_runs.start(ledger, **about), run.plan.trials - 5)
    again = mixed_runs.start(ledger, **about)
    trials(again, 5, "last ")
    assert again.complete
    assert asked_again == []


def test_an_extension_asks_again_for_no_point_of_the_run_that_it_extends(
    ledger: PrivacyLedger, asked_again: list[Any]
) -> None:
    """It compares with what that run chose."""
    first = mixed_runs.start(ledger, mu=1.0)
    trials(first, first.plan.trials)
    more = first.extend(trials=2 * first.plan.trials, mu=2.0)
    trials(more, more.plan.trials, "more ")
    assert more.complete
    assert asked_again == []


def test_a_point_that_failed_here_is_not_asked_for_again(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No proposal depends on which evaluations failed."""
    run = mixed_runs.start(ledger)
    space = run.space
    failed, lost = (space.decode(u) for u in np.random.default_rng(0).random((2, space.d)))
    run.finish("good", space.centre(), losses_of(space.centre(), N))
    run.finish("failed", failed, None)
    run.algorithm.t = run.algorithm.rounds - 1
    monkeypatch.setattr(run.algorithm, "best_points", lambda count: [space.encode(failed), space.encode(lost)])
    assert run.ask() == lost
    assert run.ask() not in (failed, lost)


def test_of_two_processes_one_chooses_among_its_own(ledger: PrivacyLedger) -> None:
    one, other = mixed_runs.start(ledger), mixed_runs.start(ledger)
    theirs = trials(other, 4, "other ")  # one short of a generation
    mine = trials(one, one.plan.trials)
    assert len(keys(ledger, "choice")) == 1
    theirs.append(other.space.centre())
    other.finish("other 4", theirs[-1], losses_of(theirs[-1], N))
    assert len(keys(ledger, "choice")) == 1
    assert dict(other.recommend()) == dict(one.recommend()) in mine


def test_where_the_budget_was_spent_by_others_the_algorithm_answers(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, true = mixed_runs.start(ledger, mu=3.0), LossPrivatizer.release

    def release(self: LossPrivatizer, query: Any, *, key: str, **options: Any) -> Any:
        if key == "choice":
            raise BudgetExhausted(query.mu, 0.0, 4.0)
        return true(self, query, key=key, **options)

    monkeypatch.setattr(LossPrivatizer, "release", release)
    trials(run, run.plan.trials)
    assert run.complete
    assert keys(ledger, "choice") == []
    assert dict(run.recommend()) == run.space.decode(run.algorithm.recommend())


def test_a_failed_trial_is_not_chosen_and_numbers_have_no_choice_unless_asked(ledger: PrivacyLedger) -> None:
    run = centred_runs.start(ledger, choice_share=0.5, mu=2.0)
    points = trials(run, 4)
    failed = run.ask()
    run.finish("failed", failed, None)
    points += trials(run, run.plan.trials - 5, "more ")
    assert dict(run.recommend()) in points
    assert centred_runs.start(ledger, scope="plain", mu=1.0).plan.choice_mu == 0
    with pytest.raises(InputError, match=r"final_share \+ choice_share"):
        centred_runs.start(ledger, scope="bad", mu=1.0, final_share=0.5, choice_share=0.6)
