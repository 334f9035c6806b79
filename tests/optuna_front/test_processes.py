"""Kill -9 in the middle of a study, and two processes on one study."""

from __future__ import annotations

import math
import random
import signal
import textwrap
from pathlib import Path

import pytest
from audit_tools import Forked, start_forked
from optuna.trial import TrialState

from harness import create, objective_of, open_centred, open_ledger, open_privatizer, open_sampler

WORKER = """
    import os, signal, sys
    from pathlib import Path
    import dptune, optuna
    from dptune.privacy.stored_losses import StoredLosses
    from harness import create, objective_of, open_privatizer, {opener} as open_sampler

    folder, where, at, trials = Path({folder!r}), {where!r}, {at}, {trials}
    count = 0

    def die(*args, **kwargs):
        global count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(cls, name):
        original = getattr(cls, name)
        def wrapped(self, *args, **kwargs):
            die()
            return original(self, *args, **kwargs)
        setattr(cls, name, wrapped)

    if where == "between charge and draw":
        before(StoredLosses, "mean")
    elif where == "between draw and record":
        before(dptune.PrivacyLedger, "record")
    elif where == "after record":
        original = dptune.PrivacyLedger.record
        def record(self, charge, value):
            recorded = original(self, charge, value)
            die()
            return recorded
        dptune.PrivacyLedger.record = record
    sampler = open_sampler(open_privatizer(folder))
    study = create(f"sqlite:///{{folder}}/s.db", sampler)
    study.optimize(objective_of(sampler), n_trials=trials)
"""


def start(folder: Path, where: str = "never", at: int = 0, trials: int = 40, opener: str = "open_sampler") -> Forked:
    code = textwrap.dedent(WORKER).format(folder=str(folder), where=where, at=at, trials=trials, opener=opener)
    return start_forked(code)


OPENERS = {"open_sampler": open_sampler, "open_centred": open_centred}
POINTS_OF_DEATH = {
    "open_sampler": (1, 5, 12),  # 5: the comparison of the starts or a value; 12: inside a later step
    "open_centred": (1, 2, 5),  # a share, a centred mean, a later share
}


WHERES = ["between charge and draw", "between draw and record", "after record"]
POINTS = [(opener, at) for opener in OPENERS for at in POINTS_OF_DEATH[opener]]
FEW = [(WHERES[0], "open_sampler", 12), (WHERES[1], "open_centred", 2), (WHERES[2], "open_sampler", 12)]
DEATHS = list(dict.fromkeys([*FEW, *((WHERES[i % 3], *point) for i, point in enumerate(POINTS))]))


@pytest.mark.parametrize(
    ("where", "opener", "at"),
    [pytest.param(*death, marks=[] if death in FEW else pytest.mark.slow) for death in DEATHS],
)
@pytest.mark.filterwarnings("ignore:24 trials have ended")  # those that the killed process held are missing
def test_after_kill_9_the_charges_stand_and_recorded_values_are_replayed(tmp_path, where, opener, at):
    process = start(tmp_path, where, at, opener=opener)
    assert process.wait().returncode == -signal.SIGKILL
    before = open_ledger(tmp_path).charges()
    assert len(before) == at
    assert sum(c.value is None for c in before) == (where != "after record")

    sampler = OPENERS[opener](open_privatizer(tmp_path))
    study = create(f"sqlite:///{tmp_path}/s.db", sampler)
    study.optimize(objective_of(sampler), n_trials=60)
    after = open_ledger(tmp_path).charges()
    for old, new in zip(before, after, strict=False):
        assert (new.seq, new.key, new.mu) == (old.seq, old.key, old.mu)
        assert old.value is None or new.value == old.value
    assert sampler.run_of(study).complete
    assert open_ledger(tmp_path).spent() <= 1.0


@pytest.mark.parametrize("opener", OPENERS)
def test_two_processes_on_one_study_share_questions_and_budget(tmp_path, opener):
    sampler = OPENERS[opener](open_privatizer(tmp_path))
    study = create(f"sqlite:///{tmp_path}/s.db", sampler)
    workers = [start(tmp_path, opener=opener) for _ in range(2)]
    ended = [worker.wait() for worker in workers]
    assert [one.returncode for one in ended] == [0, 0], ended
    run, ledger = sampler.run_of(study), open_ledger(tmp_path)
    assert run.complete
    questions = ("step",) if opener == "open_sampler" else ("share", "generation")
    rounds = range(1, run.algorithm.rounds + 1)
    for question in questions:
        assert {c.key for c in ledger.charges(prefix=f"{question}/")} == {f"{question}/{i}" for i in rounds}
    if opener == "open_sampler":
        values = {t.value for t in study.trials if t.state == TrialState.COMPLETE}
        assert values == {c.value[0] for c in ledger.charges(prefix="value/")}
    assert ledger.spent() <= 1.0


@pytest.mark.slow
def test_two_workers_killed_again_and_again_finish_within_the_budget(tmp_path):
    """Random points of death; after each, what was recorded stands, and nothing is recorded that was not paid."""
    rng = random.Random(0)
    sampler, storage = open_sampler(open_privatizer(tmp_path)), f"sqlite:///{tmp_path}/s.db"
    study, recorded = create(storage, sampler), {}
    for _ in range(40):
        wheres = [rng.choice(WHERES) for _ in range(2)]
        workers = [start(tmp_path, where, at=rng.randint(1, 8)) for where in wheres]
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
