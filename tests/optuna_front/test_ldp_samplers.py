"""The LDP samplers follow their contract for users: storages, restarts, threads, processes and lost replies."""

import copy
import pathlib  # noqa: F401 - for processes
import pickle

import numpy as np
import optuna
import pytest
import test_dpfts_sampler
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import dptune
from audit_tools import start_forked
from dptune.local import InsecureRandomizer
from dptune.local.bandits.curator import key_of
from dptune_optuna import CentredSampler, LDPATASampler, LDPMoMASampler, LDPTGPSampler, LocalObjective, spaces
from harness import create, stored

SPACE = {"x": FloatDistribution(-1.0, 1.0), "n": IntDistribution(1, 100, log=True)}
SETTINGS = dptune.local.LDPSettings(
    dptune.local.LaplaceReplies(8.0, B=1.0, R=0.2), horizon=400, plays=3, exploration=0.1
)


def open_sampler(kind=LDPTGPSampler, **more):
    return kind(**{"space": SPACE, "settings": SETTINGS, "count": 24, "seed": 1, **more})


def measured(trial):
    x, n = trial.suggest_float("x", -1, 1), trial.suggest_int("n", 1, 100, log=True)
    return 1 - (x - 0.4) ** 2 - 0.1 * np.log(n / 10) ** 2


def reply_of(trial):
    """A reply whose noise is a function of the trial's number, so that another run gets the same."""
    return InsecureRandomizer(8.0, 1.2, insecure_seed=trial.number).randomize(measured(trial))


def told(kind=LDPTGPSampler, replies=0, storage=None, **more):
    """A study with so many replies; it goes on where the storage has it."""
    study = create(storage, open_sampler(kind, **more), direction="maximize")
    study.optimize(reply_of, n_trials=replies)
    return study


def points(study):
    return [t.params for t in study.trials]


def mean(study, sampler=None):
    """What a sampler, by default the study's, has learned of a study."""
    return (sampler or study.sampler).run_of(study).bandit.mean().tolist()


@pytest.mark.parametrize(("kind", "n_jobs"), [(LDPTGPSampler, 4), (LDPATASampler, 1), (LDPMoMASampler, 4)])
def test_a_run_with_real_noise(tmp_path, kind, n_jobs):
    study, randomizer = told(kind, storage=stored(tmp_path)), dptune.local.LocalRandomizer(8.0, 1.2)
    study.optimize(LocalObjective(measured, randomizer), n_trials=40, n_jobs=n_jobs)
    run = study.sampler.run_of(study)
    assert run.bandit.t == 40
    assert all(params in run.candidates for params in points(study))
    for trial in study.trials:  # every reply lies on the randomiser's public grid
        cells = trial.value / randomizer.scale * 2**40
        assert cells == pytest.approx(round(cells), abs=1e-3 * max(1, abs(cells) * 1e-12))


@pytest.mark.parametrize("kind", [LDPTGPSampler, LDPMoMASampler])
def test_a_resumed_study_equals_an_unbroken_one_and_stores_only_trials(tmp_path, kind):
    whole = told(kind, 60)
    for _ in range(2):
        study = told(kind, 30, stored(tmp_path))
    assert points(study) == points(whole)
    assert open_sampler(kind).recommend(study) == whole.sampler.recommend(whole)
    assert study.user_attrs == {}
    assert all(trial.user_attrs == trial.system_attrs == {} for trial in study.trials)


def test_lost_replies_and_odd_trials_block_nothing(tmp_path):
    study = told(storage=stored(tmp_path), patience=5)
    study.enqueue_trial({"x": 0.5, "n": 7})
    study.enqueue_trial({"x": 0.5})
    wider, other = {**SPACE, "x": FloatDistribution(-9.0, 9.0)}, {"z": FloatDistribution(0, 1)}
    for at, space in (({"x": 0.0, "n": 3}, SPACE), ({"x": 7.0, "n": 3}, wider), ({"z": 0.0}, other)):
        study.add_trial(optuna.create_trial(params=at, distributions=space, value=0.1))  # two of them lie outside
    stale = study.ask()
    measured(stale)
    for state in (TrialState.FAIL, TrialState.PRUNED):
        trial = study.ask()
        measured(trial)
        study.tell(trial, state=state)
    study.optimize(lambda trial: float("nan") if trial.number % 5 == 0 else reply_of(trial), n_trials=40)
    run = study.sampler.run_of(study)
    replies = [t.params for t in study.trials if t.state == TrialState.COMPLETE]
    assert [key_of(run.space, params) for params in replies].count(None) == 2
    before = run.bandit.t
    assert 30 < before <= len(replies) - 2
    study.tell(stale, 0.3)  # very late, and it counts
    assert study.sampler.run_of(study).bandit.t == before + 1
    assert open_sampler(patience=5).run_of(study).ask() == study.sampler.run_of(study).ask()


