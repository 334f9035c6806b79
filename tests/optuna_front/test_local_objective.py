"""LocalObjective: only the reply leaves the device, it is paid once, and the study says what protects its users."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from audit_tools import start_forked
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState

import dptune
from dptune.local import InsecureRandomizer, LaplaceReplies, LocalRandomizer, UserLedger
from dptune_optuna import LocalObjective
from dptune_optuna.local import randomizers_of
from harness import create, storage_of, stored, transcript
from local_harness import KINDS, SECRET, SPACE, almost_exact, at_x, counted, open_sampler, paid, users_function, usual

HASH = re.compile(r"[0-9a-f]{64}")  # of a ledger's rows, which hold when a trial began; all that they cover is compared
ODD = ["raise", "prune", "exit", "input error", "none", "text", "nan", "inf", "array"]


# ---- nothing but the reply ------------------------------------------------------------------------------


def study_of(front: str, folder: Path, function: Any, randomizer: Any, **more: Any) -> str:
    """The transcript of a small study."""

    def run(storage: Any) -> None:
        objective = LocalObjective(function, randomizer, **paid(folder, cap=100.0))
        create(storage, open_sampler(front)).optimize(objective, n_trials=6)

    return transcript(folder, run, **more)


def canned() -> LocalRandomizer:
    """What is left of the value's influence, when every reply is replaced by a constant, is a leak."""
    randomizer = usual()
    randomizer.randomize = lambda value: 0.25
    return randomizer


FRONTS = [("tgp", kind) for kind in ODD] + [(front, kind) for front in ("ata", "moma", "tpe") for kind in ODD[::6]]


@pytest.mark.parametrize(("front", "kind"), FRONTS)
def test_transcripts_of_neighbouring_values_are_byte_identical(tmp_path, front, kind):
    mine = study_of(front, tmp_path / "a", users_function("plain"), canned())
    theirs = study_of(front, tmp_path / "b", users_function(kind), canned())
    assert HASH.sub("", mine) == HASH.sub("", theirs)
    assert str(SECRET) not in theirs
    assert mine.count("finished with value") == 6


def test_the_audit_fails_on_a_planted_leak(tmp_path, monkeypatch):
    def print_and_call(function: Any, trial: Any, take: Any) -> Any:
        optuna.logging.get_logger("dptune_optuna").warning(f"measured {(value := function(trial))}")
        return value

    monkeypatch.setattr("dptune_optuna.local_objective.shielded", print_and_call)
    mine, theirs = (study_of("tgp", tmp_path / kind, users_function(kind), canned()) for kind in ("plain", "nan"))
    assert mine != theirs


@pytest.mark.parametrize("kind", ["plain", "raise", "nan", "array"])
def test_the_value_is_in_no_file_and_no_line_of_a_real_run(tmp_path, kind):
    values: list[float] = []

    def measure(trial):
        values.append(SECRET * trial.suggest_float("x", 0, 1))
        return users_function(kind)(trial)

    console = io.StringIO()
    with contextlib.redirect_stderr(console), contextlib.redirect_stdout(console):
        text = study_of("tgp", tmp_path / "a", measure, usual(), sqlite=True) + console.getvalue()
    written = b"".join(path.read_bytes() for path in (tmp_path / "a").iterdir())
    for value in filter(None, [SECRET, *values]):
        bits = np.float64(value).tobytes()
        assert repr(value) not in text
        for found in (repr(value).encode(), bits, bits[::-1]):  # the last is SQLite's order of bytes
            assert found not in written


def test_a_reply_is_the_clamped_value_plus_noise(monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", messages.append)
    study = create(None, open_sampler("tpe"))
    for value, middle in [(5.0, 1.0), (-np.inf, -1.0), (0.5, 0.5), (None, 1.0)]:
        objective = LocalObjective(lambda trial, value=value: at_x(trial, value), almost_exact())
        assert objective(study.ask()) == pytest.approx(middle, abs=1e-4)
    (described,) = randomizers_of(study)
    assert (described["mechanism"], described["private"]) == ("CTL", False)  # the study says so
    assert messages
    assert all("NOT PRIVATE" in message for message in messages)


# ---- a cap, and a reply that is paid once ---------------------------------------------------------------


def test_a_cap_ends_the_users_trials_before_anything_is_measured(tmp_path):
    whose, study = paid(tmp_path, cap=2.0), create(None, open_sampler())
    objective, calls = counted(usual(), **whose)
    with pytest.raises(dptune.errors.CapReached):
        study.optimize(objective, n_trials=5)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.FAIL]
    assert len(calls) == whose["ledger"].spent("me") == 2


