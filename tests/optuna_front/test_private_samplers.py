"""The contract of the private samplers: a trial's life, restarts, copies, odd trials, refusals, the answer."""

from __future__ import annotations

import gc
import math
import re

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import dptune
from dptune.privacy.noise import SeededNoise
from dptune_optuna import CentredSampler, DPGIBOSampler
from harness import (
    OPEN,
    SPACE,
    N,
    create,
    front,
    keys,
    losses_at,
    objective_of,
    open_centred,
    open_ledger,
    open_privatizer,
    open_sampler,
    people,
    people_s_losses,
    ran,
    spend_elsewhere,
    storage_of,
    stored,
)

SAMPLERS = {"gibo": DPGIBOSampler, "centred": CentredSampler}
BOTH = pytest.mark.parametrize("kind", OPEN)
LOST = pytest.mark.filterwarnings("ignore:24 trials have ended")  # those of a batch were lost with a process


# ---- a run from its first trial to its last -------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "where", "n_jobs"),
    [
        *(("gibo", "memory", 1), ("gibo", "sqlite", 4), ("centred", "memory", 4), ("centred", "journal", 1)),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("gibo", "journal", 1), ("centred", "sqlite", 4))),
    ],
)
def test_a_complete_run_pays_for_each_question_once(tmp_path, kind, where, n_jobs):
    sampler = OPEN[kind](open_privatizer(tmp_path))
    study = create(storage_of(where, tmp_path), sampler)
    study.optimize(objective_of(sampler), n_trials=sampler.n_trials + n_jobs, n_jobs=n_jobs)
    complete = [t for t in study.trials if t.state == TrialState.COMPLETE]
    settings = sampler.run_of(study).plan.settings
    if kind == "gibo":
        assert sorted(keys(tmp_path, "value/")) == sorted(f"value/{t.number}" for t in complete)
        assert keys(tmp_path, "step/") == [f"step/{i}" for i in range(1, settings.steps + 1)]
        assert {t.value for t in complete} == {c.value[0] for c in open_ledger(tmp_path).charges(prefix="value/")}
    else:
        numbers = range(1, settings.generations + 1)
        assert sorted(keys(tmp_path)) == sorted(f"{each}/{g}" for g in numbers for each in ("share", "generation"))
        assert all(np.isfinite(t.value) for t in complete if t.number >= settings.population + n_jobs)
    assert open_ledger(tmp_path).spent() <= 1.0
    assert sampler.recommend(study).keys() == SPACE.keys()


@BOTH
def test_the_run_finds_the_minimum_when_people_are_many(tmp_path, kind):
    data = np.repeat(people(), 1000, axis=0)
    sampler = OPEN[kind](open_privatizer(tmp_path, n=len(data)), n_trials=60)
    study = create(None, sampler)
    study.optimize(objective_of(sampler, data), n_trials=sampler.n_trials)
    best = losses_at(data, data[:, 0].mean(), 10 ** (2 * data[:, 1].mean())).mean()
    assert losses_at(data, **sampler.recommend(study)).mean() < best + 0.01
    if kind == "centred":  # the best trial makes sense, and values are differences from the centre, which counts as 4
        assert losses_at(data, **study.best_params).mean() < best + 0.03
        true = [4 + losses_at(data, **t.params).mean() - losses_at(data, 0.0, 0.1).mean() for t in study.trials[-10:]]
        assert [t.value for t in study.trials[-10:]] == pytest.approx(true, abs=0.06)


def test_the_value_of_a_centred_trial_is_what_was_known_when_it_ended(tmp_path):
    sampler, study, objective = ran("centred", tmp_path, 0)
    for i in range(sampler.n_trials):
        study.optimize(objective, n_trials=1)
        run = sampler.run_of(study)
        known = run.algorithm.value(run.space.encode(study.trials[-1].params))
        assert study.trials[-1].value == (math.inf if known is None else 4 + known)
        assert (known is None) == (i < run.plan.settings.population - 1)  # nothing is released yet
    assert run.complete
    assert len({t.value for t in study.trials}) > sampler.n_trials / 2


