"""LocalObjective: only the reply leaves the device, whatever the user's function does."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState

import dptune
from dptune.local import InsecureRandomizer, LocalRandomizer, UserLedger
from dptune_optuna import LDPATASampler, LDPMoMASampler, LDPTGPSampler, LocalObjective
from dptune_optuna.promise import promises
from harness import create, transcript

SECRET = 0.123456789
SPACE = {"x": FloatDistribution(0.0, 1.0)}
SAMPLERS = {
    "tgp": LDPTGPSampler,
    "ata": LDPATASampler,
    "moma": LDPMoMASampler,
    "tpe": lambda *args, **more: optuna.samplers.TPESampler(seed=2),
}


def open_sampler(kind: str = "tgp") -> Any:
    settings = dptune.LDPSettings(dptune.LaplaceReplies(1.0, B=0.8, R=0.2), plays=2)
    return SAMPLERS[kind](SPACE, settings, count=16, seed=1)


def at_x(trial: Any, value: Any) -> Any:
    """A value measured at the trial's x."""
    trial.suggest_float("x", 0, 1)
    return value


def users_function(kind: str) -> Any:
    """The user's code on somebody's device; ``kind`` says whose."""

    def measure(trial):
        x = trial.suggest_float("x", 0, 1)
        if kind == "raise":
            raise ValueError(f"the value is {SECRET}")
        if kind == "prune":
            raise optuna.TrialPruned(f"the value is {SECRET}")
        if kind == "exit":
            sys.exit(f"the value is {SECRET}")
        if kind == "input error":
            raise dptune.InputError(f"the value is {SECRET}")
        odd = {"none": None, "text": str(SECRET), "nan": np.nan, "inf": np.inf, "array": np.array([SECRET, 2.0])}
        return odd[kind] if kind in odd else SECRET * x

    return measure


KINDS = ["raise", "prune", "exit", "input error", "none", "text", "nan", "inf", "array"]


def study_of(front: str, folder: Path, kind: str, randomizer: Any) -> Any:
    def run(storage: str) -> None:
        ledger = UserLedger(folder / "ledger.db", cap=100.0)
        objective = LocalObjective(users_function(kind), randomizer(), ledger=ledger, user="somebody")
        create(storage, open_sampler(front)).optimize(objective, n_trials=12)

    return run


def canned() -> LocalRandomizer:
    """What is left of the value's influence, when every reply is replaced by a constant, is a leak."""
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    randomizer.randomize = lambda value: 0.25
    return randomizer


FRONTS = [("tgp", kind) for kind in KINDS] + [(front, kind) for front in SAMPLERS for kind in ("raise", "nan")][2:]


@pytest.mark.parametrize(("front", "kind"), FRONTS)
def test_transcripts_of_neighbouring_values_are_byte_identical(tmp_path, front, kind):
    mine = transcript(tmp_path / "a", study_of(front, tmp_path / "a", "plain", canned))
    theirs = transcript(tmp_path / "b", study_of(front, tmp_path / "b", kind, canned))
    assert mine == theirs
    assert str(SECRET) not in theirs
    assert mine.count("finished with value") == 12


def test_the_audit_fails_on_a_planted_leak(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "dptune_optuna.local_objective.shielded", lambda function, trial, take: print_and_call(function, trial)
    )

    def print_and_call(function: Any, trial: Any) -> Any:
        optuna.logging.get_logger("dptune_optuna").warning(f"measured {(value := function(trial))}")
        return value

    mine = transcript(tmp_path / "a", study_of("tgp", tmp_path / "a", "plain", canned))
    theirs = transcript(tmp_path / "b", study_of("tgp", tmp_path / "b", "nan", canned))
    assert mine != theirs