def test_other_users_are_asked_when_one_has_reached_the_cap(tmp_path):
    whose = paid(tmp_path, cap=2.0) | {"user": lambda trial: str(trial.number % 3)}
    study = create(None, open_sampler())
    study.optimize(counted(usual(), **whose)[0], n_trials=12, catch=dptune.errors.CapReached)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 6 + [TrialState.FAIL] * 6
    assert [whose["ledger"].spent(str(i)) for i in range(3)] == [2.0] * 3
    assert study.sampler.run_of(study).bandit.t == 6


def test_a_retried_trial_gets_the_recorded_reply_and_pays_nothing(tmp_path):
    whose, study = paid(tmp_path), create(stored(tmp_path), open_sampler())
    objective, _ = counted(usual(), **whose)
    lost = study.ask()
    reply = objective(lost)  # the process dies before it can tell
    study.tell(lost, state=TrialState.FAIL)
    RetryHeartbeatStaleTrialCallback()(study, study.trials[0])
    study.optimize(objective, n_trials=2)
    assert study.trials[1].value == reply != study.trials[2].value
    assert study.trials[1].params == study.trials[0].params
    assert whose["ledger"].spent("me") == 2.0


def test_an_interrupt_passes_and_the_retry_measures(tmp_path):
    whose, study, raised = paid(tmp_path, cap=1e7), create(None, open_sampler("tpe")), []

    def measure(trial):
        if not raised:
            raised.append(1)
            raise KeyboardInterrupt
        return at_x(trial, 1.0)

    objective, trial = LocalObjective(measure, almost_exact(), **whose), study.ask()
    with pytest.raises(KeyboardInterrupt):
        objective(trial)
    assert objective(trial) == pytest.approx(1.0, abs=1e-4)
    assert whose["ledger"].spent("me") == 1e6  # once


def test_a_new_study_of_the_same_name_gets_replies_of_its_own(tmp_path):
    whose = paid(tmp_path)
    first, second = (create(None, open_sampler()) for _ in range(2))
    for study in (first, second):
        study.optimize(counted(usual(), **whose)[0], n_trials=1)
    assert first.trials[0].value != second.trials[0].value
    assert whose["ledger"].spent("me") == 2.0


WORKER = """
    from test_local_objective import *
    study = create("sqlite:///" + {folder!r} + "/s.db", open_sampler())
    objective, _ = counted(usual(), **paid(Path({folder!r}), cap=5.0))
    study.optimize(objective, n_trials=6, catch=dptune.errors.CapReached)
"""


def test_two_processes_never_pass_a_users_cap(tmp_path):
    study = create(f"sqlite:///{tmp_path}/s.db", open_sampler())
    UserLedger(tmp_path / "u.db", cap=5.0)
    code = textwrap.dedent(WORKER).format(folder=str(tmp_path))
    for worker in [start_forked(code) for _ in range(2)]:
        ended = worker.wait()
        assert ended.returncode == 0, ended.stdout
    states = [t.state for t in study.trials]
    assert (states.count(TrialState.COMPLETE), states.count(TrialState.FAIL)) == (
        5,
        2,
    )  # each process stops when its user is at the cap
    assert UserLedger(tmp_path / "u.db").spent("me") == 5.0


# ---- what the study says of its randomiser --------------------------------------------------------------


def test_every_study_says_what_protects_its_users():
    randomizer = LocalRandomizer(1.0, (0.0, 2.0), invalid=1.5)
    storage = optuna.storages.InMemoryStorage()
    for _ in range(2):  # of one name and one storage
        study = create(storage, open_sampler())
        study.optimize(counted(randomizer)[0], n_trials=2)
        assert randomizers_of(study) == [randomizer.describe()]
        optuna.delete_study(study_name="study", storage=storage)


