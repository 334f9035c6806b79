"""The LDP samplers as a user meets them: storages, restarts, threads, processes, lost replies."""

from __future__ import annotations

import copy
import pickle
import textwrap
from typing import Any

import numpy as np
import optuna
import pytest
from audit_tools import start_forked
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import dptune
from dptune.bandits.curator import key_of
from dptune.local import InsecureRandomizer
from dptune_optuna import LDPATASampler, LDPMoMASampler, LDPTGPSampler, LocalObjective
from dptune_optuna.local import LDPSampler
from harness import create, storage_of, stored

KINDS = [LDPTGPSampler, LDPATASampler, LDPMoMASampler]
ALL = pytest.mark.parametrize("kind", KINDS)
SPACE = {"x": FloatDistribution(-1.0, 1.0), "n": IntDistribution(1, 100, log=True)}
SETTINGS = dptune.bandits.LDPSettings(
    dptune.bandits.LaplaceReplies(8.0, B=1.0, R=0.2), horizon=400, plays=3, exploration=0.1
)


def open_sampler(kind: type[LDPSampler] = LDPTGPSampler, **more: Any) -> LDPSampler:
    return kind(**{"space": SPACE, "settings": SETTINGS, "count": 24, "seed": 1, **more})


def value(x: float, n: int) -> float:
    return 1 - (x - 0.4) ** 2 - 0.1 * np.log(n / 10) ** 2


def measured(trial: Any) -> float:
    return value(trial.suggest_float("x", -1, 1), trial.suggest_int("n", 1, 100, log=True))


def reply_of(trial: optuna.Trial) -> float:
    """A reply whose noise is a function of the trial's number, so that another run gets the same."""
    return InsecureRandomizer(8.0, 1.2, insecure_seed=trial.number).randomize(measured(trial))


def points(study: optuna.Study) -> list[dict[str, Any]]:
    return [t.params for t in study.trials]


@pytest.mark.parametrize(
    ("kind", "storage", "n_jobs"),
    [
        *((kind, *where) for kind in KINDS for where in (("memory", 4), ("journal", 1))),
        pytest.param(LDPTGPSampler, "sqlite", 1, marks=pytest.mark.slow),
        pytest.param(LDPMoMASampler, "sqlite", 4, marks=pytest.mark.slow),
    ],
)
def test_a_run_with_real_noise(tmp_path, kind, storage, n_jobs):
    sampler = open_sampler(kind)
    study = optuna.create_study(storage=storage_of(storage, tmp_path), sampler=sampler, direction="maximize")
    randomizer = dptune.local.LocalRandomizer(8.0, 1.2)
    study.optimize(LocalObjective(measured, randomizer), n_trials=40, n_jobs=n_jobs)
    assert sampler.run_of(study).bandit.t == 40
    assert all(params in sampler.run_of(study).candidates for params in points(study))
    for trial in study.trials:  # every reply lies on the randomiser's public grid
        cells = trial.value / randomizer.scale * 2**40
        assert cells == pytest.approx(round(cells), abs=1e-3 * max(1, abs(cells) * 1e-12))


@ALL
def test_it_finds_a_good_setting(kind):
    sampler = open_sampler(kind)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.optimize(reply_of, n_trials=400)
    values = [value(**candidate) for candidate in sampler.run_of(study).candidates]
    assert value(**sampler.recommend(study)) > np.quantile(values, 0.8)


@ALL
def test_a_restart_equals_the_uninterrupted_run(tmp_path, kind):
    whole = optuna.create_study(sampler=open_sampler(kind), direction="maximize")
    whole.optimize(reply_of, n_trials=90)
    for _ in range(3):
        study = optuna.create_study(
            storage=stored(tmp_path),
            study_name="s",
            sampler=open_sampler(kind),
            direction="maximize",
            load_if_exists=True,
        )
        study.optimize(reply_of, n_trials=30)
    assert points(study) == points(whole)
    assert open_sampler(kind).recommend(study) == whole.sampler.recommend(whole)


@ALL
def test_minimising_is_maximising_the_negative(kind):
    up = optuna.create_study(sampler=open_sampler(kind), direction="maximize")
    up.optimize(reply_of, n_trials=60)
    down = optuna.create_study(sampler=open_sampler(kind), direction="minimize")
    down.optimize(lambda trial: -reply_of(trial), n_trials=60)
    assert points(down) == points(up)
    assert down.sampler.recommend(down) == up.sampler.recommend(up)


def test_moma_proposes_a_point_k_times():
    study = optuna.create_study(sampler=open_sampler(LDPMoMASampler))
    study.optimize(reply_of, n_trials=30)
    asked = points(study)
    assert all(asked[i] == asked[i + 1] == asked[i + 2] for i in range(0, 30, 3))
    assert len({tuple(p.values()) for p in asked}) > 1