@pytest.mark.parametrize("kind", ["plain", *KINDS])
def test_the_value_is_in_no_file_and_no_line_of_a_real_run(tmp_path, kind):
    values: list[float] = []
    function = users_function(kind)

    def measure(trial):
        values.append(SECRET * trial.suggest_float("x", 0, 1))
        return function(trial)

    def run(storage: str) -> None:
        ledger = UserLedger(tmp_path / "a" / "ledger.db", cap=100.0)
        objective = LocalObjective(measure, LocalRandomizer(1.0, 1.0, invalid=1.0), ledger=ledger, user="somebody")
        create(storage, open_sampler()).optimize(objective, n_trials=8)

    console = io.StringIO()
    with contextlib.redirect_stderr(console), contextlib.redirect_stdout(console):
        text = transcript(tmp_path / "a", run) + console.getvalue()
    written = b"".join(path.read_bytes() for path in (tmp_path / "a").iterdir())
    for value in [SECRET, *values]:
        if value:
            assert repr(value) not in text
            assert repr(value).encode() not in written
            assert np.float64(value).tobytes() not in written
            assert np.float64(value).tobytes()[::-1] not in written  # SQLite's order of bytes


def test_a_reply_is_the_clamped_value_plus_noise(monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", messages.append)
    study = create(None, open_sampler("tpe"))
    for value, middle in [(5.0, 1.0), (-np.inf, -1.0), (0.5, 0.5), (None, 1.0)]:
        objective = LocalObjective(
            lambda trial, value=value: at_x(trial, value), InsecureRandomizer(1e6, 1.0, invalid=1.0, insecure_seed=0)
        )
        assert objective(study.ask()) == pytest.approx(middle, abs=1e-4)
    (described,) = promises(study)
    assert described["mechanism"] == "CTL"
    assert described["private"] is False  # the study says so
    assert all("NOT PRIVATE" in message for message in messages)
    assert messages


# ---- what the study says of its randomiser ----------------------------------------------------------------


def counted(randomizer: Any) -> tuple[LocalObjective, list[int]]:
    """An objective and the trials in which its function was called."""
    calls: list[int] = []
    return LocalObjective(lambda trial: calls.append(trial.number) or at_x(trial, 0.5), randomizer), calls


def test_every_study_says_what_protects_its_users():
    randomizer = LocalRandomizer(1.0, (0.0, 2.0), invalid=1.5)
    objective, _ = counted(randomizer)
    storage = optuna.storages.InMemoryStorage()
    for _ in range(2):  # of one name and one storage
        study = create(storage, open_sampler())
        study.optimize(objective, n_trials=2)
        assert promises(study) == [randomizer.describe()]
        optuna.delete_study(study_name="study", storage=storage)
    for name in ("study", "another"):
        other = create(None, open_sampler(), name)
        other.optimize(objective, n_trials=1)
        assert promises(other) == [randomizer.describe()]


OTHERS = [
    lambda: InsecureRandomizer(1.0, 1.0, invalid=1.0, insecure_seed=0),
    lambda: LocalRandomizer(4.0, 1.0, invalid=1.0),
    lambda: LocalRandomizer(1.0, 2.0, invalid=1.0),
    lambda: LocalRandomizer(1.0, 1.0, invalid=0.5),
]


@pytest.mark.parametrize("insecure_first", [False, True])
@pytest.mark.parametrize("other", OTHERS)
def test_another_randomiser_is_refused_before_anything_is_measured(tmp_path, other, insecure_first):
    makers = [lambda: LocalRandomizer(1.0, 1.0, invalid=1.0), other]
    first, second = (make() for make in (makers[::-1] if insecure_first else makers))
    create(f"sqlite:///{tmp_path}/s.db", open_sampler("tpe")).optimize(counted(first)[0], n_trials=2)
    study = create(f"sqlite:///{tmp_path}/s.db", open_sampler("tpe"))
    objective, calls = counted(second)
    with pytest.raises(dptune.InputError, match="another randomiser"):
        study.optimize(objective, n_trials=1)
    assert calls == []
    assert promises(study) == [first.describe()]
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
    objective, calls = counted(LocalRandomizer(1.0, 1.0, invalid=1.0))
    with pytest.raises(dptune.InputError, match="another randomiser"):
        objective(study.ask())
    assert calls == []
    assert any(described["private"] is False for described in promises(study))


@pytest.mark.parametrize(("direction", "invalid"), [("minimize", 0.0), ("minimize", None), ("maximize", 10.0)])
def test_a_failing_setting_may_not_win(tmp_path, direction, invalid):
    study = optuna.create_study(direction=direction)
    ledger, calls = UserLedger(tmp_path / "u.db", cap=1.0), []
    randomizer = LocalRandomizer(1.0, (0.0, 10.0), invalid=invalid)
    objective = LocalObjective(lambda trial: calls.append(1), randomizer, ledger=ledger, user="me")
    with pytest.raises(dptune.InputError, match="would win"):
        study.optimize(objective, n_trials=1)
    assert (calls, ledger.spent("me"), promises(study)) == ([], 0.0, [])


@pytest.mark.parametrize(("direction", "invalid"), [("minimize", 10.0), ("minimize", 5.0), ("maximize", None)])
def test_failing_settings_lose(direction, invalid):
    study = optuna.create_study(direction=direction)
    randomizer = InsecureRandomizer(1e6, (0.0, 10.0), invalid=invalid, insecure_seed=0)

    def measure(trial):
        if trial.number % 2:
            raise ValueError
        return 5.5 if direction == "maximize" else 4.5

    study.optimize(LocalObjective(measure, randomizer), n_trials=4)
    assert study.best_trial.number % 2 == 0


def test_several_objectives_are_refused_before_anything_is_measured():
    study = optuna.create_study(directions=["minimize", "maximize"])
    objective, calls = counted(LocalRandomizer(1.0, 1.0, invalid=1.0))
    with pytest.raises(dptune.InputError, match="one direction"):
        study.optimize(objective, n_trials=1)
    assert calls == []


# ---- the middle of the interval ----------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["memory", "sqlite"])
@pytest.mark.parametrize("space", [SPACE, None])
def test_the_sampler_takes_the_centre_from_the_study(tmp_path, storage, space):
    url = None if storage == "memory" else f"sqlite:///{tmp_path}/s.db"
    settings = dptune.LDPSettings(dptune.LaplaceReplies(1.0, B=4.0, R=1.0))
    study = create(url, LDPTGPSampler(space, settings, count=16))
    randomizer = LocalRandomizer(1.0, (95.0, 105.0), invalid=105.0)
    study.optimize(LocalObjective(lambda trial: 100.0 + trial.suggest_float("x", 0, 1), randomizer), n_trials=12)
    told = LDPTGPSampler(space, settings, count=16, centre=100.0)
    assert study.sampler.session(study).bandit.mean().tolist() == told.session(study).bandit.mean().tolist()
    assert np.abs(told.session(study).bandit.mean()).max() < 20
    wrong = LDPTGPSampler(space, settings, count=16, centre=0.0)
    with pytest.raises(dptune.InputError, match="centre"):
        wrong.recommend(study)


def test_replies_from_elsewhere_are_read_again_when_the_study_states_its_interval():
    settings = dptune.LDPSettings(dptune.LaplaceReplies(1.0, B=4.0, R=1.0))
    study = create(None, LDPTGPSampler(SPACE, settings, count=16))
    randomizer = LocalRandomizer(1.0, (0.0, 10.0), invalid=10.0)
    study.optimize(lambda trial: randomizer.randomize(trial.suggest_float("x", 0, 1)), n_trials=5)
    study.optimize(LocalObjective(lambda trial: trial.suggest_float("x", 0, 1), randomizer), n_trials=5)
    told = LDPTGPSampler(SPACE, settings, count=16, centre=5.0)
    assert study.sampler.session(study).bandit.mean().tolist() == told.session(study).bandit.mean().tolist()


# ---- the ledger ---------------------------------------------------------------------------------------------


def test_a_cap_ends_the_users_trials_before_anything_is_measured(tmp_path):
    ledger, calls = UserLedger(tmp_path / "u.db", cap=2.0), []
    study = create(None, open_sampler())
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    objective = LocalObjective(lambda trial: calls.append(1) or at_x(trial, 0.5), randomizer, ledger=ledger, user="me")
    with pytest.raises(dptune.CapReached):
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
    study.optimize(objective, n_trials=12, catch=dptune.CapReached)
    states = [t.state for t in study.trials]
    assert states == [TrialState.COMPLETE] * 6 + [TrialState.FAIL] * 6
    assert [ledger.spent(str(i)) for i in range(3)] == [2.0] * 3
    assert study.sampler.session(study).bandit.t == 6


def test_a_retried_trial_gets_the_recorded_reply_and_pays_nothing(tmp_path):
    ledger = UserLedger(tmp_path / "u.db", cap=10.0)
    study = create(f"sqlite:///{tmp_path}/s.db", open_sampler())
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


@pytest.mark.parametrize(("name", "high"), [("xx", 1.0), ("x", 0.5)])
@pytest.mark.parametrize("with_ledger", [False, True])
@pytest.mark.parametrize("kind", ["tgp", "ata", "moma"])
def test_a_function_that_does_not_suggest_what_is_searched_is_refused_and_sends_nothing(
    tmp_path, monkeypatch, kind, with_ledger, name, high
):
    ledger = UserLedger(tmp_path / "u.db", cap=10.0)
    whose = {"ledger": ledger, "user": "me"} if with_ledger else {}
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    objective = LocalObjective(lambda trial: trial.suggest_float(name, 0, high), randomizer, **whose)
    study = create(None, optuna.samplers.PartialFixedSampler({}, open_sampler(kind)))
    with pytest.raises(dptune.InputError, match=f"parameter 'x'.*FloatDistribution.*suggested.*{name}?"):
        study.optimize(objective, n_trials=5)
    assert [t.state for t in study.trials] == [TrialState.FAIL]
    assert study.trials[0].value is None
    assert ledger.spent("me") <= 1.0  # charged before its function may be called, and once


WORKER = """
    import sys
    sys.path.insert(0, {here!r})
    from test_local_objective import *
    ledger = UserLedger({folder!r} + "/u.db", cap=5.0)
    study = create("sqlite:///" + {folder!r} + "/s.db", open_sampler())
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    objective = LocalObjective(users_function("plain"), randomizer, ledger=ledger, user="me")
    study.optimize(objective, n_trials=6, catch=dptune.CapReached)
"""


def test_two_processes_never_pass_a_users_cap(tmp_path):
    create(f"sqlite:///{tmp_path}/s.db", open_sampler())
    UserLedger(tmp_path / "u.db", cap=5.0)
    code = textwrap.dedent(WORKER).format(here=str(Path(__file__).parent), folder=str(tmp_path))
    workers = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(2)]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors.decode()
    study = create(f"sqlite:///{tmp_path}/s.db", open_sampler())
    states = [t.state for t in study.trials]
    assert (states.count(TrialState.COMPLETE), states.count(TrialState.FAIL)) == (5, 7)
    assert UserLedger(tmp_path / "u.db").spent("me") == 5.0