OTHERS = [
    lambda: InsecureRandomizer(1.0, 1.0, invalid=1.0, insecure_seed=0),
    lambda: LocalRandomizer(4.0, 1.0, invalid=1.0),
    lambda: LocalRandomizer(1.0, 2.0, invalid=1.0),
    lambda: LocalRandomizer(1.0, 1.0, invalid=0.5),
]


@pytest.mark.parametrize("insecure_first", [False, True])
@pytest.mark.parametrize("other", OTHERS)
def test_another_randomiser_is_refused_before_anything_is_measured(tmp_path, other, insecure_first):
    first, second = (make() for make in ((other, usual) if insecure_first else (usual, other)))
    create(stored(tmp_path), open_sampler("tpe")).optimize(counted(first)[0], n_trials=2)
    study = create(stored(tmp_path), open_sampler("tpe"))
    objective, calls = counted(second)
    with pytest.raises(dptune.InputError, match="another randomiser"):
        study.optimize(objective, n_trials=1)
    assert calls == []
    assert randomizers_of(study) == [first.describe()]
    study.optimize(counted(first)[0], n_trials=1)
    assert study.trials[-1].state == TrialState.COMPLETE


def test_not_private_never_disappears_however_two_processes_begin(monkeypatch):
    study, insecure = create(None, open_sampler()), OTHERS[0]()
    original = optuna.Study.set_user_attr

    def late(self: Any, *args: Any) -> None:  # between the other's look and its writing
        monkeypatch.setattr(optuna.Study, "set_user_attr", original)
        counted(insecure)[0](study.ask())
        original(self, *args)

    monkeypatch.setattr(optuna.Study, "set_user_attr", late)
    objective, calls = counted(usual())
    with pytest.raises(dptune.InputError, match="another randomiser"):
        objective(study.ask())
    assert calls == []
    assert any(described["private"] is False for described in randomizers_of(study))


@pytest.mark.parametrize(("direction", "invalid"), [("minimize", 0.0), ("minimize", None), ("maximize", 10.0)])
def test_a_failing_setting_may_not_win(tmp_path, direction, invalid):
    study, whose = optuna.create_study(direction=direction), paid(tmp_path)
    objective, calls = counted(LocalRandomizer(1.0, (0.0, 10.0), invalid=invalid), **whose)
    with pytest.raises(dptune.InputError, match="would win"):
        study.optimize(objective, n_trials=1)
    assert (calls, whose["ledger"].spent("me"), randomizers_of(study)) == ([], 0.0, [])


@pytest.mark.parametrize(("direction", "invalid"), [("minimize", 10.0), ("minimize", 5.0), ("maximize", None)])
def test_failing_settings_lose(direction, invalid):
    study = optuna.create_study(direction=direction)

    def measure(trial):
        if trial.number % 2:
            raise ValueError
        return 5.5 if direction == "maximize" else 4.5

    study.optimize(LocalObjective(measure, almost_exact((0.0, 10.0), invalid)), n_trials=4)
    assert study.best_trial.number % 2 == 0


@pytest.mark.parametrize("storage", ["memory", "journal"])
@pytest.mark.parametrize("space", [SPACE, None])
@pytest.mark.parametrize("told_before", [False, True])  # replies from elsewhere are read again
def test_the_sampler_takes_the_centre_from_the_study(tmp_path, storage, space, told_before):
    def opened(**more: Any) -> Any:
        return open_sampler("tgp", LaplaceReplies(1.0, B=4.0, R=1.0), space=space, **more)

    study, randomizer = (
        create(storage_of(storage, tmp_path), opened()),
        LocalRandomizer(1.0, (95.0, 105.0), invalid=105),
    )
    if told_before:
        study.optimize(lambda trial: randomizer.randomize(100.0 + trial.suggest_float("x", 0, 1)), n_trials=5)
    study.optimize(LocalObjective(lambda trial: 100.0 + trial.suggest_float("x", 0, 1), randomizer), n_trials=8)
    told = opened(centre=100.0).run_of(study).bandit.mean()
    assert study.sampler.run_of(study).bandit.mean().tolist() == told.tolist()
    assert np.abs(told).max() < 20
    with pytest.raises(dptune.InputError, match="centre"):
        opened(centre=0.0).recommend(study)