@BOTH
@LOST
def test_a_restart_continues_in_the_same_state_with_the_remaining_budget(tmp_path, kind):
    first, study, _ = ran(kind, tmp_path, 14, storage=stored(tmp_path))
    found, spent = first.recommend(study), open_ledger(tmp_path).spent()
    second, study, objective = ran(kind, tmp_path, 0, storage=stored(tmp_path))
    assert second.recommend(study) == found
    assert open_ledger(tmp_path).spent() == spent
    study.optimize(objective, n_trials=40)
    assert second.run_of(study).complete
    assert spent < open_ledger(tmp_path).spent() <= 1.0
    assert len(keys(tmp_path)) == len(set(keys(tmp_path)))


@BOTH
@LOST
def test_odd_trials_do_not_block_the_run(tmp_path, kind):
    sampler, study, objective = ran(kind, tmp_path, 0, storage=stored(tmp_path))
    study.enqueue_trial({"x": 0.5, "y": 1.0})
    study.enqueue_trial({"x": 0.5})
    study.ask()  # stale: it never comes back
    sampler.run_of(study)  # begins; what is added before nobody paid for
    study.add_trial(optuna.create_trial(params={"x": 0.0, "y": 1.0}, distributions=SPACE, value=0.1))
    study.tell(study.ask(), state=TrialState.FAIL)
    study.tell(study.ask(), state=TrialState.PRUNED)
    study.optimize(objective, timeout=0.1)  # a timeout leaves a run that goes on
    study.optimize(objective, n_trials=sampler.n_trials + 2)
    assert sampler.run_of(study).complete
    assert open_ledger(tmp_path).spent() <= 1.0


@pytest.mark.filterwarnings("ignore:Fixed parameter")
def test_a_point_outside_the_space_gets_a_value_and_no_place_in_a_batch(tmp_path):
    sampler, study, objective = ran("gibo", tmp_path, 0)
    study.enqueue_trial({"x": 7.0, "y": 1.0})
    study.optimize(objective, n_trials=1)
    run = sampler.run_of(study)
    assert (keys(tmp_path), run.algorithm.points_in_use(), run.privatizer.points()) == (["value/0"], (), ())


@BOTH
def test_the_trials_end_by_themselves_when_the_plan_is_done_and_more_are_refused_untrained(tmp_path, kind):
    (sampler, study, objective), calls = ran(kind, tmp_path, 0), []
    study.optimize(objective, n_trials=None)
    assert sampler.run_of(study).complete
    assert len(study.trials) == sampler.n_trials
    study.optimize(sampler.objective(calls.append), n_trials=5)
    assert [t.state for t in study.trials].count(TrialState.PRUNED) == 1
    with pytest.raises(dptune.PlanComplete, match="planned"):
        sampler.objective(calls.append)(study.ask())
    assert not calls


def test_workers_with_too_few_trials_each_are_told(tmp_path, caplog):
    workers, storage = [open_centred(open_privatizer(tmp_path)) for _ in range(6)], stored(tmp_path)
    studies = [create(storage, worker) for worker in workers]
    for i in range(23):
        studies[i % 6].optimize(objective_of(workers[i % 6]), n_trials=1)
    studies[5].optimize(objective_of(workers[5]), n_trials=1)
    caplog.set_level("WARNING", "optuna.dptune")
    del studies[5]
    gc.collect()
    assert re.search(
        r"24 trials of the study 'study' have ended and 24 were planned\..*0 of 4 gen.*n_jobs", caplog.text
    )
    assert open_ledger(tmp_path).spent() == 0.0
    with pytest.warns(UserWarning, match="centre of the search space"):
        workers[1].recommend(studies[1])


# ---- the budget -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1.0, 0.02])  # with the small one random starts cannot be told apart
@pytest.mark.parametrize("spent", [0.0, 0.9])
def test_n_trials_is_the_plans_before_and_after_a_study_begins(tmp_path, mu, spent):
    privatizer = open_privatizer(tmp_path, mu=mu)
    if spent:
        spend_elsewhere(privatizer, spent * mu)
    sampler = open_sampler(privatizer, n_trials=40)
    before = sampler.n_trials
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=1)
    assert before == sampler.run_of(study).plan.trials == sampler.n_trials
    assert (sampler.run_of(study).plan.settings.starts > 0) == (mu == 1.0 and not spent)


