"""DPGIBOSampler as a user meets it: storages, restarts, threads, processes, odd trials."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import dptune
from dptune_optuna import DPGIBOSampler
from harness import (
    SPACE,
    create,
    losses_at,
    objective_of,
    open_ledger,
    open_privatizer,
    open_sampler,
    people,
    storage_of,
    stored,
)


def keys(folder: Path, prefix: str = "") -> list[str]:
    return [charge.key for charge in open_ledger(folder).charges(prefix=prefix)]


@pytest.mark.parametrize(("kind", "n_jobs"), [("memory", 1), ("memory", 4), ("sqlite", 4), ("journal", 1)])
def test_a_complete_run_pays_once_for_each_trial_and_each_step(tmp_path, kind, n_jobs):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(storage_of(kind, tmp_path), sampler)
    study.optimize(objective_of(sampler), n_trials=sampler.n_trials + n_jobs, n_jobs=n_jobs)
    complete = [t for t in study.trials if t.state == TrialState.COMPLETE]
    plan = sampler.run_of(study).plan
    assert sorted(keys(tmp_path, "value/")) == sorted(f"value/{t.number}" for t in complete)
    assert keys(tmp_path, "step/") == [f"step/{i}" for i in range(1, plan.settings.steps + 1)]
    assert {t.value for t in complete} == {c.value[0] for c in open_ledger(tmp_path).charges(prefix="value/")}
    assert open_ledger(tmp_path).spent() <= 1.0
    assert sampler.recommend(study).keys() == SPACE.keys()


def test_the_run_finds_the_minimum_when_people_are_many(tmp_path):
    data = np.repeat(people(), 1000, axis=0)
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=len(data), clip=(0.0, 4.0))
    sampler = open_sampler(privatizer, n_trials=60)
    study = create(None, sampler)
    study.optimize(objective_of(sampler, data), n_trials=sampler.n_trials)
    found = losses_at(data, **sampler.recommend(study)).mean()
    assert found < losses_at(data, data[:, 0].mean(), 10 ** (2 * data[:, 1].mean())).mean() + 0.01


def test_a_restart_continues_with_the_same_iterate_and_the_remaining_budget(tmp_path):
    first = open_sampler(open_privatizer(tmp_path))
    study = create(stored(tmp_path), first)
    study.optimize(objective_of(first), n_trials=14)
    theta, spent = first.recommend(study), open_ledger(tmp_path).spent()

    second = open_sampler(open_privatizer(tmp_path))
    study = create(stored(tmp_path), second)
    assert second.recommend(study) == theta
    assert open_ledger(tmp_path).spent() == spent
    study.optimize(objective_of(second), n_trials=12)
    assert spent < open_ledger(tmp_path).spent() <= 1.0
    assert len(keys(tmp_path)) == len(set(keys(tmp_path)))


@pytest.mark.parametrize("mu", [1.0, 0.02])  # with the small one random starts cannot be told apart
@pytest.mark.parametrize("spent", [0.0, 0.9])
def test_n_trials_is_the_plans_before_and_after_a_study_begins(tmp_path, mu, spent):
    privatizer = open_privatizer(tmp_path, mu=mu)
    if spent:
        privatizer.observe("elsewhere", np.ones(privatizer.n))
        privatizer.release(privatizer.mean_query("elsewhere", spent * mu), scope="elsewhere", key="1")
    sampler = open_sampler(privatizer, n_trials=40)
    before = sampler.n_trials
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=1)
    assert before == sampler.run_of(study).plan.trials == sampler.n_trials
    assert (sampler.run_of(study).plan.settings.starts > 0) == (mu == 1.0 and not spent)


def test_copies_share_the_budget(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=6)
    for twin in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
        assert twin.run_of(study).ledger.spent() == open_ledger(tmp_path).spent()
        assert twin.recommend(study) == sampler.recommend(study)
        assert twin.run_of(study).privatizer.points() == ()


def test_odd_trials_do_not_block_the_run(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(stored(tmp_path), sampler)
    objective = objective_of(sampler)
    study.enqueue_trial({"x": 0.5, "y": 1.0})
    study.enqueue_trial({"x": 0.5})
    study.ask()  # stale: it never comes back
    sampler.run_of(study)  # begins; what is added before nobody paid for
    study.add_trial(optuna.create_trial(params={"x": 0.0, "y": 1.0}, distributions=SPACE, value=0.1))
    study.tell(study.ask(), state=TrialState.FAIL)
    study.tell(study.ask(), state=TrialState.PRUNED)
    study.optimize(objective, n_trials=sampler.n_trials + 2)
    assert sampler.run_of(study).complete
    assert open_ledger(tmp_path).spent() <= 1.0


@pytest.mark.filterwarnings("ignore:Fixed parameter")
def test_a_point_outside_the_space_gets_a_value_and_no_place_in_a_batch(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.enqueue_trial({"x": 7.0, "y": 1.0})
    study.optimize(objective_of(sampler), n_trials=1)
    session = sampler.run_of(study)
    assert keys(tmp_path) == ["value/0"]
    assert session.algorithm.points_in_use() == ()
    assert session.privatizer.points() == ()


def test_a_timeout_leaves_a_run_that_goes_on(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), timeout=0.1)
    study.optimize(objective_of(sampler), n_trials=50)
    assert sampler.run_of(study).complete


def test_the_trials_end_by_themselves_when_the_plan_is_done_and_more_are_refused_untrained(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=None)
    assert sampler.run_of(study).complete
    calls = []
    study.optimize(sampler.objective(calls.append), n_trials=5)
    assert not calls
    assert [t.state for t in study.trials].count(TrialState.PRUNED) == 1
    with pytest.raises(dptune.PlanComplete, match="planned"):
        sampler.objective(calls.append)(study.ask())
    assert not calls


def test_a_spent_ledger_refuses_before_training(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=3)
    left = open_ledger(tmp_path).remaining()
    privatizer = open_privatizer(tmp_path)
    privatizer.observe("other", np.zeros(60))
    privatizer.release(privatizer.mean_query("other", left * 0.999999), scope="other", key="all")
    calls = []
    with pytest.raises(dptune.BudgetExhausted) as caught:
        study.optimize(sampler.objective(calls.append), n_trials=1)
    assert not calls
    assert caught.value.left < caught.value.asked


def test_without_a_space_a_spent_ledger_refuses_before_training_too(tmp_path):
    privatizer = open_privatizer(tmp_path)
    privatizer.observe("other", np.zeros(60))
    privatizer.release(privatizer.mean_query("other", 1.0), scope="other", key="all")
    sampler = DPGIBOSampler(privatizer=privatizer)
    calls = []
    with pytest.raises(dptune.BudgetExhausted):
        create(None, sampler).optimize(sampler.objective(calls.append), n_trials=1)
    assert not calls


def test_a_new_study_of_the_same_name_is_not_answered_with_old_values(tmp_path):
    for seed in (1, 1):
        sampler = open_sampler(open_privatizer(tmp_path), seed=seed)
        study = create(None, sampler)
        study.enqueue_trial({"x": 0.1 * len(keys(tmp_path)), "y": 1.0})
        if not keys(tmp_path):
            study.optimize(objective_of(sampler), n_trials=1)
        else:
            with pytest.raises(dptune.errors.KeyConflict, match="new name"):
                study.optimize(objective_of(sampler), n_trials=1)


@pytest.mark.parametrize(
    ("change", "error"), [({"seed": 2}, "planned"), ({"n_trials": 40}, "planned"), ({"mu": 0.5}, "planned")]
)
def test_a_run_cannot_be_planned_twice(tmp_path, change, error):
    for settings in ({}, change):
        sampler = open_sampler(open_privatizer(tmp_path), **settings)
        study = create(None, sampler)
        if not settings:
            sampler.run_of(study)
        else:
            with pytest.raises(dptune.errors.BudgetMismatch, match=error):
                sampler.run_of(study)


def test_step_int_and_log_parameters_are_tuned_on_their_grid(tmp_path):
    space = {
        "i": IntDistribution(1, 9, step=2),
        "l": IntDistribution(1, 100, log=True),
        "s": FloatDistribution(0, 1, step=0.25),
    }
    sampler = DPGIBOSampler(space, open_privatizer(tmp_path), n_trials=30, seed=0)
    study = create(None, sampler)

    @sampler.objective
    def losses(trial):
        i, big = trial.suggest_int("i", 1, 9, step=2), trial.suggest_int("l", 1, 100, log=True)
        assert i in (1, 3, 5, 7, 9)
        assert trial.suggest_float("s", 0, 1, step=0.25) in (0, 0.25, 0.5, 0.75, 1)
        return np.full(60, abs(i - 7) / 8 + abs(np.log(big / 10)) / 5)

    study.optimize(losses, n_trials=sampler.n_trials)
    assert all(t.state == TrialState.COMPLETE for t in study.trials)
    assert sampler.recommend(study)["i"] in (1, 3, 5, 7, 9)


def test_categorical_and_conditional_parameters_are_sampled_independently_with_a_warning(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, sampler)
    messages: list[str] = []
    logger = optuna.logging.get_logger("optuna.dptune")
    logger.warning, original = messages.append, logger.warning
    try:
        private = people()

        @sampler.objective
        def losses(trial):
            trial.suggest_categorical("kernel", ["rbf", "poly"])
            if trial.number % 2:
                trial.suggest_float("only_sometimes", 0, 1)
            return losses_at(private, trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 10, log=True))

        study.optimize(losses, n_trials=sampler.n_trials)
    finally:
        logger.warning = original
    assert any("'kernel'" in m for m in messages)
    assert any("'only_sometimes'" in m for m in messages)
    assert not any("'x'" in m for m in messages)
    assert sampler.run_of(study).complete


def test_without_a_space_the_first_trial_fixes_it(tmp_path):
    sampler = DPGIBOSampler(privatizer=open_privatizer(tmp_path), n_trials=20, seed=0)
    study = create(stored(tmp_path), sampler)
    study.optimize(objective_of(sampler), n_trials=5)
    assert set(sampler.run_of(study).space) == {"x", "y"}
    again = DPGIBOSampler(privatizer=open_privatizer(tmp_path), n_trials=20, seed=0)
    study = create(stored(tmp_path), again)
    assert again.run_of(study).space.describe() == sampler.run_of(study).space.describe()


def test_refusals_before_anything_is_read(tmp_path):
    privatizer = open_privatizer(tmp_path)
    with pytest.raises(dptune.InputError, match="needs a LossPrivatizer"):
        DPGIBOSampler(SPACE)
    with pytest.raises(dptune.InputError, match="no float or int"):
        DPGIBOSampler({"k": CategoricalDistribution(["a", "b"])}, privatizer)
    for bad in ({"steps": 0}, {"batch": 0}, {"mu": -1.0}, {"monitor_share": 1.5}, {"clip": 0.0}):
        with pytest.raises(dptune.InputError):
            open_sampler(privatizer, **bad)
    sampler = open_sampler(privatizer)
    with pytest.raises(dptune.InputError, match="minimize"):
        optuna.create_study(direction="maximize", sampler=sampler).optimize(objective_of(sampler), n_trials=1)
    with pytest.raises(dptune.InputError, match="sampler=sampler"):
        optuna.create_study().optimize(objective_of(sampler), n_trials=1)
    assert keys(tmp_path) == []


def test_a_wrapped_sampler_is_recognised(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, optuna.samplers.PartialFixedSampler({"x": 0.3}, sampler))
    study.optimize(objective_of(sampler), n_trials=4)
    assert all(t.params["x"] == 0.3 for t in study.trials)


def test_withheld_values_are_none_that_could_look_good(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path), monitor_share=0.0)
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=sampler.n_trials)
    assert {t.value for t in study.trials} == {math.inf}
    assert keys(tmp_path, "value/") == []
    assert sampler.run_of(study).complete


def test_the_estimate_is_released_once_and_covers_the_truth(tmp_path):
    data = people()
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, sampler)
    objective = objective_of(sampler, data)
    study.optimize(objective, n_trials=sampler.n_trials)
    best = sampler.recommend(study)
    estimate = objective.estimate(study, best)
    assert objective.estimate(study, best) == estimate
    low, high = estimate.interval(1 - 1e-9)
    assert low < losses_at(data, **best).mean() < high
    with pytest.raises(dptune.errors.KeyConflict):
        objective.estimate(study, {"x": 0.0, "y": 1.0})


def test_a_seeded_run_says_so_everywhere(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path, insecure_seed=3))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=3)
    statement = open_ledger(tmp_path).statement(delta=1e-3)
    assert study.user_attrs["dptune:private"] is False
    assert "NOT PRIVATE" in str(statement)
    assert "NOT PRIVATE" in statement.to_markdown()
    assert statement.to_dict()["private"] is False
    assert "NOT PRIVATE" in repr(sampler.run_of(study).privatizer)


def test_one_sampler_serves_several_studies_whose_space_is_not_given(tmp_path):
    sampler = DPGIBOSampler(privatizer=open_privatizer(tmp_path), n_trials=20, seed=0, mu=0.5)
    for name in ("one", "two"):
        study = optuna.create_study(study_name=name, storage=stored(tmp_path), sampler=sampler)
        study.optimize(objective_of(sampler), n_trials=3)
        assert set(sampler.run_of(study).space) == {"x", "y"}


def test_a_study_says_what_it_spends_where_optuna_speaks(tmp_path, capfd):
    sampler = open_sampler(open_privatizer(tmp_path))
    create(None, sampler).optimize(objective_of(sampler), n_trials=1)
    assert f"spends mu=1 of the ledger's 1 in {sampler.n_trials} trials" in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore:trial .* did not suggest")  # if the one with more parameters was first
def test_of_two_first_trials_with_different_parameters_one_begins_the_run(tmp_path):
    sampler = DPGIBOSampler(privatizer=open_privatizer(tmp_path), n_trials=20, seed=0)
    private, study = people(), create(None, sampler)

    @sampler.objective
    def losses(trial):
        if trial.number % 2:
            trial.suggest_float("only_sometimes", 0, 1)
        return losses_at(private, trial.suggest_float("x", -1, 1), 1.0)

    study.optimize(losses, n_trials=8, n_jobs=4)
    assert set(sampler.run_of(study).space) in ({"x"}, {"x", "only_sometimes"})
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 8