MISREAD = {  # by samplers whose users have epsilon 2 and an interval of half-width 1000
    "width": ({"replies": LaplaceReplies(1.0, B=800.0, R=200.0)}, "epsilon=1.0 and B"),
    "epsilon": ({"replies": LaplaceReplies(2.0, B=0.8, R=0.2)}, "B . R = 1.0"),
    "centre": ({"replies": LaplaceReplies(2.0, B=800.0, R=200.0), "centre": 1.0}, r"the middle 0\.0"),
}


@pytest.mark.parametrize("case", MISREAD)
@pytest.mark.parametrize("kind", [*KINDS, "wrapped"])
def test_a_sampler_for_other_replies_is_refused_before_any_user_is_asked(tmp_path, kind, case):
    (wrong, says), whose = MISREAD[case], paid(tmp_path)
    sampler = open_sampler("tgp" if kind == "wrapped" else kind, **wrong)
    if kind == "wrapped":
        sampler = optuna.samplers.PartialFixedSampler({}, sampler)
    study, randomizer = optuna.create_study(sampler=sampler), LocalRandomizer(2.0, 1000.0, invalid=1000.0)
    objective, calls = counted(randomizer, **whose)
    with pytest.raises(dptune.InputError, match=says):
        study.optimize(objective, n_trials=1)
    assert (calls, whose["ledger"].spent("me"), randomizers_of(study)) == ([], 0, [])
    if kind == "tgp":  # nor does it go on with a study that another sampler began
        study.sampler = open_sampler("tgp", LaplaceReplies(2.0, B=800.0, R=200.0))
        study.optimize(objective, n_trials=2)
        study.sampler = sampler
        for use in (lambda: study.ask(SPACE), lambda: sampler.recommend(study)):
            with pytest.raises(dptune.InputError, match=says):
                use()


def test_what_a_randomiser_does_not_state_is_not_compared():
    study, randomizer = optuna.create_study(sampler=open_sampler(), direction="maximize"), LocalRandomizer(1.0, 1.0)
    randomizer.describe = lambda: {"mechanism": "own"}
    study.optimize(counted(randomizer)[0], n_trials=2)


# ---- public mistakes -----------------------------------------------------------------------------------


def test_wrong_settings_are_refused(tmp_path):
    for wrong, says in (({"function": 3}, "function"), ({"user": "me"}, "together")):
        with pytest.raises(dptune.InputError, match=says):
            LocalObjective(**{"function": users_function("plain"), "randomizer": usual(), **wrong})
    several = optuna.create_study(directions=["minimize", "maximize"])
    objective, calls = counted(usual())
    with pytest.raises(dptune.InputError, match="one direction"):
        several.optimize(objective, n_trials=1)
    assert calls == []


def test_trying_out_shows_the_functions_errors():
    LocalObjective(users_function("plain"), usual()).try_out({"x": 0.5})
    for kind, error in (("raise", ValueError), ("none", TypeError)):
        with pytest.raises(error):
            LocalObjective(users_function(kind), usual()).try_out({"x": 0.5})


@pytest.mark.parametrize(("name", "high"), [("xx", 1.0), ("x", 0.5)])
@pytest.mark.parametrize("with_ledger", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_does_not_suggest_what_is_searched_is_refused_and_sends_nothing(
    tmp_path, kind, with_ledger, name, high
):
    whose = paid(tmp_path)
    objective = LocalObjective(
        lambda trial: trial.suggest_float(name, 0, high), usual(), **(whose if with_ledger else {})
    )
    study = create(None, optuna.samplers.PartialFixedSampler({}, open_sampler(kind)))
    with pytest.raises(dptune.InputError, match=f"parameter 'x'.*FloatDistribution.*suggested.*{name}?"):
        study.optimize(objective, n_trials=5)
    assert [(t.state, t.value) for t in study.trials] == [(TrialState.FAIL, None)]
    assert whose["ledger"].spent("me") <= 1.0  # charged before its function may be called, and once


def test_without_a_space_a_parameter_that_comes_and_goes_is_no_mistake():
    study = create(None, open_sampler(space=None, warn_independent_sampling=False))

    def function(trial):
        if trial.number % 2 == 0:
            trial.suggest_float("even", 0, 1)
        return at_x(trial, 0.5)

    study.optimize(LocalObjective(function, usual()), n_trials=4)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 4
