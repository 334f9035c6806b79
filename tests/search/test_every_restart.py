"""Every method survives restarts, copies, lost or late answers, and budgets that other runs spend."""

import contextlib

import numpy as np
import pytest

from audit_tools import dump
from dptune import BudgetExhausted
from dptune._numbers import rounded_up
from runs import CENTRED_RUN, KINDS, SPACE, at, keys, losses_of, readable, spend_elsewhere, to_the_end, trial, trials


def test_a_restart_continues_with_the_same_state_and_the_remaining_budget(ledger, kind):
    """At once, within a round, after a round, one before the end, and at the end."""
    run = kind.start(ledger)
    for made in (0, 2, kind.first_round, kind.trials - kind.first_round - 1, None):
        if made is None:
            to_the_end(run)
        else:
            trials(run, made, f"{made} ")
        before, again = dump(ledger), kind.start(ledger)
        assert again.plan == run.plan  # the seed was drawn once
        assert kind.state(again) == kind.state(run)
        assert again.algorithm.recommend().tolist() == run.algorithm.recommend().tolist()
        assert again.complete == run.complete == (made is None)
        if made == kind.first_round:
            assert [again.ask() for _ in range(kind.batch)] == [run.ask() for _ in range(kind.batch)]
        assert dump(ledger) == before
        run = again
    assert keys(ledger, kind.last_question) == kind.questions
    assert ledger.spent() <= 4.0


def test_a_lost_answer_uses_up_its_round_and_a_late_one_is_used_in_order(ledger, kind):
    a, b = kind.start(ledger), kind.start(ledger)
    at(a.ledger, "charged", kind.questions[0], KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        trials(a, kind.first_round, "a")
    trials(b, kind.batch, "b")
    assert keys(ledger, kind.last_question) == kind.questions[:2]
    charge = ledger.find("run", kind.questions[0])
    assert charge.value is None
    made, paid = len(ledger.charges("run")), rounded_up(charge.mu)
    said = f"{made - 1} of {made} answers: 1 was lost to a kill, mu={paid} was paid for it."
    assert said in b.recommend().summary()
    assert said in kind.start(ledger).recommend().summary()
    without = kind.state(b)
    assert kind.state(kind.start(ledger)) == without
    ledger.record(charge, np.linspace(-0.1, 0.1, charge.description["dimension"]))
    b.recommend()
    assert kind.state(b) == kind.state(kind.start(ledger)) != without
    assert len(kind.state(b)) == len(without) + 1
    assert "lost to a kill" not in b.recommend().summary()
    to_the_end(b)
    assert keys(ledger, kind.last_question) == kind.questions
    assert ledger.spent() <= 4.0


@pytest.mark.parametrize(
    ("kind", "asked"),
    [*((kind, kind.questions[0]) for kind in KINDS), (CENTRED_RUN, f"{CENTRED_RUN.first_question}/1")],
    ids=readable,
)
def test_who_comes_second_with_a_question_keeps_its_points(ledger, kind, asked):
    """The first makes the round between the second's look at the ledger and its charge."""
    first, second = kind.start(ledger), kind.start(ledger)
    trials(first, kind.first_round - 1, "first ")
    trials(second, kind.batch - 1, "second ")
    at(second.ledger, "before the charge", asked, lambda: trial(first, "meets"))
    trial(second, "met")
    assert keys(ledger, kind.last_question) == kind.questions[:1]
    assert first.algorithm.t == 1, "the first has not met the second"
    assert kind.state(second) == kind.state(first)
    assert second.algorithm.missing() == 0  # its points wait for the next round
    trial(second, "next")
    assert keys(ledger, kind.last_question) == kind.questions[:2]


def test_a_budget_that_another_run_spent_ends_a_run_before_training(ledger, kind):
    run = kind.start(ledger)
    trials(run, kind.first_round)
    spend_elsewhere(run, ledger.remaining() * 0.999)
    state = kind.state(run)
    for i in range(kind.batch):  # these were being trained
        x = run.ask()
        with contextlib.suppress(BudgetExhausted):
            run.finish(f"late {i}", x, losses_of(x, kind.n))
    with pytest.raises(BudgetExhausted) as refused:
        run.check("next")
    assert refused.value.budget == 4.0
    assert ledger.spent() <= 4.0
    assert kind.state(run) == state
    assert SPACE.contains(run.recommend())
