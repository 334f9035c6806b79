"""Several runs of one ledger: what a new one may plan with, and learns from another; their budgets add up."""

import math
import pickle
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from audit_tools import dump
from dptune import (
    CENTRED,
    GIBO,
    Budget,
    BudgetExhausted,
    InputError,
    LossPrivatizer,
    PlanComplete,
    PrivacyLedger,
    SearchRun,
    Space,
    select,
)
from dptune.errors import BudgetMismatch, BudgetPlanned
from dptune.ledger.gdp import Spent
from dptune.search import Method, agreement, replay
from refusals import refused
from runs import (
    CENTRED_RUN,
    GIBO_RUN,
    MIXED_RUN,
    SPACE,
    TOY,
    TOY_RUN,
    VALUES_RUN,
    at,
    keys,
    losses_of,
    readable,
    to_the_end,
    trial,
    trials,
)

EXTENDED = "run, extended"


@pytest.mark.parametrize("kind", [GIBO_RUN, MIXED_RUN], ids=readable)
def test_an_extension_learns_everything_composes_to_the_budget_in_all_and_is_one_in_every_process(ledger, kind):
    run = to_the_end(kind.start(ledger, mu=0.6, seed=1))
    paid, known, wanted = ledger.count(), run.recommend(), {"trials": 2 * run.trials, "mu": 1.0}
    more = run.extend(**wanted)
    assert ledger.count() == paid
    assert more.algorithm.t == run.algorithm.t
    assert more.algorithm.rounds >= 2 * run.algorithm.rounds - 1
    assert 0 < more.trials - 2 * run.trials + 5 <= 9  # in whole rounds
    assert math.hypot(run.plan.mu, more.plan.mu) == pytest.approx(1.0, rel=1e-12)
    if more.plan.choice_mu == 0:
        assert more.space.contains(more.recommend())
        assert more.recommend().defaults == known.defaults
    trial(more, "a")
    others = [run.extend(**wanted), kind.start(ledger, mu=0.6, seed=1).extend(**wanted), more.extend(**wanted)]
    others += [kind.start(ledger, mu=0.6, seed=1).newest(), pickle.loads(pickle.dumps(more))]
    to_the_end(more, "more ")
    final = math.hypot(run.plan.final_mu, more.plan.final_mu)
    assert math.hypot(ledger.spent(), final) <= 1.0 + 1e-9
    for other in others:
        assert other.recommend() == more.recommend()
        assert (other.scope, other.trials) == (more.scope, more.trials)
        assert other.progress()["mu_spent"] == more.progress()["mu_spent"]
    again = more.extend(trials=3 * run.trials, mu=1.5)
    assert run.extend(**wanted).scope == again.scope == "run, extended, extended"
    assert again.algorithm.t == more.algorithm.t


def test_a_run_may_start_from_another_with_a_budget_of_its_own(ledger):
    run = to_the_end(CENTRED_RUN.start(ledger, mu=0.5, seed=1))
    new = CENTRED_RUN.start(ledger, scope="new", mu=0.5, seed=7, start_from="run", trials=10)
    groups = new.algorithm.surrogate.groups
    assert [g.values.tolist() for g in groups] == [g.values.tolist() for g in run.algorithm.surrogate.groups]
    assert np.array_equal(new.algorithm.means, run.algorithm.means)
    assert (new.plan.mu, new.trials) == (0.5, 10)
    to_the_end(new)
    assert keys(ledger, scope="new") == ["share/5", "generation/5", "share/6", "generation/6"]


def test_a_trial_that_failed_in_the_earlier_run_or_was_paid_there_has_no_say_in_the_new_one(ledger):
    run = TOY_RUN.start(ledger, mu=0.5)
    trial(run, "0")
    new = TOY_RUN.start(ledger, scope="new", mu=0.5, start_from="run")
    assert new.recorded_parameters("0") is None
    trial(new, "0")
    assert keys(ledger, scope="new") == ["value/0"]


