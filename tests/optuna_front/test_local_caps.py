"""LocalObjective and the users' ledger: a cap ends a user's trials, and a reply is paid once."""

from __future__ import annotations

import textwrap

import pytest
from audit_tools import start_forked
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState

import dptune
from dptune.local import InsecureRandomizer, LocalRandomizer, UserLedger
from dptune_optuna import LocalObjective
from harness import create, stored
from local_harness import at_x, open_sampler, users_function


def test_a_cap_ends_the_users_trials_before_anything_is_measured(tmp_path):
    ledger, calls = UserLedger(tmp_path / "u.db", cap=2.0), []
    study = create(None, open_sampler())
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    objective = LocalObjective(lambda trial: calls.append(1) or at_x(trial, 0.5), randomizer, ledger=ledger, user="me")
    with pytest.raises(dptune.errors.CapReached):
        study.optimize(objective, n_trials=5)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.FAIL]
    assert len(calls) == 2
    assert ledger.spent("me") == 2.0


def test_other_users_are_asked_when_one_has_reached_the_cap(tmp_path):
    ledger = UserLedger(tmp_path / "u.db", cap=2.0)
    study = create(None, open_sampler())
    objective = LocalObjective(
        users_function("plain"),
        LocalRandomizer(1.0, 1.0, invalid=1.0),
        ledger=ledger,
        user=lambda trial: str(trial.number % 3),
    )
    study.optimize(objective, n_trials=12, catch=dptune.errors.CapReached)
    states = [t.state for t in study.trials]
    assert states == [TrialState.COMPLETE] * 6 + [TrialState.FAIL] * 6
    assert [ledger.spent(str(i)) for i in range(3)] == [2.0] * 3
    assert study.sampler.run_of(study).bandit.t == 6


def test_a_retried_trial_gets_the_recorded_reply_and_pays_nothing(tmp_path):
    ledger = UserLedger(tmp_path / "u.db", cap=10.0)
    study = create(stored(tmp_path), open_sampler())
    objective = LocalObjective(
        users_function("plain"), LocalRandomizer(1.0, 1.0, invalid=1.0), ledger=ledger, user="me"
    )
    lost = study.ask()
    reply = objective(lost)  # the process dies before it can tell
    study.tell(lost, state=TrialState.FAIL)
    RetryHeartbeatStaleTrialCallback()(study, study.trials[0])
    study.optimize(objective, n_trials=2)
    assert study.trials[1].value == reply
    assert study.trials[1].params == study.trials[0].params
    assert study.trials[2].value != reply
    assert ledger.spent("me") == 2.0


def test_an_interrupt_passes_and_the_retry_measures(tmp_path):
    ledger = UserLedger(tmp_path / "u.db", cap=1e7)
    study, raised = create(None, open_sampler("tpe")), []

    def measure(trial):
        if not raised:
            raised.append(1)
            raise KeyboardInterrupt
        return at_x(trial, 1.0)

    objective = LocalObjective(
        measure, InsecureRandomizer(1e6, 1.0, invalid=1.0, insecure_seed=0), ledger=ledger, user="me"
    )
    trial = study.ask()
    with pytest.raises(KeyboardInterrupt):
        objective(trial)
    assert objective(trial) == pytest.approx(1.0, abs=1e-4)
    assert ledger.spent("me") == 1e6  # once


def test_a_new_study_of_the_same_name_gets_replies_of_its_own(tmp_path):
    ledger = UserLedger(tmp_path / "u.db", cap=10.0)
    objective = LocalObjective(
        users_function("plain"), LocalRandomizer(1.0, 1.0, invalid=1.0), ledger=ledger, user="me"
    )
    first, second = (create(None, open_sampler()) for _ in range(2))
    first.optimize(objective, n_trials=1)
    second.optimize(objective, n_trials=1)
    assert first.trials[0].value != second.trials[0].value
    assert ledger.spent("me") == 2.0


WORKER = """
    from test_local_caps import *
    ledger = UserLedger({folder!r} + "/u.db", cap=5.0)
    study = create("sqlite:///" + {folder!r} + "/s.db", open_sampler())
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    objective = LocalObjective(users_function("plain"), randomizer, ledger=ledger, user="me")
    study.optimize(objective, n_trials=6, catch=dptune.errors.CapReached)
"""


def test_two_processes_never_pass_a_users_cap(tmp_path):
    create(f"sqlite:///{tmp_path}/s.db", open_sampler())
    UserLedger(tmp_path / "u.db", cap=5.0)
    code = textwrap.dedent(WORKER).format(folder=str(tmp_path))
    for worker in [start_forked(code) for _ in range(2)]:
        ended = worker.wait()
        assert ended.returncode == 0, ended.stdout
    study = create(f"sqlite:///{tmp_path}/s.db", open_sampler())
    states = [t.state for t in study.trials]
    assert (states.count(TrialState.COMPLETE), states.count(TrialState.FAIL)) == (5, 7)
    assert UserLedger(tmp_path / "u.db").spent("me") == 5.0