# ---- public mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_ledger", [False, True])
@pytest.mark.parametrize("method", ["report", "should_prune", "set_user_attr", "study"])
def test_what_would_store_a_value_is_refused(tmp_path, method, with_ledger):
    ledger = UserLedger(tmp_path / "u.db", cap=5.0) if with_ledger else None
    study = create(None, open_sampler())

    def measure(trial):
        with contextlib.suppress(dptune.PrivacyError):
            getattr(trial, method)(SECRET)
        return SECRET

    objective = LocalObjective(
        measure, LocalRandomizer(1.0, 1.0, invalid=1.0), ledger=ledger, user="me" if ledger else None
    )
    with pytest.raises(dptune.PrivacyError, match=method) as caught:
        objective(study.ask())
    seen = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    while seen is not None:
        assert str(SECRET) not in "".join(seen.format())
        seen = seen.__cause__ or seen.__context__


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


def test_wrong_settings_are_refused(tmp_path):
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    with pytest.raises(dptune.InputError, match="function"):
        LocalObjective(3, randomizer)
    with pytest.raises(dptune.InputError, match="together"):
        LocalObjective(users_function("plain"), randomizer, user="me")
    with pytest.raises(dptune.InputError, match="together"):
        LocalObjective(users_function("plain"), randomizer, ledger=UserLedger(tmp_path / "u.db", cap=1.0))