def test_what_the_earlier_run_pays_later_is_not_learned_and_every_process_agrees(ledger):
    run = CENTRED_RUN.start(ledger, mu=0.5, seed=1)
    trials(run, 5, "first ")
    new = CENTRED_RUN.start(ledger, scope="new", mu=0.5, seed=2, start_from="run")
    trials(run, 5, "second ")
    assert CENTRED_RUN.start(ledger, scope="new", mu=0.5, seed=2, start_from="run").algorithm.t == 1
    trials(new, 5, "third ")
    new.ask()
    again = CENTRED_RUN.start(ledger, scope="new", mu=0.5, seed=2, start_from="run")
    assert again.recommend() == new.recommend()
    assert again.algorithm.t == 2


def test_an_answer_of_the_earlier_run_that_is_recorded_late_is_learned_in_its_place(ledger):
    run = TOY_RUN.start(ledger, mu=0.5)
    at(run.ledger, "drawn", "round/1", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        trials(run, 3)
    charge = ledger.find("run", "round/1")
    assert charge.value is None
    new = TOY_RUN.start(ledger, scope="new", mu=0.5, start_from="run")
    assert (new.algorithm.t, new.algorithm.winners) == (1, [])
    ledger.record(charge, [3.0, 1.0, 2.0])
    new.ask()
    assert (new.algorithm.t, len(new.algorithm.winners), new.algorithm.rounds) == (1, 1, TOY_RUN.rounds + 1)


def test_values_of_another_searcher_are_extended_too_and_all_of_them_recommend(ledger):
    run = VALUES_RUN.start(ledger, mu=0.5, trials=4)
    for i in range(4):
        run.finish(str(i), {"a": i / 10}, np.full(VALUES_RUN.n, i / 10))
    more = run.extend(trials=6, mu=0.8)
    refused(InputError, "before it is complete", lambda: more.extend(trials=8, mu=1.0))
    for i in range(4, 6):
        more.finish(str(i), {"a": i / 10}, np.full(VALUES_RUN.n, 1.0))
    assert more.complete
    assert more.recommend()["a"] < 0.35  # a trial of the first run
    assert [ledger.count(scope) for scope in ("run", EXTENDED)] == [4, 2]


def people(ledger, **change):
    return LossPrivatizer(PrivacyLedger(ledger.url.database), **{"n": 30, "clip": (0.0, 1.0), **change})


def test_an_extension_needs_a_complete_run_and_more_of_both(ledger):
    run = TOY_RUN.start(ledger, mu=0.6)
    refused(InputError, r"before it is complete.*start_from=", lambda: run.extend(trials=24, mu=1.0))
    to_the_end(run)
    fewer = "the totals of the run 'run', which has 12 trials and mu=0.6 already; give more"
    totals = ((12, 1.0), (24, 0.6), (3, None))
    refused(InputError, fewer, *(partial(run.extend, trials=count, mu=mu) for count, mu in totals))
    refused(InputError, "trials must be", lambda: run.extend(trials=0))
    assert agreement.lineage(ledger, "run") == ["run"]


def test_two_processes_that_extend_to_different_ends_do_not_both_get_their_way(ledger):
    run = to_the_end(TOY_RUN.start(ledger, mu=0.6))
    run.newest = lambda: run  # it does not know of the other
    assert TOY_RUN.start(ledger, mu=0.6).extend(trials=24, mu=1.0).trials == 24
    refused(BudgetMismatch, "planned with other settings", lambda: run.extend(trials=36, mu=1.5))


@pytest.mark.parametrize(
    ("method", "change", "privatizer", "what"),
    [
        (TOY, {"start_from": "none"}, {}, "no run of that name"),
        (TOY, {"start_from": "a choice"}, {}, "no run of that name"),
        (TOY, {"space": Space({"a": SPACE["a"]})}, {}, "another search space"),
        (TOY, {}, {"clip": (0.0, 2.0)}, "another privatizer"),
        (CENTRED, {}, {}, "another method"),
    ],
)
def test_answers_about_something_else_are_refused(ledger, method, change, privatizer, what):
    TOY_RUN.start(ledger, mu=0.5)
    select(np.zeros((2, 30)), people(ledger), name="a choice", mu=0.1)
    how = {"start_from": "run", "space": SPACE, **change}
    start = partial(SearchRun, method, people(ledger, **privatizer), scope="new", mu=0.1, **how)
    refused(InputError, what, start)
    assert ledger.fact("new", "plan") is None
    start = partial(SearchRun, TOY, people(ledger), scope="a choice", space=SPACE)
    refused(BudgetMismatch, "'a choice' belongs to a choice", start)


def test_a_start_is_part_of_the_plan_and_cmaes_keeps_its_population(ledger):
    to_the_end(CENTRED_RUN.start(ledger, mu=0.5, seed=1, tuning={"most_explored": 9}))
    new = {"scope": "new", "mu": 0.5, "start_from": "run"}
    words = "population=5 like the one that it starts from; got 6"
    refused(InputError, words, lambda: CENTRED_RUN.start(ledger, **new, population=6))
    assert CENTRED_RUN.start(ledger, **new).plan.settings.tuning.most_explored == 9
    refused(BudgetMismatch, "start_from", lambda: CENTRED_RUN.start(ledger, scope="new", mu=0.5))


STEPS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["trial"] * 6 + ["extend", "raise", "restart"])))