def test_trials_that_run_at_the_same_time_are_spread():
    for patience, different in ((1000, range(4, 21)), (0, [1])):
        study = told(patience=patience)
        for _ in range(20):
            measured(study.ask())
        assert len({tuple(p.values()) for p in points(study)}) in different


def test_two_processes_on_one_study_are_one_run(tmp_path):
    study = told(storage=stored(tmp_path))
    code = f"from test_ldp_samplers import *\ntold(replies=15, storage=stored(pathlib.Path({str(tmp_path)!r})))"
    for worker in [start_forked(code) for _ in range(2)]:
        ended = worker.wait()
        assert ended.returncode == 0, ended.stdout
    assert sorted(t.number for t in study.trials) == list(range(30))
    assert study.sampler.run_of(study).bandit.t == 30
    assert mean(study, open_sampler()) == mean(study)  # read at once, and in the order in which they came


def test_a_trial_that_the_storage_shows_late_is_read_late():
    class Late(optuna.storages.InMemoryStorage):
        hidden = frozenset()

        def get_all_trials(self, *args, **more):
            return [t for t in super().get_all_trials(*args, **more) if t.number not in self.hidden]

    study, follower = told(replies=20, storage=(storage := Late())), open_sampler()
    storage.hidden = {0, 17}
    assert follower.run_of(study).bandit.t == 18
    storage.hidden = set()
    assert follower.run_of(study).bandit.t == 20
    assert follower.run_of(study).ask() == study.sampler.run_of(study).ask()


def test_copies_and_another_study_of_the_same_name_have_a_run_of_their_own():
    study = told(replies=20)
    for twin in (pickle.loads(pickle.dumps(study.sampler)), copy.deepcopy(study.sampler)):
        assert twin.recommend(study) == study.sampler.recommend(study)
    assert study.sampler.run_of(create(None, study.sampler)).bandit.t == 0
    study.pruner = optuna.pruners.HyperbandPruner(1, 9)  # it hides no replies
    assert study.sampler.run_of(study).bandit.t == 20


@pytest.mark.parametrize(("space", "after"), [(SPACE, 2), (None, 0)])
def test_a_study_that_got_the_number_of_a_deleted_one_has_a_run_of_its_own(tmp_path, space, after):
    storage = optuna.storages.get_storage(f"sqlite:///{tmp_path}/s.db")
    first = told(replies=3, storage=storage, space=space)
    first.ask(SPACE)
    first.sampler.run_of(first)
    optuna.delete_study(study_name="study", storage=storage)
    study = told(replies=after, storage=storage, space=space)  # another process
    assert study._study_id == first._study_id, "the storage gives numbers to one study only"
    run = first.sampler.run_of(study)
    assert (run and run.bandit.t) == (after or None)
    assert run is None or mean(study, first.sampler) == mean(study, open_sampler(space=space))


def test_without_a_space_the_first_completed_trial_fixes_it():
    study = told(space=None)
    with pytest.raises(dptune.InputError):
        study.sampler.recommend(study)
    study.optimize(reply_of, n_trials=20)
    assert set(study.sampler.recommend(study)) == set(SPACE)
    assert all(params in study.sampler.run_of(study).candidates for params in points(study)[1:])
    other = create(None, study.sampler)
    first, second = other.ask(), other.ask()
    other.tell(second, reply_of(second))
    first.suggest_float("z", 0, 1)
    assert set(other.sampler.run_of(other).space) == set(SPACE)
    other.tell(first, 0.0)
    assert set(other.sampler.run_of(other).space) == {"z"}


def test_only_where_a_curator_is_trusted_a_category_is_for_choose(monkeypatch, privatizer):
    said = []
    monkeypatch.setattr(spaces.logger, "warning", said.append)
    for sampler in (CentredSampler(privatizer(n=9), SPACE, n_trials=4), open_sampler(), test_dpfts_sampler.made()):
        create(None, sampler, direction="minimize").ask().suggest_categorical("kernel", ["rbf", "linear"])
    assert ["choose" in each for each in said if "'kernel'" in each] == [True, False, False]
    for odd in ({**SPACE, "k": CategoricalDistribution(["a", "b"])}, {"n": IntDistribution(3, 3)}):
        with pytest.raises(dptune.InputError, match="Leave all else out of space="):
            open_sampler(space=odd)
