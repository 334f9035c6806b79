"""Every method: restarts, copies, rounds whose answer is lost or late, and budgets that others spend."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import pytest
from audit_tools import dump
from runs import SPACE, Kind, fails_once, keys, losses_of, spend_elsewhere, to_the_end, trial, trials, when_released

from dptune import (
    BudgetExhausted,
    LedgerError,
    LossPrivatizer,
    PrivacyLedger,
)

# ---- restarts, copies, and answers that are late or lost -----------------------------------------------


@pytest.mark.parametrize("stop", ["at once", "within a round", "after a round", "one before the end", "at the end"])
def test_a_restart_continues_with_the_same_state_and_the_remaining_budget(
    ledger: PrivacyLedger, kind: Kind, stop: str
) -> None:
    made = {"at once": 0, "within a round": 2, "after a round": kind.first_round, "one before the end": kind.trials - 1}
    first = kind.start(ledger)
    trials(first, made.get(stop, kind.trials))
    before = dump(ledger)
    again = kind.start(ledger)
    assert again.plan == first.plan  # the seed was drawn once
    assert kind.state(again) == kind.state(first)
    assert again.algorithm.recommend().tolist() == first.algorithm.recommend().tolist()
    assert again.complete == first.complete == (stop == "at the end")
    if stop == "after a round":
        assert [again.ask() for _ in range(kind.batch)] == [first.ask() for _ in range(kind.batch)]
    assert dump(ledger) == before
    to_the_end(again)
    assert keys(ledger, kind.last_question) == kind.questions
    assert ledger.spent() <= 4.0


def test_a_copy_has_the_state_and_none_of_the_losses_and_goes_on(ledger: PrivacyLedger, kind: Kind) -> None:
    run = kind.start(ledger)
    trials(run, kind.first_round + 1)
    twin = pickle.loads(pickle.dumps(run))
    assert kind.state(twin) == kind.state(run)
    assert twin.privatizer.points() == ()
    assert twin.algorithm.missing() == kind.batch
    trials(twin, kind.batch, "twin ")
    assert twin.algorithm.t == 2


def test_a_round_whose_answer_was_lost_is_used_up(
    ledger: PrivacyLedger, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, true = kind.start(ledger), PrivacyLedger.charge

    def dies(self: PrivacyLedger, scope: str, key: str, *rest: Any, **options: Any) -> Any:
        paid = true(self, scope, key, *rest, **options)
        if key == kind.questions[0]:
            raise KeyboardInterrupt
        return paid

    with monkeypatch.context() as patch:
        patch.setattr(PrivacyLedger, "charge", dies)
        with pytest.raises(KeyboardInterrupt):
            trials(run, kind.first_round)
    again = kind.start(ledger)
    to_the_end(again)
    assert keys(ledger, kind.last_question) == kind.questions
    assert ledger.charges("run", prefix=kind.questions[0])[0].value is None
    assert kind.state(kind.start(ledger)) == kind.state(again)
    assert ledger.spent() <= 4.0


def test_an_answer_that_arrives_late_is_folded_in_its_place(
    ledger: PrivacyLedger, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = kind.start(ledger), kind.start(ledger)
    true, waiting = PrivacyLedger.record, []

    def later(self: PrivacyLedger, charge: Any, value: Any) -> Any:
        if charge.key == kind.questions[0]:
            waiting.append((charge, value))
            raise KeyboardInterrupt
        return true(self, charge, value)

    monkeypatch.setattr(PrivacyLedger, "record", later)
    with pytest.raises(KeyboardInterrupt):
        trials(a, kind.first_round, "a")
    trials(b, kind.batch, "b")
    assert keys(ledger, kind.last_question) == kind.questions[:2]
    without = kind.state(b)
    true(ledger, *waiting[0])
    b.recommend()
    assert kind.state(b) == kind.state(kind.start(ledger)) != without
    assert len(kind.state(b)) == len(without) + 1


def test_an_answer_that_could_not_be_recorded_is_recorded_later_and_not_asked_for_again(
    ledger: PrivacyLedger, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = kind.start(ledger)
    fails_once(monkeypatch, run, "record", kind.questions[0])
    trials(run, kind.first_round - 1)
    with pytest.raises(LedgerError, match="disk full"):
        trial(run, "last")
    run.recommend()  # records it
    assert ledger.find("run", kind.questions[0]).value is not None
    assert kind.state(run) == kind.state(kind.start(ledger))
    assert (run.algorithm.t, run.algorithm.missing()) == (1, kind.batch)
    trial(run, "next")
    assert keys(ledger, kind.last_question) == kind.questions[:1]


def test_a_round_that_another_process_charged_leaves_ones_own_points_waiting(
    ledger: PrivacyLedger, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process's charge fails, and another makes the round meanwhile."""
    run, other = kind.start(ledger), kind.start(ledger)
    fails_once(monkeypatch, run, "charge", kind.questions[0])
    with pytest.raises(LedgerError):
        trials(run, kind.first_round, "a")
    trials(other, kind.batch, "b")
    run.so_far()
    assert (run.algorithm.t, run.algorithm.missing()) == (1, 0)


@pytest.mark.parametrize("question", ["first", "last"])
def test_who_comes_second_with_a_question_keeps_its_points(
    ledger: PrivacyLedger, kind: Kind, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """The first makes the round between the second's look at the ledger and its charge."""
    first, second = kind.start(ledger), kind.start(ledger)
    trials(first, kind.first_round - 1, "first ")
    trials(second, kind.batch - 1, "second ")
    asked = f"{kind.first_question}/1" if question == "first" and kind.first_question else kind.questions[0]
    met: list[float] = []

    def meets(privatizer: LossPrivatizer, key: str) -> None:
        if privatizer is second.privatizer and key == asked and not met:
            met.append(trial(first, "meets"))

    when_released(monkeypatch, meets)
    trial(second, "met")
    assert met
    assert keys(ledger, kind.last_question) == kind.questions[:1]
    assert kind.state(second) == kind.state(first)
    assert second.algorithm.missing() == 0  # its points wait for the next round
    trial(second, "next")
    assert keys(ledger, kind.last_question) == kind.questions[:2]


# ---- a budget that others spend ------------------------------------------------------------------------


def test_a_budget_spent_by_another_run_ends_this_one_before_a_model_is_trained(
    ledger: PrivacyLedger, kind: Kind
) -> None:
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


def test_lost_trials_delay_and_do_not_block(ledger: PrivacyLedger, kind: Kind) -> None:
    run, finished = kind.start(ledger), 0
    for i in range(3 * kind.trials):
        if run.complete:
            break
        x = run.ask()
        if i % 3:  # every third trial never comes back
            run.finish(str(i), x, losses_of(x, kind.n))
            finished += 1
    assert run.complete
    assert finished == kind.trials