@BOTH
@pytest.mark.parametrize("known", [True, False], ids=["space", "no space"])
def test_a_spent_ledger_refuses_before_training(tmp_path, kind, known):
    sampler, calls = SAMPLERS[kind](open_privatizer(tmp_path), SPACE if known else None, n_trials=24, seed=1), []
    study = create(None, sampler)
    if known:
        study.optimize(objective_of(sampler), n_trials=3)
    spend_elsewhere(open_privatizer(tmp_path), open_ledger(tmp_path).remaining() * (0.999999 if known else 1.0))
    with pytest.raises(dptune.BudgetExhausted) as caught:
        study.optimize(sampler.objective(calls.append), n_trials=1)
    assert not calls
    assert not known or caught.value.left < caught.value.asked


def test_a_new_study_of_the_same_name_is_not_answered_with_old_values(tmp_path):
    for x in (0.0, 0.1):
        _, study, objective = ran("gibo", tmp_path, 0)
        study.enqueue_trial({"x": x, "y": 1.0})
        if x == 0.0:
            study.optimize(objective, n_trials=1)
        else:
            with pytest.raises(dptune.errors.KeyConflict, match="new name"):
                study.optimize(objective, n_trials=1)


# ---- the search space -------------------------------------------------------------------------------------


@BOTH
def test_step_int_log_and_choices_are_tuned_on_their_grid(tmp_path, kind):
    space = {
        "i": IntDistribution(1, 9, step=2),
        "l": IntDistribution(1, 100, log=True),
        "s": FloatDistribution(0, 1, step=0.25),
        "c": CategoricalDistribution(["a", "b"]),
    }
    sampler = SAMPLERS[kind](open_privatizer(tmp_path), space, n_trials=30, seed=0, warn_independent_sampling=False)
    study = create(None, sampler)

    @sampler.objective
    def losses(trial):
        i, big = trial.suggest_int("i", 1, 9, step=2), trial.suggest_int("l", 1, 100, log=True)
        assert i in (1, 3, 5, 7, 9)
        assert trial.suggest_float("s", 0, 1, step=0.25) in (0, 0.25, 0.5, 0.75, 1)
        worse = (trial.suggest_categorical("c", ["a", "b"]) == "a") / 10
        return np.full(N, abs(i - 7) / 8 + abs(np.log(big / 10)) / 5 + worse)

    study.optimize(losses, n_trials=sampler.n_trials)
    assert all(t.state == TrialState.COMPLETE for t in study.trials)
    assert sampler.recommend(study)["i"] in (1, 3, 5, 7, 9)


@BOTH
@pytest.mark.parametrize("warn", [True, False])
def test_parameters_outside_the_space_are_drawn_with_a_warning(tmp_path, monkeypatch, kind, warn):
    sampler, messages = OPEN[kind](open_privatizer(tmp_path), warn_independent_sampling=warn), []
    study = create(None, sampler)
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", messages.append)

    @sampler.objective
    def losses(trial):
        trial.suggest_categorical("kernel", ["rbf", "poly"])
        if trial.number % 2:
            trial.suggest_float("only_sometimes", 0, 1)
        return people_s_losses(trial)

    study.optimize(losses, n_trials=sampler.n_trials)
    told = [any(name in m for m in messages) for name in ("'kernel'", "'only_sometimes'", "'x'")]
    assert told == [warn, warn, False]
    assert sampler.run_of(study).complete


def test_without_a_space_the_first_trial_of_each_study_fixes_it(tmp_path):
    sampler, again = (DPGIBOSampler(privatizer=open_privatizer(tmp_path), n_trials=20, mu=0.5, seed=0) for _ in "ab")
    with pytest.raises(dptune.InputError, match="give the sampler its space"):
        sampler.n_trials  # noqa: B018
    with pytest.raises(dptune.InputError, match="nothing to recommend"):
        sampler.recommend(create(None, sampler))
    with pytest.raises(dptune.InputError, match="n_trials= and mu="):
        objective_of(sampler).extend(create(None, sampler), n_trials=30)
    for name in ("one", "two"):
        study = create(stored(tmp_path), sampler, name)
        study.optimize(objective_of(sampler), n_trials=5)
        assert set(sampler.run_of(study).space) == {"x", "y"}
        restarted = create(stored(tmp_path), again, name)
        assert again.run_of(restarted).space.describe() == sampler.run_of(study).space.describe()


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


def test_a_first_trial_without_anything_to_search_is_refused(tmp_path):
    sampler = DPGIBOSampler(privatizer=open_privatizer(tmp_path), n_trials=20)
    with pytest.raises(dptune.InputError, match="the first trial had no float or int parameter"):
        create(None, sampler).optimize(sampler.objective(lambda trial: np.zeros(N)), n_trials=1)


