"""Whoever has the ledger alone comes to the run's own recommendation, at every moment, and pays nothing for it."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from dptune import PrivacyLedger
from dptune.search import GradientDescent
from dptune.search.view import RunView
from runs import (
    CENTRED_RUN,
    GIBO_RUN,
    MIXED_RUN,
    SELECTION_RUN,
    TOY_RUN,
    VALUES_RUN,
    readable,
    to_the_end,
    trial,
    trials,
)

DEFAULT = {"a": 0.3, "b": 1.0}
MIXED_DEFAULT = {**DEFAULT, "kind": "x", "fixed": 7}  # "c" is not active


@pytest.mark.parametrize(
    ("kind", "default"),
    [(MIXED_RUN, MIXED_DEFAULT), (GIBO_RUN, None), (SELECTION_RUN, DEFAULT), (VALUES_RUN, None)],
    ids=readable,
)
def test_at_every_trial_the_ledger_alone_says_what_the_run_says(ledger, kind, default):
    run, number, known = kind.start(ledger, seed=1, default=default), 0, 0
    seen = RunView.of(ledger, "run")
    assert seen.so_far() is None
    assert seen.default == default
    while not run.complete:
        if run.space is None:
            run.finish(str(number), {"a": 0.1 * number}, np.full(kind.n, 0.1 * number))
        else:
            trial(run, str(number))
        number += 1
        here, there = run.so_far(), seen.so_far()
        assert here == there
        known += here is not None
        if here is not None and there is not None:
            assert (here.defaults, here.improvement) == (there.defaults, there.improvement)
    paid = ledger.count()
    again = RunView.of(PrivacyLedger(ledger.url.database), "run")
    assert again.recommend() == run.recommend()
    assert again.complete
    assert ledger.count() == paid
    assert known >= 1


def test_an_extension_is_followed_and_knows_that_what_it_begins_with_was_found_worse(ledger):
    run = to_the_end(CENTRED_RUN.start(ledger, mu=3.0, seed=1, default=DEFAULT, choice_share=0.0))
    found, n = run.recommend(), run.privatizer.n
    more = run.extend(trials=2 * run.trials, mu=4.0)
    seen = RunView.of(ledger, more.scope)
    assert seen.so_far() == more.so_far() == found != DEFAULT
    assert run.estimate(found, np.ones(n), default=np.zeros(n)).improvement.verdict == "worse"
    assert run.recommend() == more.recommend() == seen.recommend() == DEFAULT


def test_watching_writes_nothing_so_it_needs_no_right_to_and_waits_for_nobody(ledger):
    trials(CENTRED_RUN.start(ledger, seed=1), 5)
    with closing(sqlite3.connect(str(ledger.url.database))) as writer:
        writer.execute("BEGIN IMMEDIATE")  # nobody else can write
        seen = RunView.of(PrivacyLedger(ledger.url.database), "run")
        assert seen.so_far() is not None


def test_what_is_the_users_own_or_of_another_version_is_not_guessed(ledger):
    class MyRule(GradientDescent):
        pass

    CENTRED_RUN.start(ledger, mu=1.0)
    stored, people = ledger.fact("run", "plan"), ledger.fact("run", "privatizer")
    for scope, more in (("copy", {}), ("later", {"unheard": 1})):
        ledger.fix_plan(scope, lambda _, more=more: {**stored, "settings": {**stored["settings"], **more}})
        ledger.fix(scope, "privatizer", people)
    replace(GIBO_RUN, n=CENTRED_RUN.n).start(ledger, scope="rule", rule=MyRule(0.1), mu=1.0)
    replace(TOY_RUN, n=CENTRED_RUN.n).start(ledger, scope="method", mu=1.0)
    scopes = ("copy", "later", "rule", "method", "nobody's")
    assert [RunView.of(ledger, scope) is not None for scope in scopes] == [True, False, False, False, False]