def test_trying_out_shows_the_functions_errors():
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    LocalObjective(users_function("plain"), randomizer).try_out({"x": 0.5})
    with pytest.raises(ValueError, match="the value"):
        LocalObjective(users_function("raise"), randomizer).try_out({"x": 0.5})
    with pytest.raises(TypeError):
        LocalObjective(users_function("none"), randomizer).try_out({"x": 0.5})


def test_without_a_space_a_parameter_that_comes_and_goes_is_no_mistake():
    settings = dptune.LDPSettings(dptune.LaplaceReplies(1.0, B=0.8, R=0.2))
    study = create(None, LDPTGPSampler(settings=settings, count=16, warn_independent_sampling=False))

    def function(trial):
        if trial.number % 2 == 0:
            trial.suggest_float("even", 0, 1)
        return at_x(trial, 0.5)

    study.optimize(LocalObjective(function, LocalRandomizer(1.0, 1.0, invalid=1.0)), n_trials=4)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 4


MISREAD = pytest.mark.parametrize(
    ("replies", "says"),
    [
        (dptune.LaplaceReplies(1.0, B=800.0, R=200.0), "epsilon=1.0 and B"),
        (dptune.LaplaceReplies(2.0, B=0.8, R=0.2), "B . R = 1.0"),
    ],
)


