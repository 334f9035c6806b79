"""Only the reply of a LocalObjective leaves the device and is paid once. The study states the protection."""

import re

import numpy as np
import optuna
import pytest
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState

import dptune
from dptune.local import InsecureRandomizer, LaplaceReplies, LocalRandomizer
from dptune_optuna import LocalObjective
from dptune_optuna.local import RANDOMIZER, randomizers_of
from harness import create, stored, transcript
from local_harness import SECRET, SPACE, almost_exact, at_x, counted, open_sampler, paid, users_function, usual

# ---- nothing but the reply ------------------------------------------------------------------------------


def study_of(front, folder, function, randomizer, **more):
    def run(storage):
        objective = LocalObjective(function, randomizer, **paid(folder, cap=100.0))
        create(storage, open_sampler(front)).optimize(objective, n_trials=6)

    text = transcript(folder, run, **more)
    return re.sub(r"\b[0-9a-f]{64}\b", "<hash>", text)  # of a row that holds when a trial began, and is in the text


def canned():
    """What is left of the value's influence, when every reply is replaced by a constant, is a leak."""
    randomizer = usual()
    randomizer.randomize = lambda value: 0.25
    return randomizer


@pytest.mark.parametrize(
    ("front", "kinds"),
    [
        ("tgp", ["raise", "prune", "exit", "input error", "nan", "array"]),
        ("tpe", ["none", "text", "inf"]),
    ],
)
def test_transcripts_of_neighbouring_values_are_byte_identical(tmp_path, front, kinds):
    mine = study_of(front, tmp_path / "a", users_function("plain"), canned())
    assert mine.count("finished with value") == 6
    for kind in kinds:
        theirs = study_of(front, tmp_path / kind, users_function(kind), canned())
        assert mine == theirs, kind
        assert str(SECRET) not in theirs


def test_the_audit_fails_on_a_planted_leak(tmp_path, monkeypatch):
    def print_and_call(function, trial, take):
        optuna.logging.get_logger("dptune_optuna").warning(f"measured {(value := function(trial))}")
        return value

    monkeypatch.setattr("dptune_optuna.local_objective.shielded", print_and_call)
    mine, theirs = (study_of("tgp", tmp_path / kind, users_function(kind), canned()) for kind in ("plain", "nan"))
    assert mine != theirs


# ---- a cap, and a reply that is paid once ---------------------------------------------------------------


def test_a_user_at_the_cap_is_not_measured_and_other_users_continue(tmp_path):
    whose = paid(tmp_path, cap=2.0) | {"user": lambda trial: str(trial.number % 2)}
    study, (objective, calls) = create(None, open_sampler()), counted(usual(), **whose)
    study.optimize(objective, n_trials=6, catch=(Exception,))
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 4 + [TrialState.FAIL] * 2
    assert [whose["ledger"].spent(str(i)) for i in range(2)] == [2.0] * 2
    assert len(calls) == study.sampler.run_of(study).bandit.t == 4
    study.optimize(counted(usual(), ledger=whose["ledger"], user="0")[0], n_trials=3, catch=(Exception,))
    assert len(study.trials) == 7  # there is nobody else to ask


def test_a_retried_trial_gets_its_recorded_reply_at_no_cost(tmp_path):
    """Another study of the same name pays for a new reply."""
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
    objective(create(None, open_sampler()).ask())
    assert whose["ledger"].spent("me") == 3.0


# ---- what the study says of its randomiser --------------------------------------------------------------


INSECURE = InsecureRandomizer(1.0, 1.0, invalid=1.0, insecure_seed=0)


@pytest.mark.parametrize(
    ("first", "second"), [(INSECURE, usual()), (usual(), INSECURE), (usual(), LocalRandomizer(4.0, 1.0, invalid=1.0))]
)
def test_another_randomiser_is_refused_before_anything_is_measured(tmp_path, first, second):
    create(stored(tmp_path), open_sampler("tpe")).optimize(counted(first)[0], n_trials=2)
    study = create(stored(tmp_path), open_sampler("tpe"))
    objective, calls = counted(second)
    with pytest.raises(dptune.InputError, match="another randomiser"):
        study.optimize(objective, n_trials=1)
    assert calls == []
    assert randomizers_of(study) == [first.describe()]
    study.optimize(counted(first)[0], n_trials=1)
    assert study.trials[-1].state == TrialState.COMPLETE


def test_not_private_never_disappears_however_two_processes_begin(caplog):
    class Late(optuna.Study):
        """Between the first one's look and its writing another process begins."""

        def set_user_attr(self, *args):
            if not raced:
                raced.append(True)
                counted(INSECURE)[0](self.ask())
            super().set_user_attr(*args)

    raced, study = [], create(None, open_sampler())
    late = Late(study.study_name, study._storage, study.sampler)
    objective, calls = counted(usual())
    with pytest.raises(dptune.InputError):
        objective(late.ask())
    assert calls == []
    assert any(described["private"] is False for described in randomizers_of(study))
    assert "NOT PRIVATE" in caplog.text


