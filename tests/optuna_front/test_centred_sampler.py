"""CentredCMASampler as a user meets it: storages, restarts, threads, odd trials, what a trial's value is."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

import dptune
from dptune_optuna import CentredCMASampler, DPGIBOSampler
from harness import (
    SPACE,
    create,
    losses_at,
    objective_of,
    open_centred,
    open_ledger,
    open_privatizer,
    people,
    storage_of,
    stored,
)


def keys(folder, prefix=""):
    return [charge.key for charge in open_ledger(folder).charges(prefix=prefix)]


@pytest.mark.parametrize(("kind", "n_jobs"), [("memory", 1), ("memory", 4), ("sqlite", 4), ("journal", 1)])
def test_a_complete_run_makes_two_releases_a_generation(tmp_path, kind, n_jobs):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(storage_of(kind, tmp_path), sampler)
    study.optimize(objective_of(sampler), n_trials=sampler.n_trials + n_jobs, n_jobs=n_jobs)
    plan = sampler.run_of(study).plan
    numbers = range(1, plan.settings.generations + 1)
    assert sorted(keys(tmp_path)) == sorted(f"{kind}/{g}" for g in numbers for kind in ("share", "generation"))
    assert open_ledger(tmp_path).spent() <= 1.0
    assert sampler.recommend(study).keys() == SPACE.keys()
    first = plan.settings.population + n_jobs
    assert all(np.isfinite(t.value) for t in study.trials[first:] if t.state == TrialState.COMPLETE)


def test_the_value_of_a_trial_is_what_was_known_when_it_ended(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(None, sampler)
    objective = objective_of(sampler)
    session = None
    for i in range(sampler.n_trials):
        study.optimize(objective, n_trials=1)
        session = session or sampler.run_of(study)
        u = session.space.encode(study.trials[-1].params)
        known = session.algorithm.value(u)
        assert study.trials[-1].value == (math.inf if known is None else known)
        assert (known is None) == (i < session.plan.settings.population - 1)  # nothing is released yet
    assert session.complete
    assert len({t.value for t in study.trials}) > sampler.n_trials / 2


def test_the_run_finds_the_minimum_when_people_are_many_and_the_best_trial_makes_sense(tmp_path):
    data = np.repeat(people(), 1000, axis=0)
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=len(data), clip=(0.0, 4.0))
    sampler = open_centred(privatizer, n_trials=60)
    study = create(None, sampler)
    study.optimize(objective_of(sampler, data), n_trials=sampler.n_trials)
    best = losses_at(data, data[:, 0].mean(), 10 ** (2 * data[:, 1].mean())).mean()
    assert losses_at(data, **sampler.recommend(study)).mean() < best + 0.01
    assert losses_at(data, **study.best_params).mean() < best + 0.03
    centre = losses_at(data, 0.0, 1e-1).mean()
    late = study.trials[-10:]
    true = np.array([losses_at(data, **t.params).mean() - centre for t in late])
    assert np.array([t.value for t in late]) == pytest.approx(true, abs=0.06)


@pytest.mark.filterwarnings("ignore:24 trials have ended")  # those of a batch were lost with the restart
def test_a_restart_continues_with_the_same_state_and_the_remaining_budget(tmp_path):
    first = open_centred(open_privatizer(tmp_path))
    study = create(stored(tmp_path), first)
    study.optimize(objective_of(first), n_trials=14)
    found, spent = first.recommend(study), open_ledger(tmp_path).spent()

    second = open_centred(open_privatizer(tmp_path))
    study = create(stored(tmp_path), second)
    assert second.recommend(study) == found
    assert open_ledger(tmp_path).spent() == spent
    study.optimize(objective_of(second), n_trials=40)
    assert second.run_of(study).complete
    assert spent < open_ledger(tmp_path).spent() <= 1.0
    assert len(keys(tmp_path)) == len(set(keys(tmp_path)))


def test_copies_share_the_budget(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=8)
    for twin in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
        assert twin.run_of(study).ledger.spent() == open_ledger(tmp_path).spent()
        assert twin.recommend(study) == sampler.recommend(study)
        assert twin.run_of(study).privatizer.points() == ()


@pytest.mark.filterwarnings("ignore:24 trials have ended")
def test_odd_trials_do_not_block_the_run(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(stored(tmp_path), sampler)
    study.enqueue_trial({"x": 0.5, "y": 1.0})
    study.enqueue_trial({"x": 0.5})
    study.ask()  # stale: it never comes back
    sampler.run_of(study)  # begins; what is added before nobody paid for
    study.add_trial(optuna.create_trial(params={"x": 0.0, "y": 1.0}, distributions=SPACE, value=0.1))
    study.tell(study.ask(), state=TrialState.FAIL)
    study.tell(study.ask(), state=TrialState.PRUNED)
    study.optimize(objective_of(sampler), n_trials=sampler.n_trials + 2)
    assert sampler.run_of(study).complete
    assert open_ledger(tmp_path).spent() <= 1.0


def test_the_trials_end_by_themselves_when_the_plan_is_done_and_more_are_refused_untrained(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=None)
    assert sampler.run_of(study).complete
    assert len(study.trials) == sampler.n_trials
    calls = []
    study.optimize(sampler.objective(calls.append), n_trials=5)
    with pytest.raises(dptune.PlanComplete, match="planned"):
        sampler.objective(calls.append)(study.ask())
    assert not calls


def test_workers_with_too_few_trials_each_are_told(tmp_path):
    workers, storage = [open_centred(open_privatizer(tmp_path)) for _ in range(6)], stored(tmp_path)
    studies = [create(storage, worker) for worker in workers]
    for i in range(23):
        studies[i % 6].optimize(objective_of(workers[i % 6]), n_trials=1)
    with pytest.warns(UserWarning, match=r"24 trials were planned.*0 of 4 generations.*n_jobs"):
        studies[5].optimize(objective_of(workers[5]), n_trials=1)
    assert open_ledger(tmp_path).spent() == 0.0
    with pytest.warns(UserWarning, match="centre of the search space"):
        workers[1].recommend(studies[1])


def test_a_spent_ledger_refuses_before_training(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=3)
    privatizer = open_privatizer(tmp_path)
    privatizer.observe("other", np.zeros(60))
    left = open_ledger(tmp_path).remaining()
    privatizer.release(privatizer.mean_query("other", left * 0.999999), scope="other", key="all")
    calls = []
    with pytest.raises(dptune.BudgetExhausted):
        study.optimize(sampler.objective(calls.append), n_trials=1)
    assert not calls


def test_whole_numbers_and_choices(tmp_path):
    space = {"i": IntDistribution(1, 9, step=2), "c": CategoricalDistribution(["a", "b"])}
    sampler = CentredCMASampler(space, open_privatizer(tmp_path), n_trials=20, seed=0, warn_independent_sampling=False)
    study = create(None, sampler)

    @sampler.objective
    def losses(trial):
        i = trial.suggest_int("i", 1, 9, step=2)
        assert i in (1, 3, 5, 7, 9)
        return np.full(60, abs(i - 7) / 8 + (trial.suggest_categorical("c", ["a", "b"]) == "a") / 10)

    study.optimize(losses, n_trials=sampler.n_trials)
    assert all(t.state == TrialState.COMPLETE for t in study.trials)
    assert sampler.recommend(study)["i"] in (1, 3, 5, 7, 9)


def test_the_estimate_gives_the_level_of_the_loss(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(None, sampler)
    objective = objective_of(sampler)
    study.optimize(objective, n_trials=sampler.n_trials)
    estimate = objective.estimate(study, sampler.recommend(study))
    assert estimate.private
    assert open_ledger(tmp_path).spent() == pytest.approx(1.0)


def test_progress_is_stored_and_public(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=8)
    shown = {name.removeprefix("dptune:"): value for name, value in study.user_attrs.items()}
    assert shown["generations_done"] == sampler.run_of(study).algorithm.t
    assert shown["mu_spent"] == open_ledger(tmp_path).spent()
    assert {name: shown[name] for name in sampler.run_of(study).progress()} == sampler.run_of(study).progress()


def test_a_study_with_another_sampler_and_an_unprotected_objective_are_noticed(tmp_path):
    sampler = open_centred(open_privatizer(tmp_path))
    other = DPGIBOSampler(SPACE, open_privatizer(tmp_path))
    with pytest.raises(dptune.InputError, match="CentredSampler"):
        create(None, other).optimize(objective_of(sampler), n_trials=1)
    study = create(None, sampler)
    with pytest.raises(dptune.PrivacyError, match="Decorate the function"):
        study.optimize(lambda trial: trial.suggest_float("x", -1, 1), n_trials=1)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n_trials": 3}, "n_trials"),
        ({"n_trials": 20, "population": 50}, "n_trials.*population"),
        ({"radius": -1.0}, "radius"),
        ({"final_share": 1.0}, "final_share"),
        ({"population": 3}, "population"),
        ({"population": "8"}, "population"),
        ({"steps": 20}, "steps.*n_trials"),
        ({"mu": 1e-9}, "mu"),
        ({"sigmaa": 3}, "CentredSampler has no option 'sigmaa'.*sigma"),
        ({"trials": 3}, "CentredSampler has no option 'trials'.*n_trials"),
        ({"loss_range": 3}, "CentredSampler has no option 'loss_range'"),
    ],
)
def test_settings_are_refused_early_by_name(tmp_path, wrong, named):
    with pytest.raises(dptune.InputError, match=named):
        open_centred(open_privatizer(tmp_path), **wrong)


def test_every_setting_of_the_plan_is_an_option(tmp_path):
    chosen = {"population": 5, "radius": 1.0, "rate": 0.5, "steps": (0.0, 0.0), "average": 2, "candidates": 2}
    sampler = open_centred(open_privatizer(tmp_path), **chosen)
    settings = sampler.run_of(create(None, sampler)).plan.settings
    assert {name: getattr(settings, name) for name in chosen} == chosen


@pytest.mark.parametrize(("clip", "values"), [((-1e30, 1e30), (-1e30, 1e30)), ((0.0, 3e-30), (0.0,))])
def test_losses_of_any_allowed_range_are_searched(tmp_path, clip, values):
    """The radius stays where a release is possible, whether everybody differs or all agree."""
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=60, clip=clip)
    sampler = open_centred(privatizer, n_trials=80, rate=3.0, share=0.9, mu=0.9)
    study = create(None, sampler)
    data = np.random.default_rng(0).choice(values, (1000, 60))

    @sampler.objective
    def losses(trial):
        trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True)
        return data[trial.number]

    study.optimize(losses, n_trials=sampler.n_trials)
    assert sampler.run_of(study).complete


def test_it_needs_a_privatizer():
    with pytest.raises(dptune.InputError, match="CentredSampler needs a LossPrivatizer"):
        CentredCMASampler(SPACE)