@MISREAD
@pytest.mark.parametrize("kind", ["tgp", "ata", "moma", "wrapped"])
def test_a_sampler_for_other_replies_is_refused_before_any_user_is_asked(tmp_path, kind, replies, says):
    ledger, calls = UserLedger(tmp_path / "users.db", cap=9.0), []
    randomizer = LocalRandomizer(2.0, 1000.0, invalid=1000.0)
    sampler = SAMPLERS["tgp" if kind == "wrapped" else kind](SPACE, dptune.LDPSettings(replies), count=16)
    if kind == "wrapped":
        sampler = optuna.samplers.PartialFixedSampler({}, sampler)
    study = optuna.create_study(sampler=sampler)
    objective = LocalObjective(lambda trial: calls.append(1) or 0.0, randomizer, ledger=ledger, user="me")
    with pytest.raises(dptune.InputError, match=says) as refused:
        study.optimize(objective, n_trials=1)
    assert "epsilon=2.0 and an interval of half-width 1000.0" in str(refused.value)
    assert (calls, ledger.spent("me"), promises(study)) == ([], 0, [])


@MISREAD
def test_a_resumed_study_refuses_a_sampler_for_other_replies_before_it_asks(replies, says):
    randomizer = LocalRandomizer(2.0, 1000.0, invalid=1000.0)
    settings = dptune.LDPSettings(dptune.LaplaceReplies(2.0, B=800.0, R=200.0))
    study = optuna.create_study(sampler=LDPTGPSampler(SPACE, settings, count=16))
    study.optimize(LocalObjective(users_function("plain"), randomizer), n_trials=2)
    study.sampler = LDPTGPSampler(SPACE, dptune.LDPSettings(replies), count=16)
    with pytest.raises(dptune.InputError, match=says):
        study.ask(SPACE)
    with pytest.raises(dptune.InputError, match=says):
        study.sampler.recommend(study)


def test_a_wrong_centre_is_refused_before_any_user_is_asked():
    settings = dptune.LDPSettings(dptune.LaplaceReplies(1.0, B=4.0, R=1.0))
    study = optuna.create_study(sampler=LDPTGPSampler(SPACE, settings, centre=1.0))
    calls = []
    objective = LocalObjective(lambda trial: calls.append(1) or 0.0, LocalRandomizer(1.0, (0.0, 10.0), invalid=10.0))
    with pytest.raises(dptune.InputError, match=r"the middle 5\.0"):
        study.optimize(objective, n_trials=1)
    assert calls == []


def test_what_a_randomiser_does_not_state_is_not_compared():
    study = optuna.create_study(sampler=open_sampler(), direction="maximize")
    randomizer = LocalRandomizer(1.0, 1.0)
    randomizer.describe = lambda: {"mechanism": "own"}
    study.optimize(LocalObjective(users_function("plain"), randomizer), n_trials=2)
