"""What the study says of its randomiser, and who must agree with it before any user is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

import dptune
from dptune.local import InsecureRandomizer, LocalRandomizer, UserLedger
from dptune_optuna import LDPTGPSampler, LocalObjective
from dptune_optuna.local import randomizers_of
from harness import create, storage_of, stored
from local_harness import SAMPLERS, SPACE, counted, open_sampler, users_function


def test_every_study_says_what_protects_its_users():
    randomizer = LocalRandomizer(1.0, (0.0, 2.0), invalid=1.5)
    objective, _ = counted(randomizer)
    storage = optuna.storages.InMemoryStorage()
    for _ in range(2):  # of one name and one storage
        study = create(storage, open_sampler())
        study.optimize(objective, n_trials=2)
        assert randomizers_of(study) == [randomizer.describe()]
        optuna.delete_study(study_name="study", storage=storage)
    for name in ("study", "another"):
        other = create(None, open_sampler(), name)
        other.optimize(objective, n_trials=1)
        assert randomizers_of(other) == [randomizer.describe()]


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
    objective, calls = counted(LocalRandomizer(1.0, 1.0, invalid=1.0))
    with pytest.raises(dptune.InputError, match="another randomiser"):
        objective(study.ask())
    assert calls == []
    assert any(described["private"] is False for described in randomizers_of(study))


def test_several_objectives_are_refused_before_anything_is_measured():
    study = optuna.create_study(directions=["minimize", "maximize"])
    objective, calls = counted(LocalRandomizer(1.0, 1.0, invalid=1.0))
    with pytest.raises(dptune.InputError, match="one direction"):
        study.optimize(objective, n_trials=1)
    assert calls == []


# ---- the reply of a failure ----------------------------------------------------------------------------


@pytest.mark.parametrize(("direction", "invalid"), [("minimize", 0.0), ("minimize", None), ("maximize", 10.0)])
def test_a_failing_setting_may_not_win(tmp_path, direction, invalid):
    study = optuna.create_study(direction=direction)
    ledger, calls = UserLedger(tmp_path / "u.db", cap=1.0), []
    randomizer = LocalRandomizer(1.0, (0.0, 10.0), invalid=invalid)
    objective = LocalObjective(lambda trial: calls.append(1), randomizer, ledger=ledger, user="me")
    with pytest.raises(dptune.InputError, match="would win"):
        study.optimize(objective, n_trials=1)
    assert (calls, ledger.spent("me"), randomizers_of(study)) == ([], 0.0, [])


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


# ---- the sampler ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["memory", "journal"])
@pytest.mark.parametrize("space", [SPACE, None])
def test_the_sampler_takes_the_centre_from_the_study(tmp_path, storage, space):
    settings = dptune.bandits.LDPSettings(dptune.bandits.LaplaceReplies(1.0, B=4.0, R=1.0))
    study = create(storage_of(storage, tmp_path), LDPTGPSampler(space, settings, count=16))
    randomizer = LocalRandomizer(1.0, (95.0, 105.0), invalid=105.0)
    study.optimize(LocalObjective(lambda trial: 100.0 + trial.suggest_float("x", 0, 1), randomizer), n_trials=12)
    told = LDPTGPSampler(space, settings, count=16, centre=100.0)
    assert study.sampler.run_of(study).bandit.mean().tolist() == told.run_of(study).bandit.mean().tolist()
    assert np.abs(told.run_of(study).bandit.mean()).max() < 20
    wrong = LDPTGPSampler(space, settings, count=16, centre=0.0)
    with pytest.raises(dptune.InputError, match="centre"):
        wrong.recommend(study)


def test_replies_from_elsewhere_are_read_again_when_the_study_states_its_interval():
    settings = dptune.bandits.LDPSettings(dptune.bandits.LaplaceReplies(1.0, B=4.0, R=1.0))
    study = create(None, LDPTGPSampler(SPACE, settings, count=16))
    randomizer = LocalRandomizer(1.0, (0.0, 10.0), invalid=10.0)
    study.optimize(lambda trial: randomizer.randomize(trial.suggest_float("x", 0, 1)), n_trials=5)
    study.optimize(LocalObjective(lambda trial: trial.suggest_float("x", 0, 1), randomizer), n_trials=5)
    told = LDPTGPSampler(SPACE, settings, count=16, centre=5.0)
    assert study.sampler.run_of(study).bandit.mean().tolist() == told.run_of(study).bandit.mean().tolist()


def test_a_wrong_centre_is_refused_before_any_user_is_asked():
    settings = dptune.bandits.LDPSettings(dptune.bandits.LaplaceReplies(1.0, B=4.0, R=1.0))
    study = optuna.create_study(sampler=LDPTGPSampler(SPACE, settings, centre=1.0))
    calls = []
    objective = LocalObjective(lambda trial: calls.append(1) or 0.0, LocalRandomizer(1.0, (0.0, 10.0), invalid=10.0))
    with pytest.raises(dptune.InputError, match=r"the middle 5\.0"):
        study.optimize(objective, n_trials=1)
    assert calls == []


MISREAD = pytest.mark.parametrize(
    ("replies", "says"),
    [
        (dptune.bandits.LaplaceReplies(1.0, B=800.0, R=200.0), "epsilon=1.0 and B"),
        (dptune.bandits.LaplaceReplies(2.0, B=0.8, R=0.2), "B . R = 1.0"),
    ],
)


@MISREAD
@pytest.mark.parametrize("kind", ["tgp", "ata", "moma", "wrapped"])
def test_a_sampler_for_other_replies_is_refused_before_any_user_is_asked(tmp_path, kind, replies, says):
    ledger, calls = UserLedger(tmp_path / "users.db", cap=9.0), []
    randomizer = LocalRandomizer(2.0, 1000.0, invalid=1000.0)
    sampler = SAMPLERS["tgp" if kind == "wrapped" else kind](SPACE, dptune.bandits.LDPSettings(replies), count=16)
    if kind == "wrapped":
        sampler = optuna.samplers.PartialFixedSampler({}, sampler)
    study = optuna.create_study(sampler=sampler)
    objective = LocalObjective(lambda trial: calls.append(1) or 0.0, randomizer, ledger=ledger, user="me")
    with pytest.raises(dptune.InputError, match=says) as refused:
        study.optimize(objective, n_trials=1)
    assert "epsilon=2.0 and an interval of half-width 1000.0" in str(refused.value)
    assert (calls, ledger.spent("me"), randomizers_of(study)) == ([], 0, [])


@MISREAD
def test_a_resumed_study_refuses_a_sampler_for_other_replies_before_it_asks(replies, says):
    randomizer = LocalRandomizer(2.0, 1000.0, invalid=1000.0)
    settings = dptune.bandits.LDPSettings(dptune.bandits.LaplaceReplies(2.0, B=800.0, R=200.0))
    study = optuna.create_study(sampler=LDPTGPSampler(SPACE, settings, count=16))
    study.optimize(LocalObjective(users_function("plain"), randomizer), n_trials=2)
    study.sampler = LDPTGPSampler(SPACE, dptune.bandits.LDPSettings(replies), count=16)
    with pytest.raises(dptune.InputError, match=says):
        study.ask(SPACE)
    with pytest.raises(dptune.InputError, match=says):
        study.sampler.recommend(study)


def test_what_a_randomiser_does_not_state_is_not_compared():
    study = optuna.create_study(sampler=open_sampler(), direction="maximize")
    randomizer = LocalRandomizer(1.0, 1.0)
    randomizer.describe = lambda: {"mechanism": "own"}
    study.optimize(LocalObjective(users_function("plain"), randomizer), n_trials=2)
