"""Every searcher follows one contract: with a vault, with users' replies, or as an agent."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from ray import cloudpickle
from ray.tune.search import ConcurrencyLimiter

import dptune
from by_hand import LDP, LDP_SPACE, OPENED, NoNoise, a_trial, begin, local, open_ldp, played, run, satisfaction
from dptune_optuna import CentredSampler, DPGIBOSampler, LDPMoMASampler, LDPTGPSampler, LocalObjective
from dptune_ray import DPFTSSearch, LDPMoMASearch, LDPTGPSearch
from federation_harness import SETTINGS, result_of, serve, value
from noises import NoNoise as Noiseless
from ray_harness import SPACE, open_centred, open_privatizer, open_search
from ray_people import losses, losses_at, people

pytestmark = local
NUMBERS = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(1e-3, 1e1, log=True)}


@dataclass
class Front:
    """A kind of searcher, with what its tests need."""

    opened: Callable[..., Any]  # folder, name -> a new searcher of the run of that name
    mode: str = "min"
    space: Any = None

    def begun(self, folder):
        """Return a searcher that has begun, with its trainable as ``made``."""
        search = self.opened(folder, name="run")
        if not isinstance(search, DPFTSSearch):  # whose trainable is an ordinary one
            users = {"randomizer": NoNoise(8.0, 1.2)} if self.space else {}
            search.made = search.trainable(satisfaction if self.space else losses, **users)
        return self.begin(search)

    def begin(self, search):
        return begin(search, self.mode, self.space or SPACE)

    def result(self, search, trial):
        """Suggest and run; return what the trial reports."""
        config = search.suggest(trial)
        if isinstance(search, DPFTSSearch):
            return result_of(value(0, config), config)
        return {**a_trial(search.made, trial, config).step(), "training_iteration": 1}


def open_agent(folder, name):
    """An agent whose fellows never send, so that rounds end by their time-out."""
    about = {"agent": 0, "trials": folder / "agent.db", "name": name, "seed": 1}
    return DPFTSSearch(serve(folder, timeout=0.01), SETTINGS, SPACE, **about)


def vaulted(opened):
    return Front(lambda folder, name: opened(open_privatizer(folder), name=name))


FRONTS = {opened.__name__: vaulted(opened) for opened in OPENED}
FRONTS["users"] = Front(lambda folder, name: open_ldp(folder, name=name), "max", LDP_SPACE)
PAID, FRONTS = [*FRONTS], {**FRONTS, "agent": Front(open_agent)}
on_every_searcher = pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS)
on_all_that_pay = pytest.mark.parametrize("front", [FRONTS[name] for name in PAID], ids=PAID)


@on_every_searcher
def test_searchers_do_not_rely_on_completion_reports(fast_path, front):
    """A report may be repeated, late or missing, and a limiter never stalls."""
    search = front.begun(fast_path)
    results = {trial: front.result(search, trial) for trial in ("never", "twice", "none")}
    for _ in range(2):
        search.on_trial_complete(trial_id="twice", result=results["twice"], error=False)
    search.on_trial_complete("none", None)
    limited = ConcurrencyLimiter(search, max_concurrent=2)
    assert [type(limited.suggest(t)) for t in "abc"] == [dict, dict, type(None)]
    limited.on_trial_complete("a", None, True)
    assert isinstance(limited.suggest("d"), dict)
    assert pickle.loads(cloudpickle.dumps(limited)).searcher.metric == search.metric


@on_all_that_pay
def test_copies_and_restored_searchers_agree_and_contain_no_actor(fast_path, local_actors, front):
    search = front.begun(fast_path)
    stale = cloudpickle.dumps(search)
    search.save(str(fast_path / "state"))
    for trial in map(str, range(6)):
        search.on_trial_complete(trial, front.result(search, trial))
    fresh = front.opened(fast_path, name="run")
    fresh.restore(str(fast_path / "state"))
    others = [pickle.loads(stale), fresh, front.begun(fast_path), copy.deepcopy(search)]
    assert all(other.recommend() == search.recommend() for other in others)
    assert [other.mode for other in others] == [front.mode] * 4
    assert isinstance(others[0].suggest("next"), dict)
    with pytest.raises(dptune.InputError, match="of the run 'run', not of 'another'"):
        front.opened(fast_path, name="another").restore(str(fast_path / "state"))
    local_actors.clear()  # as when ray.shutdown has ended the vault
    assert isinstance(search.suggest("later"), dict)


@on_all_that_pay
def test_a_value_that_no_release_paid_for_ends_the_experiment(fast_path, front):
    search = front.begun(fast_path)
    result = front.result(search, "a")
    for call in (search.on_trial_result, search.on_trial_complete):
        call("a", result)
        for trial, number in (("a", 0.123456), ("unknown", 0.654321)):
            with pytest.raises(dptune.PrivacyError, match=f"'{trial}' reported .* no release paid for") as caught:
                call(trial, {search.metric: number})
            assert str(number) not in str(caught.value)
    with pytest.raises(dptune.PrivacyError):
        search.suggest("b")
    front.begin(search)  # fitted again, with the right trainable
    assert isinstance(search.suggest("c"), dict)


@on_every_searcher
def test_a_run_keeps_its_mode(fast_path, local_actors, front):
    front.result(front.begun(fast_path), "a")
    local_actors.clear()
    with pytest.raises((dptune.InputError, dptune.errors.BudgetMismatch), match="the other mode"):
        begin(front.opened(fast_path, name="run"), "min" if front.mode == "max" else "max", front.space or SPACE)


# ---- the same points as Optuna's, with the noise off ---------------------------------------------------


def objective(trial):
    return losses_at(people(), trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True))


@pytest.mark.parametrize(("sampler", "opened"), [(DPGIBOSampler, open_search), (CentredSampler, open_centred)])
def test_optuna_and_ray_visit_the_same_points(fast_path, sampler, opened):
    folders = [fast_path / "optuna", fast_path / "ray"]
    for folder in folders:
        folder.mkdir()
    first, second = (open_privatizer(folder, noise=Noiseless(), dtype=np.float64) for folder in folders)
    theirs = sampler(first, NUMBERS, n_trials=12, seed=1)
    study = optuna.create_study(sampler=theirs, study_name="run")
    study.optimize(theirs.objective(objective), n_trials=theirs.n_trials)
    search = begin(opened(second, n_trials=12))
    configs, values = run(search)
    assert len(configs) == search.n_trials == theirs.n_trials > 10
    for trial, config in zip(study.trials, configs, strict=True):
        assert config == pytest.approx(trial.params, rel=1e-9)  # a product may round by its operands' place in memory
    assert values == pytest.approx([trial.value for trial in study.trials], rel=1e-9)
    assert search.recommend() == pytest.approx(theirs.recommend(study), rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "theirs", "mode"), [(LDPTGPSearch, LDPTGPSampler, "min"), (LDPMoMASearch, LDPMoMASampler, "max")]
)
def test_optuna_and_ray_ask_users_for_the_same_points(tmp_path, kind, theirs, mode):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    randomizer = NoNoise(8.0, 1.2, invalid=1.2 if mode == "min" else None)
    distributions = {"x": FloatDistribution(-1.0, 1.0), "n": IntDistribution(1, 100, log=True)}
    sampler = theirs(LDP, distributions, count=24, seed=1)
    study = optuna.create_study(sampler=sampler, direction=f"{mode}imize")

    def asked(trial):
        return satisfaction({"x": trial.suggest_float("x", -1, 1), "n": trial.suggest_int("n", 1, 100, log=True)})

    study.optimize(LocalObjective(asked, randomizer), n_trials=16)
    search = open_ldp(tmp_path, kind)
    trainable = search.trainable(satisfaction, randomizer=randomizer)
    begin(search, mode, LDP_SPACE)
    assert [config for config, _ in played(search, trainable, most=16)] == [t.params for t in study.trials]
    assert search.recommend() == sampler.recommend(study)
