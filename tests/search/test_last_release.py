"""The last releases of a run, each met by an error or a kill at each step: they are made up for, and paid once."""

from functools import partial

import pytest

from dptune import Budget, LedgerError, PlanComplete, PrivacyLedger
from dptune.search.view import RunView
from refusals import refused
from runs import CENTRED_RUN, MIXED_RUN, SELECTION_RUN, at, keys, losses_of, readable, trial

DEFAULT = {"a": 1.0, "b": 1e2}  # much worse than what the search finds
MIXED_DEFAULT = {**DEFAULT, "kind": "x", "fixed": 7}
FULL = LedgerError("disk full")


class Killed(BaseException):
    """What ends a process; nothing of it lives on."""


def starting(kind, url):
    default = MIXED_DEFAULT if kind is MIXED_RUN else DEFAULT
    return partial(kind.start, PrivacyLedger(url, Budget.gdp(40.0)), default=default, mu=40.0, seed=1)


def met_by(error, start, step, key):
    """Return a run that an error or a kill has met at a step of the release of this key."""
    run = start()
    at(run.ledger, step, key, error)
    with pytest.raises(type(error)):
        made_up_for(run, 2 * run.plan.trials, name="first")
    return run


def made_up_for(run, most, name="again"):
    """Make trials until the run is complete."""
    for i in range(most):
        if run.complete:
            break
        assert run.missing()
        trial(run, f"{name} {i}")
    assert run.complete


def check_end(run, *, lost=0):
    """Every release was paid once, and has its answer, but for a round that died with its process."""
    charges = run.ledger.charges("run")
    assert len(charges) == len({charge.key for charge in charges})
    assert sum(charge.value is None for charge in charges) == lost
    assert keys(run.ledger)[-2:] == ["choice", "final"]
    assert run.ledger.spent() == pytest.approx(run.plan.mu)
    assert run.missing() == ""
    best, progress = run.recommend(), run.progress()
    assert best.improvement.verdict == "better"
    assert losses_of(best, run.privatizer.n).mean() < losses_of(run.default or {}, run.privatizer.n).mean()
    assert progress["complete"] is progress["chosen"] is True
    assert (progress.get("generations_done", 4), progress.get("generations_lost", 0)) == (4 - lost, lost)
    assert run.privatizer.points() == ()
    view = RunView.of(run.ledger, "run")
    assert (view.complete, dict(view.recommend())) == (True, dict(best))
    refused(PlanComplete, None, lambda: run.check("more"))


@pytest.mark.parametrize(
    ("kind", "key", "step", "by"),
    [
        (CENTRED_RUN, "generation/4", "before the charge", "check"),
        (SELECTION_RUN, "choice", "drawn", "recommend"),
        (MIXED_RUN, "final", "before the charge", "recommend"),
        (SELECTION_RUN, "choice", "before the charge", "check"),
        (SELECTION_RUN, "final", "drawn", "check"),
    ],
    ids=readable,
)
def test_the_same_process_makes_up_for_an_error_without_a_trial(fast_path, kind, key, step, by):
    run = met_by(FULL, starting(kind, fast_path / "ledger.db"), step, key)
    assert not run.complete
    assert run.progress()["complete"] is False
    if by == "check":
        refused(PlanComplete, None, lambda: run.check("next"))
    else:
        assert run.recommend().improvement is not None
    check_end(run)


@pytest.mark.parametrize(
    ("kind", "key", "step"),
    [
        (CENTRED_RUN, "generation/4", "before the charge"),  # its share is paid
        (CENTRED_RUN, "generation/4", "charged"),
        (CENTRED_RUN, "choice", "charged"),
        (MIXED_RUN, "generation/4", "drawn"),
        (MIXED_RUN, "final", "charged"),
        (SELECTION_RUN, "choice", "before the charge"),
        (SELECTION_RUN, "choice", "recorded"),
        (SELECTION_RUN, "final", "before the charge"),
        (SELECTION_RUN, "final", "drawn"),
        (SELECTION_RUN, "final", "recorded"),
    ],
    ids=readable,
)
def test_a_restart_makes_up_for_a_kill_and_pays_for_nothing_twice(fast_path, kind, key, step):
    start = starting(kind, fast_path / "ledger.db")
    before = {charge.key: charge for charge in met_by(Killed(), start, step, key).ledger.charges("run")}
    again = start()
    assert again.complete is (key == "final" and step == "recorded")
    made_up_for(again, again.plan.trials + 2)  # at most all candidates of a paid choice, and the two that are compared
    check_end(again, lost=key.startswith("generation") and step in ("charged", "drawn"))
    after = {charge.key: charge for charge in again.ledger.charges("run")}
    for name, charge in before.items():
        assert (after[name].seq, after[name].note) == (charge.seq, charge.note)
        assert charge.value in (None, after[name].value)


def test_a_restart_trains_the_candidates_of_a_paid_choice_again_and_chooses_none_that_fails(fast_path):
    """Though some trials never return."""
    start = starting(SELECTION_RUN, fast_path / "ledger.db")
    paid = met_by(Killed(), start, "drawn", "choice").ledger.find("run", "choice")
    candidates = [{k: pytest.approx(v) for k, v in point.items()} for point in paid.note["parameters"]]
    bad = min(paid.note["parameters"], key=lambda point: losses_of(point, 50).mean())
    again, asked = start(), []
    assert again.missing().startswith("The choice at the end of the run is paid and has no answer. Resume the run")
    for i in range(40):
        if again.complete:
            break
        again.check(f"{i}")
        asked.append(x := again.ask(i))
        if i % 3:
            again.finish(f"{i}", x, None if x["a"] == bad["a"] else losses_of(x, 50))
    assert again.complete
    assert all(x in candidates for x in asked[: len(candidates)])
    assert (again.replay.choice.seq, again.replay.choice.note) == (paid.seq, paid.note)
    found = again.recommend()
    assert found["a"] != bad["a"]
    assert losses_of(found, 50).mean() < losses_of(DEFAULT, 50).mean()


def test_a_run_of_which_one_trial_only_can_be_evaluated_ends_without_a_choice_and_its_restart_tries_again(fast_path):
    start = starting(SELECTION_RUN, fast_path / "ledger.db")
    run = start()
    for i in range(run.plan.trials):
        x = run.ask(i)
        run.finish(f"{i}", x, losses_of(x, 50) if i == 0 else None)
    assert run.complete
    assert run.ledger.spent() == 0
    assert not start().complete


def test_a_default_that_cannot_be_trained_is_compared_with_nothing_until_a_restart_trains_it(fast_path):
    start = starting(SELECTION_RUN, fast_path / "ledger.db")
    run = start()
    run.finish("good", good := {"a": 0.3, "b": 1.0}, losses_of(good, 50))
    for i in range(run.plan.trials - 1):
        x = run.ask(i)
        run.finish(f"{i}", x, None if x == pytest.approx(DEFAULT) else losses_of(x, 50))
    assert run.complete
    assert keys(run.ledger) == ["choice"]
    assert run.recommend().improvement is None
    made_up_for(again := start(), 2)
    check_end(again)