def test_a_wrapped_sampler_is_recognised(tmp_path):
    sampler = open_sampler(open_privatizer(tmp_path))
    study = create(None, optuna.samplers.PartialFixedSampler({"x": 0.3}, sampler))
    study.optimize(objective_of(sampler), n_trials=4)
    assert all(t.params["x"] == 0.3 for t in study.trials)


@BOTH
def test_refusals_before_anything_is_read(tmp_path, kind):
    sampler, objective = front(kind, open_privatizer(tmp_path))
    with pytest.raises(dptune.InputError, match=r"minimize.*stored keeps its direction"):
        optuna.create_study(direction="maximize", sampler=sampler).optimize(objective, n_trials=1)
    for other in (optuna.create_study(), create(None, OPEN[kind](open_privatizer(tmp_path)))):
        with pytest.raises(dptune.InputError, match=rf"not the {type(sampler).__name__}.*sampler=sampler"):
            other.optimize(objective, n_trials=1)
    with pytest.raises(dptune.PrivacyError, match="Decorate the function"):
        create(None, sampler).optimize(lambda trial: trial.suggest_float("x", -1, 1), n_trials=1)
    assert keys(tmp_path) == []


# ---- what is shown and what is answered -------------------------------------------------------------------


def test_withheld_values_are_none_that_could_look_good(tmp_path):
    sampler, study, _ = ran("gibo", tmp_path, monitor_share=0.0)
    assert {t.value for t in study.trials} == {math.inf}
    assert keys(tmp_path, "value/") == []
    assert sampler.run_of(study).complete


@BOTH
def test_the_estimate_is_released_once_and_covers_the_truth(tmp_path, kind):
    sampler, study, objective = ran(kind, tmp_path)
    best = sampler.recommend(study)
    estimate = objective.estimate(study, best)
    assert objective.estimate(study, best) == estimate
    low, high = estimate.interval(1 - 1e-9)
    assert low < losses_at(people(), **best).mean() < high
    assert estimate.private
    assert kind == "gibo" or open_ledger(tmp_path).spent() == pytest.approx(1.0)
    with pytest.raises(dptune.errors.KeyConflict):
        objective.estimate(study, {"x": 0.0, "y": 1.0})


@BOTH
def test_the_recommendation_is_compared_with_the_users_defaults(fast_path, kind):
    default = {"x": -0.9, "y": 5.0}
    sampler, study, objective = ran(kind, fast_path, default=default)
    assert sampler.n_trials == sampler.run_of(study).plan.trials == len(study.trials)
    found = sampler.recommend(study)
    assert found.defaults == default
    found_another = found != default  # the noise decides, in this unseeded run
    assert (objective.estimate(study, found).improvement is not None) == found_another


@BOTH
def test_a_seeded_run_says_so_everywhere_from_its_first_trial_on(tmp_path, caplog, kind):
    sampler = OPEN[kind](open_privatizer(tmp_path, noise=SeededNoise(3)))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=7)
    statement = open_ledger(tmp_path).statement(delta=1e-3)
    assert study.user_attrs["dptune:private"] is statement.to_dict()["private"] is False
    for said in (str(statement), statement.to_markdown(), repr(sampler.run_of(study).privatizer)):
        assert "NOT PRIVATE" in said
    lines = [record for record in caplog.records if record.name == "optuna.dptune"]
    assert lines
    assert all("NOT PRIVATE" in record.getMessage() for record in lines)
    assert [record.levelname for record in lines].count("WARNING") == 1


@BOTH
def test_progress_is_stored_and_public_and_a_private_run_says_what_it_spends(tmp_path, capfd, caplog, kind):
    sampler, study, _ = ran(kind, tmp_path, 8)
    run = sampler.run_of(study)
    shown = {name.removeprefix("dptune:"): value for name, value in study.user_attrs.items()}
    assert shown["mu_spent"] == open_ledger(tmp_path).spent()
    assert shown["private"] is True
    assert {name: shown[name] for name in run.progress()} == run.progress()
    said = capfd.readouterr().err
    assert f"makes {sampler.n_trials} trials" in said
    assert "Spends: all of the ledger's mu=1. " in said
    assert "NOT PRIVATE" not in caplog.text