@pytest.mark.parametrize(("direction", "wins", "loses"), [("minimize", None, 5.0), ("maximize", 10.0, None)])
def test_a_failing_setting_may_not_win(tmp_path, direction, wins, loses):
    study, whose = optuna.create_study(direction=direction), paid(tmp_path)
    objective, calls = counted(LocalRandomizer(1.0, (0.0, 10.0), invalid=wins), **whose)
    worst = 10.0 if direction == "minimize" else 0.0
    with pytest.raises(dptune.InputError, match=rf"would win.* Give the randomiser invalid={worst}, the worst"):
        study.optimize(objective, n_trials=1)
    assert (calls, whose["ledger"].spent("me"), randomizers_of(study)) == ([], 0.0, [])

    def values(trial):
        return at_x(trial, None if trial.number % 2 else 5.5 - (direction == "minimize"))

    study.optimize(LocalObjective(values, almost_exact((0.0, 10.0), loses)), n_trials=3)
    assert study.best_trial.number % 2 == 0


@pytest.mark.parametrize("space", [SPACE, None])
def test_the_sampler_takes_the_centre_from_the_study(tmp_path, space):
    def opened(**more):
        return open_sampler("tgp", LaplaceReplies(1.0, B=4.0, R=1.0), space=space, **more)

    study, randomizer = create(stored(tmp_path), opened()), LocalRandomizer(1.0, (95.0, 105.0), invalid=105)
    if space is None:  # replies from elsewhere are read again
        study.optimize(lambda trial: randomizer.randomize(at_x(trial, 100.0)), n_trials=5)
    study.optimize(LocalObjective(lambda trial: at_x(trial, 100.0), randomizer), n_trials=8)
    told = opened(centre=100.0).run_of(study).bandit.mean()
    assert study.sampler.run_of(study).bandit.mean().tolist() == told.tolist()
    assert np.abs(told).max() < 20
    study.set_user_attr(RANDOMIZER + "other", LocalRandomizer(1.0, (0.0, 10.0), invalid=10.0).describe())
    with pytest.raises(dptune.InputError):
        study.sampler.recommend(study)


MISREAD = {  # by samplers whose users have epsilon 2 and an interval of half-width 1000
    "width": ({"replies": LaplaceReplies(1.0, B=800.0, R=200.0)}, "epsilon=1.0 and B"),
    "epsilon": ({"replies": LaplaceReplies(2.0, B=0.8, R=0.2)}, "B . R = 1.0"),
    "centre": ({"replies": LaplaceReplies(2.0, B=800.0, R=200.0), "centre": 1.0}, r"the middle 0\.0"),
}


@pytest.mark.parametrize(
    ("kind", "case"), [*(("tgp", case) for case in MISREAD), ("moma", "width"), ("wrapped", "width")]
)
def test_a_sampler_for_other_replies_is_refused_before_any_user_is_asked(tmp_path, kind, case):
    (wrong, says), whose = MISREAD[case], paid(tmp_path)
    sampler = open_sampler(kind, **wrong) if kind != "wrapped" else open_sampler(kind, wrong["replies"])
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
            with pytest.raises(dptune.InputError):
                use()


# ---- public mistakes -----------------------------------------------------------------------------------


def test_wrong_settings_are_refused_and_try_out_shows_errors():
    several = optuna.create_study(directions=["minimize", "maximize"])
    objective, calls = counted(usual())
    for wrong, says in (
        (lambda: LocalObjective(3, usual()), "function"),
        (lambda: LocalObjective(users_function("plain"), usual(), user="me"), "together"),
        (lambda: several.optimize(objective, n_trials=1), "one direction"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            wrong()
    assert calls == []
    LocalObjective(users_function("plain"), usual()).try_out({"x": 0.5})
    for kind, error in (("raise", ValueError), ("none", TypeError)):
        with pytest.raises(error):
            LocalObjective(users_function(kind), usual()).try_out({"x": 0.5})


@pytest.mark.parametrize(("kind", "name", "high"), [("tgp", "xx", 1.0), ("ata", "x", 0.5)])
def test_a_function_that_does_not_suggest_the_space_sends_nothing(tmp_path, kind, name, high):
    whose = paid(tmp_path)
    objective = LocalObjective(lambda trial: trial.suggest_float(name, 0, high), usual(), **whose)
    study = create(None, optuna.samplers.PartialFixedSampler({}, open_sampler(kind)))
    with pytest.raises(dptune.InputError, match=f"parameter 'x'.*FloatDistribution.*suggested.*{name}?"):
        study.optimize(objective, n_trials=5)
    assert [(t.state, t.value) for t in study.trials] == [(TrialState.FAIL, None)]
    assert whose["ledger"].spent("me") == 1.0  # charged before its function may be called, and once
    study = create(None, open_sampler(kind, space=None))  # then what comes and goes is no mistake
    study.optimize(objective, n_trials=1)
    study.optimize(LocalObjective(lambda trial: trial.suggest_float("other", 0, 1), usual()), n_trials=1)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 2
