"""Whoever has the ledger alone comes to the run's own recommendation, at every moment, and pays nothing for it."""

from __future__ import annotations

from typing import Any

import centred_runs
import gibo_runs
import mixed_runs
import numpy as np
import pytest
import toy_runs
from run_harness import begin, trial

from dptune import PrivacyLedger, SearchRun
from dptune.algorithms import VALUES, GradientDescent
from dptune.algorithms.asks_nothing import SELECTION
from dptune.search import agreement, view
from dptune.search.view import RunView

DEFAULT = {"a": 0.3, "b": 1.0}
MIXED_DEFAULT = {**DEFAULT, "kind": "x", "fixed": 7}  # "c" is not active


def values(ledger: PrivacyLedger, **change: Any) -> SearchRun:
    return begin(VALUES, ledger, 20, trials=6, space=None, **change)


def play(run: SearchRun, name: str) -> None:
    if run.space is None:
        run.finish(name, {"a": 0.1 * int(name)}, np.full(20, 0.1 * int(name)))
    else:
        trial(run, name)


@pytest.mark.parametrize(
    ("start", "default"),
    [
        (centred_runs.start, DEFAULT),
        (mixed_runs.start, MIXED_DEFAULT),
        (gibo_runs.start, None),
        (lambda ledger, **change: begin(SELECTION, ledger, 20, trials=5, **change), DEFAULT),
        (values, None),
    ],
    ids=["centred", "mixed", "gibo", "selection", "values"],
)
def test_at_every_trial_the_ledger_alone_says_what_the_run_says(
    ledger: PrivacyLedger, start: Any, default: dict[str, Any] | None
) -> None:
    run, number, known = start(ledger, seed=1, default=default), 0, 0
    seen = RunView.of(ledger, "run")
    assert seen is not None
    assert seen.so_far() is None
    assert seen.default == default
    while not run.complete:
        play(run, str(number))
        number += 1
        here, there = run.so_far(), seen.so_far()
        assert here == there
        known += here is not None
        if here is not None and there is not None:
            assert here.defaults == there.defaults
            assert here.improvement == there.improvement
    paid = ledger.count()
    again = RunView.of(PrivacyLedger(ledger.url.database), "run")
    assert again is not None
    assert again.recommend() == run.recommend()
    assert again.complete
    assert ledger.count() == paid
    assert known >= 1


def test_an_extension_is_followed_too(ledger: PrivacyLedger) -> None:
    run = centred_runs.start(ledger, mu=0.6, seed=1, default=DEFAULT)
    while not run.complete:
        trial(run, f"{ledger.count()} {len(run.privatizer.points())}")
    more = run.extend(trials=2 * run.trials, mu=1.0)
    seen = RunView.of(ledger, more.scope)
    assert seen is not None
    assert seen.so_far() == more.so_far() == run.recommend()


def test_an_extension_knows_that_what_it_begins_with_was_found_worse_than_the_default(ledger: PrivacyLedger) -> None:
    run = centred_runs.start(ledger, mu=3.0, seed=1, default=DEFAULT, choice_share=0.0)
    while not run.complete:
        trial(run, f"{ledger.count()} {len(run.privatizer.points())}")
    found, n = run.recommend(), run.privatizer.n
    assert found != DEFAULT
    assert run.estimate(found, np.ones(n), default=np.zeros(n)).improvement.verdict == "worse"
    assert run.recommend() == run.extend(trials=2 * run.trials, mu=4.0).recommend() == DEFAULT


def test_what_is_the_users_own_is_not_guessed(ledger: PrivacyLedger) -> None:
    class MyRule(GradientDescent):
        pass

    gibo_runs.start(ledger, scope="rule", rule=MyRule(0.1))
    for scope in ("rule", "nobody's"):
        assert RunView.of(ledger, scope) is None


def test_nor_is_a_method_of_the_users_own(ledger: PrivacyLedger) -> None:
    toy_runs.start(ledger)
    assert RunView.of(ledger, "run") is None


def test_watching_writes_nothing_so_it_needs_no_right_to_and_waits_for_nobody(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = centred_runs.start(ledger, seed=1)
    for name in map(str, range(run.algorithm.batch)):
        trial(run, name)
    true = PrivacyLedger._transaction

    def read_only(self: PrivacyLedger, *, write: bool) -> Any:
        assert not write
        return true(self, write=write)

    monkeypatch.setattr(PrivacyLedger, "_transaction", read_only)
    seen = RunView.of(PrivacyLedger(ledger.url.database), "run")
    assert seen is not None
    assert seen.so_far() is not None


@pytest.mark.parametrize("change", [{"unheard": 1}, {"reach": 0.3, "sigma": None}], ids=["more", "other"])
def test_nor_is_a_plan_of_another_version(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    centred_runs.start(ledger)
    stored = agreement.stored_plan(ledger, "run")
    assert stored is not None
    stored["settings"] = {k: v for k, v in {**stored["settings"], **change}.items() if v is not None}
    monkeypatch.setattr(view, "stored_plan", lambda *_: stored)
    assert RunView.of(ledger, "run") is None