@ALL
def test_lost_replies_and_odd_trials_block_nothing(tmp_path, kind):
    sampler = open_sampler(kind, patience=5)
    study = create(stored(tmp_path), sampler)
    study.enqueue_trial({"x": 0.5, "n": 7})
    study.enqueue_trial({"x": 0.5})
    study.add_trial(optuna.create_trial(params={"x": 0.0, "n": 3}, distributions=SPACE, value=0.1))
    wider = {"x": FloatDistribution(-9.0, 9.0), "n": SPACE["n"]}
    study.add_trial(optuna.create_trial(params={"x": 7.0, "n": 3}, distributions=wider, value=0.1))  # outside: ignored
    other = {"z": FloatDistribution(0, 1)}
    study.add_trial(optuna.create_trial(params={"z": 0.0}, distributions=other, value=0.1))
    stale = study.ask()
    measured(stale)
    for state in (TrialState.FAIL, TrialState.PRUNED):
        trial = study.ask()
        measured(trial)
        study.tell(trial, state=state)
    study.optimize(lambda trial: float("nan") if trial.number % 5 == 0 else reply_of(trial), n_trials=40)
    session = sampler.run_of(study)
    keys = [key_of(session.space, t.params) for t in study.trials if t.state == TrialState.COMPLETE]
    assert keys.count(None) == 2  # outside the space, and of another one
    before = session.bandit.t
    assert before == sum(key is not None and session._curator.row(key) is not None for key in keys) > 30
    study.tell(stale, 0.3)  # very late, and it counts
    assert sampler.run_of(study).bandit.t == before + 1
    again = open_sampler(kind, patience=5)
    assert again.run_of(study).ask() == sampler.run_of(study).ask()


@ALL
def test_trials_that_run_at_the_same_time_are_spread(kind):
    study = optuna.create_study(sampler=open_sampler(kind))
    for _ in range(20):
        measured(study.ask())
    assert len({tuple(p.values()) for p in points(study)}) > 3
    impatient = optuna.create_study(sampler=open_sampler(kind, patience=0))
    for _ in range(20):
        measured(impatient.ask())
    assert len({tuple(p.values()) for p in points(impatient)}) == 1


WORKER = """
    import optuna
    from test_ldp_samplers import *
    kind = {{k.__name__: k for k in (LDPTGPSampler, LDPATASampler, LDPMoMASampler)}}[{kind!r}]
    study = optuna.load_study(storage={storage!r}, study_name="s", sampler=open_sampler(kind))
    study.optimize(reply_of, n_trials=25)
"""


