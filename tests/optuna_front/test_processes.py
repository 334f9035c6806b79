"""A study survives SIGKILL, and two processes may work on one study."""

import itertools
import math
import os
import random
import signal
from pathlib import Path

import pytest
from optuna.trial import TrialState

import dptune
from audit_tools import start_forked
from dptune.privacy.stored_losses import StoredLosses
from harness import OPEN, create, objective_of, open_ledger, open_privatizer, open_sampler, stored

PLACES = {  # where a process dies: before or after a call
    "between charge and draw": (StoredLosses, "mean", "before"),
    "between draw and record": (dptune.PrivacyLedger, "record", "before"),
    "after record": (dptune.PrivacyLedger, "record", "after"),
}


def work(folder, opener, where, at, planned):
    """Optimise the study; die at the so-manieth call."""
    calls = itertools.count(1)

    def die(when):
        if when == moment and next(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    if where:
        owner, name, moment = PLACES[where]
        original = getattr(owner, name)

        def dying(self, *args, **more):
            die("before")
            result = original(self, *args, **more)
            die("after")
            return result

        setattr(owner, name, dying)
    folder = Path(folder)
    sampler = OPEN[opener](open_privatizer(folder), n_trials=planned)
    create(stored(folder), sampler).optimize(objective_of(sampler), n_trials=40)


def start(folder, opener, where=None, at=0, planned=24):
    return start_forked(f"from test_processes import *\nwork({str(folder)!r}, {opener!r}, {where!r}, {at}, {planned})")


@pytest.mark.parametrize(
    ("where", "opener", "at"),
    [
        ("between charge and draw", "gibo", 12),  # inside a later step
        ("between draw and record", "centred", 2),  # a centred mean
        ("after record", "gibo", 5),  # the comparison of the starts or a value
    ],
)
@pytest.mark.filterwarnings("ignore:24 trials have ended")  # those that the killed process held are missing
def test_after_kill_9_the_charges_stand_and_recorded_values_are_replayed(tmp_path, where, opener, at):
    process = start(tmp_path, opener, where, at)
    assert process.wait().returncode == -signal.SIGKILL
    before = open_ledger(tmp_path).charges()
    assert len(before) == at
    assert sum(c.value is None for c in before) == (where != "after record")

    sampler = OPEN[opener](open_privatizer(tmp_path))
    study = create(stored(tmp_path), sampler)
    study.optimize(objective_of(sampler), n_trials=60)
    after = open_ledger(tmp_path).charges()
    for old, new in zip(before, after, strict=False):
        assert (new.seq, new.key, new.mu) == (old.seq, old.key, old.mu)
        assert old.value is None or new.value == old.value
    assert sampler.run_of(study).complete
    assert open_ledger(tmp_path).spent() <= 1.0


@pytest.mark.parametrize("opener", OPEN)
def test_two_processes_on_one_study_share_questions_and_budget(tmp_path, opener):
    sampler = OPEN[opener](open_privatizer(tmp_path), n_trials=12)
    study = create(stored(tmp_path), sampler)
    ended = [worker.wait() for worker in [start(tmp_path, opener, planned=12) for _ in range(2)]]
    assert [one.returncode for one in ended] == [0, 0], ended
    run, ledger = sampler.run_of(study), open_ledger(tmp_path)
    assert run.complete
    rounds = range(1, run.algorithm.rounds + 1)
    for question in ("step",) if opener == "gibo" else ("share", "generation"):
        assert {c.key for c in ledger.charges(prefix=f"{question}/")} == {f"{question}/{i}" for i in rounds}
    if opener == "gibo":
        values = {t.value for t in study.trials if t.state == TrialState.COMPLETE}
        assert values == {c.value[0] for c in ledger.charges(prefix="value/")}
    assert ledger.spent() <= 1.0


@pytest.mark.slow
def test_two_workers_killed_again_and_again_finish_within_the_budget(tmp_path):
    """Random points of death; after each, what was recorded stands, and nothing is recorded that was not paid."""
    rng = random.Random(0)
    study, recorded = create(stored(tmp_path), open_sampler(open_privatizer(tmp_path))), {}
    for _ in range(40):
        wheres = [rng.choice(list(PLACES)) for _ in range(2)]
        workers = [start(tmp_path, "gibo", where, rng.randint(1, 8)) for where in wheres]
        ended = [worker.wait().returncode for worker in workers]
        assert {*ended} <= {0, -signal.SIGKILL}
        charges = open_ledger(tmp_path).charges()
        assert len({(c.scope, c.key) for c in charges}) == len(charges)
        assert math.fsum(c.mu**2 for c in charges) <= 1.0 + 1e-9
        now = {c.seq: c.value for c in charges}
        assert all(now[seq] == value for seq, value in recorded.items() if value is not None)
        recorded = now
        if not any(ended):  # neither died: the run has ended
            break
    else:
        pytest.fail("40 rounds did not end the run")
    values = {c.value[0] for c in open_ledger(tmp_path).charges(prefix="value/") if c.value is not None}
    assert {t.value for t in study.trials if t.state == TrialState.COMPLETE} <= values