def audit_interleaving(path, steps):
    """Two processes share a run, extend it and raise the budget; what they spend is what they were ever allowed."""
    ledger, n = PrivacyLedger(path, Budget.gdp(0.6)), TOY_RUN.n
    targets = [(12 * k, 0.5 * math.sqrt(k)) for k in range(1, 6)]
    runs, allowed, names = [TOY_RUN.start(ledger, mu=0.5) for _ in range(2)], 0.6, 0
    for who, step in steps:
        run = runs[who]
        if step == "restart":
            runs[who] = TOY_RUN.start(ledger, mu=0.5).newest()
        elif step == "raise":
            allowed = min(allowed + 0.3, 1.5)
            PrivacyLedger(path).raise_budget(Budget.gdp(allowed))
        elif step == "trial":
            names += 1
            with suppress(PlanComplete, BudgetExhausted):
                trial(run, str(names))
        else:
            count, mu = next((t, m) for t, m in targets if t > run.trials)
            with suppress(InputError, BudgetExhausted):
                runs[who] = run.extend(trials=count, mu=mu)
    charges = PrivacyLedger(path).charges()
    assert Spent.of(c.mu for c in charges).mu <= allowed * (1 + 1e-9), "more was spent than was ever allowed"
    assert PrivacyLedger(path).spent() == pytest.approx(math.sqrt(math.fsum(c.mu**2 for c in charges)), rel=1e-12)
    for scope in {c.scope for c in charges}:
        count, mu = agreement.totals(ledger, scope)
        whole = [c.mu for c in charges if c.scope in agreement.lineage(ledger, scope)]
        assert (count, pytest.approx(mu)) in targets, "the runs together are not what was asked for"
        assert Spent.of(whole).mu <= mu * (1 + 1e-9), "the runs together spent more than they were given"
    ends = {run.scope: run for run in [*runs, TOY_RUN.start(ledger, mu=0.5).newest()]}
    for scope, run in ends.items():
        copies = [pickle.loads(pickle.dumps(run)), run]
        assert copies[0].recommend() == copies[1].recommend(), "two processes disagree"
        assert copies[0].privatizer.n == n
        assert agreement.lineage(ledger, scope)[-1] == "run"
    return len(charges)


BUSY = [(0, "trial"), (1, "trial")] * 20 + [(0, "raise"), (1, "extend"), (0, "extend")] + [(0, "trial")] * 14


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
@example(steps=BUSY)
def test_two_processes_that_extend_never_fork_or_undercount_the_budget(fast_path, steps):
    folder = fast_path / str(len(list(fast_path.iterdir())))
    folder.mkdir()
    assert audit_interleaving(str(folder / "ledger.db"), steps) > 25 or steps != BUSY


