"""The choice among all trials at the end of a run: paid once, by whoever ends it; without it the algorithm answers."""

import pickle

import numpy as np
import pytest

from dptune import Budget, BudgetExhausted, Float, PlanComplete, Space
from refusals import refused
from runs import MIXED_RUN, MIXED_SPACE, SELECTION_RUN, SPACE, at, keys, losses_of, spend_elsewhere

N, BATCH = MIXED_RUN.n, MIXED_RUN.batch
start = MIXED_RUN.start


def trials(run, count, name=""):
    """Make trials; return their points."""
    points = []
    for i in range(count):
        points.append(x := run.ask(trial=f"{name}{i}"))
        run.finish(f"{name}{i}", x, losses_of(x, N))
    return points


def test_a_run_in_a_mixed_space_ends_with_one_paid_choice_of_an_evaluated_point(ledger):
    run, other = start(ledger, mu=3.0), start(ledger, mu=3.0)
    trials(other, BATCH - 1, "other ")  # one short of a generation
    points = trials(run, run.plan.trials)
    assert run.complete
    charge = ledger.find("run", "choice")
    assert charge.mu == pytest.approx(run.plan.choice_mu)
    assert ledger.spent() ** 2 == pytest.approx(9.0 - run.plan.final_mu**2)
    assert run.privatizer.points() == ()  # nothing is held any more
    best = run.recommend()
    assert dict(best) in points
    assert losses_of(best, N).mean() < np.quantile([losses_of(x, N).mean() for x in points], 0.75)
    other.finish("other 4", centre := other.space.centre(), losses_of(centre, N))  # it finds the choice made
    assert other.recommend() == start(ledger, mu=3.0).recommend() == pickle.loads(pickle.dumps(run)).recommend() == best
    assert keys(ledger, "choice") == ["choice"]


def test_where_the_budget_was_spent_by_others_the_algorithm_answers(ledger):
    run = start(ledger, mu=3.0)
    at(run.ledger, "before the charge", "choice", lambda: spend_elsewhere(run, ledger.remaining() * 0.999))
    trials(run, run.plan.trials)
    assert keys(ledger, "choice") == []
    assert not run.complete
    assert "Other runs have spent the budget for it: raise the budget" in run.missing()
    refused(BudgetExhausted, None, lambda: run.check("more"))
    assert dict(run.recommend()) == run.space.decode(run.algorithm.recommend())
    ledger.raise_budget(Budget.gdp(8.0))
    refused(PlanComplete, None, lambda: run.check("more"))  # the losses are still held
    assert run.complete
    assert keys(ledger, "choice") == ["choice"]


def test_what_was_chosen_has_the_parameters_that_have_joined_since(ledger):
    run = start(ledger)
    for i in range(run.plan.trials):
        if i == BATCH:
            run.join(Space({**MIXED_SPACE, "later": Float(0.0, 1.0)}, when=MIXED_SPACE.when))
        run.finish(str(i), run.ask(), np.full(N, float(i >= BATCH)))  # the first ones are much better
    assert run.recommend()["later"] == 0.5


def test_a_restarted_run_asks_again_for_the_best_of_the_lost_points_at_its_end(ledger):
    """Their losses were in the memory of the process that ended; the choice is to be among them, too."""
    trials(start(ledger), start(ledger).plan.trials - 2 * BATCH)
    run = start(ledger)
    between = trials(run, BATCH, "between ")
    best = run.algorithm.best_points(BATCH)
    mine = [run.space.encode(point) for point in between]
    lost = [run.space.decode(x) for x in best if not any(np.allclose(x, u) for u in mine)]
    last = trials(run, BATCH, "last ")
    assert lost == last[: len(lost)]
    chosen_among = ledger.find("run", "choice").note["parameters"]
    assert all(point in chosen_among for point in (*between, *last))


def test_a_point_that_failed_here_is_not_asked_for_again(ledger):
    """No proposal depends on which evaluations failed."""
    run = start(ledger)
    space = run.space
    failed, lost = (space.decode(u) for u in np.random.default_rng(0).random((2, space.d)))
    run.finish("good", space.centre(), losses_of(space.centre(), N))
    run.finish("failed", failed, None)
    run.algorithm.t = run.algorithm.rounds - 1
    run.algorithm.best_points = lambda count: [space.encode(failed), space.encode(lost)]
    assert run.ask() == lost
    assert run.ask() not in (failed, lost)


CANDIDATES = 20


def selection(ledger, **settings):
    return SELECTION_RUN.start(ledger, mu=3.0, seed=1, trials=CANDIDATES, **settings)


def candidate(run, number):
    point = run.ask(number, trial=str(number))
    assert run.finish(str(number), point, losses_of(point, N)) == np.inf
    return point


def test_the_default_is_the_first_candidate_kept_by_its_odds_and_processes_share_the_sequence(ledger):
    run, again = (selection(ledger, default=SPACE.centre()) for _ in range(2))
    assert run.ask(0) == again.ask(3) == pytest.approx(SPACE.centre())  # each chooses among its own points
    assert run.ask(7) == again.ask(7) != run.ask(8)
    with pytest.warns(UserWarning, match="no answer is released yet"):
        assert dict(run.recommend()) == pytest.approx(SPACE.centre())
    for i in range(CANDIDATES):
        assert (ledger.spent(), run.complete) == (0, False)
        candidate(run, i)
    note = ledger.find("run", "choice").note
    assert sorted(note["prior"]) == [1.0] * (CANDIDATES - 1) + [10.0 * (CANDIDATES - 1)]
    assert note["parameters"][int(np.argmax(note["prior"]))] == pytest.approx(SPACE.centre())


def test_a_choice_that_could_not_be_paid_is_refused_before_training(ledger):
    run = selection(ledger)
    candidate(run, 0)
    spend_elsewhere(run, 3.0)
    refused(BudgetExhausted, None, lambda: run.check("1"))