@pytest.mark.parametrize("kind", [LDPTGPSampler, *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def test_two_processes_on_one_study_are_one_run(tmp_path, kind):
    storage = f"sqlite:///{tmp_path}/s.db"
    study = optuna.create_study(storage=storage, study_name="s", sampler=open_sampler(kind), direction="maximize")
    code = textwrap.dedent(WORKER).format(storage=storage, kind=kind.__name__)
    for worker in [start_forked(code) for _ in range(2)]:
        ended = worker.wait()
        assert ended.returncode == 0, ended.stdout
    assert sorted(t.number for t in study.trials) == list(range(50))
    assert study.sampler.run_of(study).bandit.t == 50
    whole = open_sampler(kind)  # reads the replies at once; the first one read them in the order they came
    assert whole.run_of(study).bandit.mean().tolist() == study.sampler.run_of(study).bandit.mean().tolist()


def test_a_follower_sees_what_others_are_told_in_any_order():
    follower, study = open_sampler(), optuna.create_study(sampler=open_sampler())
    rng = np.random.default_rng(0)
    running: list[tuple[optuna.Trial, float]] = []
    for _ in range(120):
        trial = study.ask()
        running.append((trial, reply_of(trial)))
        if len(running) > 8:
            study.tell(*running.pop(rng.integers(len(running))))
        follower.run_of(study)
    for trial, reply in running:
        study.tell(trial, reply)
    fresh = open_sampler()
    assert follower.run_of(study).bandit.mean().tolist() == fresh.run_of(study).bandit.mean().tolist()


def test_a_trial_that_the_storage_shows_late_is_read_late(monkeypatch):
    study = optuna.create_study(sampler=open_sampler())
    study.optimize(reply_of, n_trials=20)
    shown, follower = study._storage.get_all_trials(study._study_id), open_sampler()
    hidden = [t for t in shown if t.number not in {3, 17}]
    monkeypatch.setattr(study._storage, "get_all_trials", lambda *args, **more: hidden)
    assert follower.run_of(study).bandit.t == 18
    hidden = shown
    assert follower.run_of(study).bandit.t == 20
    assert follower.run_of(study).ask() == study.sampler.run_of(study).ask()


@ALL
def test_nothing_is_stored_but_the_trials(tmp_path, kind):
    study = create(stored(tmp_path), open_sampler(kind))
    study.optimize(reply_of, n_trials=10)
    attributes = [study._storage.get_study_system_attrs(study._study_id), study.user_attrs]
    attributes += [a for t in study.trials for a in (t.user_attrs, t.system_attrs)]
    assert all(a == {} for a in attributes)


def test_copies_and_another_study_of_the_same_name_have_a_run_of_their_own():
    sampler = open_sampler()
    study = create(None, sampler)
    study.optimize(reply_of, n_trials=20)
    for twin in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
        assert twin.recommend(study) == sampler.recommend(study)
    assert sampler.run_of(create(None, sampler)).bandit.t == 0


@pytest.mark.parametrize(
    ("space", "before", "after"), [(SPACE, 8, 3), (None, 8, 0), (SPACE, 3, 8), (None, 8, 8), (None, 0, 4)]
)
def test_a_study_that_got_the_number_of_a_deleted_one_has_a_run_of_its_own(tmp_path, space, before, after):
    storage, sampler = optuna.storages.get_storage(f"sqlite:///{tmp_path}/s.db"), open_sampler(space=space)
    study = create(storage, sampler)
    study.optimize(reply_of, n_trials=before)
    running = [study.ask(SPACE) for _ in range(2)]
    sampler.run_of(study)
    first = study._study_id
    optuna.delete_study(study_name="study", storage=storage)
    study = create(storage, open_sampler(space=space))  # another process
    study.optimize(lambda trial: -measured(trial), n_trials=after)
    assert study._study_id == first, "the storage gives numbers to one study only"
    fresh = open_sampler(space=space)
    if after or space:
        assert sampler.run_of(study).bandit.mean().tolist() == fresh.run_of(study).bandit.mean().tolist()
        assert sampler.run_of(study).bandit.t == after
    else:
        assert sampler.run_of(study) is None
    assert len(running) == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_while_reading_loses_no_reply(monkeypatch, when):
    study, follower, original = optuna.create_study(sampler=open_sampler()), open_sampler(), dptune.bandits.LDPRun.tell
    study.optimize(reply_of, n_trials=12)

    def press(self: Any, number: int, *reply: Any) -> bool:
        taken = original(self, number, *reply) if when == "after" or number != 7 else True
        if number == 7:
            monkeypatch.setattr(dptune.bandits.LDPRun, "tell", original)
            raise KeyboardInterrupt
        return taken

    monkeypatch.setattr(dptune.bandits.LDPRun, "tell", press)
    with pytest.raises(KeyboardInterrupt):
        follower.run_of(study)
    assert follower.run_of(study).bandit.t == 12
    assert follower.run_of(study).bandit.mean().tolist() == study.sampler.run_of(study).bandit.mean().tolist()


def test_without_a_space_the_first_completed_trial_fixes_it():
    sampler = open_sampler(space=None)
    study = optuna.create_study(sampler=sampler)
    with pytest.raises(dptune.InputError, match="no completed trial"):
        sampler.recommend(study)
    study.optimize(reply_of, n_trials=20)
    assert set(sampler.recommend(study)) == set(SPACE)
    assert all(params in sampler.run_of(study).candidates for params in points(study)[1:])
    other = optuna.create_study(sampler=sampler)
    first, second = other.ask(), other.ask()
    other.tell(second, reply_of(second))
    first.suggest_float("z", 0, 1)
    assert set(sampler.run_of(other).space) == set(SPACE)
    other.tell(first, 0.0)
    assert set(sampler.run_of(other).space) == {"z"}


def test_categorical_and_conditional_parameters_are_drawn_with_a_warning(monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", messages.append)
    space = {**SPACE, "kernel": CategoricalDistribution(["rbf", "poly"])}
    study = optuna.create_study(sampler=open_sampler(space=space))

    def objective(trial):
        if trial.suggest_categorical("kernel", ["rbf", "poly"]) == "rbf":
            trial.suggest_float("gamma", 0, 1)
        return reply_of(trial)

    study.optimize(objective, n_trials=12)
    assert any("'kernel'" in m and "LDPTGPSampler" in m for m in messages)
    assert any("'gamma'" in m for m in messages)
    assert not any("'x'" in m or "'n'" in m for m in messages)
    assert study.sampler.run_of(study).bandit.t == 12
    messages.clear()
    study.sampler = open_sampler(warn_independent_sampling=False)
    study.optimize(objective, n_trials=2)
    assert messages == []


def test_a_pruner_hides_no_replies():
    sampler = open_sampler()
    study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.HyperbandPruner(1, 9))
    study.optimize(reply_of, n_trials=30)
    plain = optuna.create_study(sampler=open_sampler())
    plain.optimize(reply_of, n_trials=30)
    assert points(study) == points(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": None}, "LDPTGPSampler needs settings"),
        ({"space": {"k": CategoricalDistribution(["a", "b"])}}, "no float or int"),
        ({"space": None, "candidates": [{"x": 0.0, "n": 1}]}, "give space="),
        ({"candidates": [{"x": 2.0, "n": 1}]}, "inside the space"),
        ({"patience": -1}, "patience"),
        ({"count": 0}, "count"),
    ],
)
def test_bad_settings_are_refused_when_the_sampler_is_made(options, message):
    with pytest.raises(dptune.InputError, match=message):
        open_sampler(**options)


def test_several_objectives_are_refused():
    study = optuna.create_study(sampler=open_sampler(), directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match="multi-objective"):
        measured(study.ask())