def everything(ledger, scope):
    """Every charge of the runs that this one starts from, also those that are newer than its start."""
    return [charge for name in agreement.lineage(ledger, scope)[1:] for charge in ledger.charges(name)]


def audit_start(path):
    test_what_the_earlier_run_pays_later_is_not_learned_and_every_process_agrees(PrivacyLedger(path, Budget.gdp(4.0)))


@pytest.mark.filterwarnings("ignore:the run 'run, extended' starts with")
@pytest.mark.parametrize(
    ("owner", "name", "bug", "audit"),
    [
        (agreement, "added_mu", lambda whole, spent: whole, lambda path: audit_interleaving(path, BUSY)),
        (Spent, "admits", lambda *_: True, lambda path: audit_interleaving(path, [s for s in BUSY if s[1] != "raise"])),
        (replay, "inherited", everything, audit_start),
    ],
)
def test_a_budget_that_forks_and_an_answer_newer_than_the_start_are_found(
    fast_path, monkeypatch, owner, name, bug, audit
):
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises(AssertionError):
        audit(str(fast_path / "bug.db"))


# ---- what a new run may plan with ----------------------------------------------------------------------------


def test_a_new_run_leaves_what_others_have_planned(ledger):
    first = GIBO_RUN.start(ledger, mu=3.0)
    assert VALUES_RUN.start(ledger, scope="given up").plan.mu == 4.0  # it keeps nothing before its first charge
    trials(first, GIBO_RUN.trials)
    refused(BudgetExhausted, None, lambda: GIBO_RUN.start(ledger, scope="greedy", mu=3.5))
    second = GIBO_RUN.start(ledger, scope="second")
    assert second.plan.mu == pytest.approx(math.sqrt(16 - 9))  # what the first has planned and not spent stays its own
    trials(second, 1)
    before = dump(ledger)
    with pytest.raises(BudgetPlanned, match=r"'run'.*by its name.*mu=.*new ledger") as planned:
        GIBO_RUN.start(ledger, scope="again")
    refused(BudgetExhausted, None, lambda: agreement.check_start(ledger, "again", None))
    agreement.check_start(ledger, "run", None)  # has begun
    assert planned.value.runs == ("run", "second")
    assert pickle.loads(pickle.dumps(planned.value)).args == planned.value.args
    assert dump(ledger) == before
    assert GIBO_RUN.start(ledger).plan == first.plan  # it goes on as it was
    first.estimate(first.recommend(), losses_of(first.recommend(), GIBO_RUN.n))
    assert ledger.fact("again", "plan") is None


def test_an_explicit_mu_may_take_what_others_have_planned_and_says_so_once(ledger):
    trial(GIBO_RUN.start(ledger, mu=3.0), "0")
    trial(GIBO_RUN.start(ledger, scope="beside", mu=math.sqrt(7) - 1e-3), "0")  # there is room
    with pytest.warns(UserWarning, match=r"'takes' starts with mu=1\. Other runs \('beside', 'run'\)") as told:
        GIBO_RUN.start(ledger, scope="takes", mu=1.0)
    assert len(told) == 1
    GIBO_RUN.start(ledger, scope="takes", mu=1.0)  # goes on, and says nothing
    GIBO_RUN.start(ledger, scope="takes")


def test_too_little_for_a_plan_names_who_holds_the_rest_and_bad_settings_are_named_as_ever(ledger):
    trial(GIBO_RUN.start(ledger, mu=math.sqrt(16 - 1e-10)), "0")

    def plan(facts, **settings):
        if facts.mu < 0.1:
            raise InputError("mu is too small.")
        return GIBO.planner(facts, **settings)

    particular = replace(GIBO_RUN, method=Method("particular", plan, GIBO.algorithm))
    refused(BudgetPlanned, "'run'", lambda: particular.start(ledger, scope="late"))
    refused(InputError, "steps", lambda: GIBO_RUN.start(ledger, scope="wrong", steps=0))
    assert ledger.fact("late", "plan") is None
