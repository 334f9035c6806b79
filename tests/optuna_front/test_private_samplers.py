"""Private samplers, and any sampler with a PrivateObjective, handle odd trials, restarts, refusals and answers."""

import math
import pickle

import numpy as np
import optuna
import pytest
from optuna.samplers import CmaEsSampler, RandomSampler, TPESampler
from optuna.trial import TrialState
from sklearn.dummy import DummyClassifier

import dptune
from dptune.ledger import entries
from dptune.privacy.noise import SeededNoise
from dptune_optuna import CentredSampler, DPGIBOSampler, PrivateObjective
from harness import (
    OPEN,
    SPACE,
    N,
    begun,
    create,
    front,
    keys,
    losses_at,
    objective_of,
    open_ledger,
    open_privatizer,
    open_sampler,
    people,
    people_s_losses,
    point,
    ran,
    spend_elsewhere,
    stored,
)
from noises import NoNoise

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
BOTH = pytest.mark.parametrize("kind", OPEN)


# ---- a run from its first trial to its last -------------------------------------------------------------


def test_the_value_of_a_centred_trial_is_what_was_known_when_it_ended(tmp_path):
    sampler, study, objective = begun("centred", tmp_path, n_trials=12)
    for i in range(sampler.n_trials):
        study.optimize(objective, n_trials=1)
        run = sampler.run_of(study)
        known = run.algorithm.value(run.space.encode(study.trials[-1].params))
        assert study.trials[-1].value == (math.inf if known is None else 4 + known)
        assert (known is None) == (i < run.plan.settings.population - 1)  # nothing is released yet
        assert study.trials[-1].value > people_s_losses(study.trials[-1]).mean()  # an upper estimate
    assert len({t.value for t in study.trials}) > sampler.n_trials / 2


@BOTH
@pytest.mark.filterwarnings("ignore:24 trials have ended", "ignore:Fixed parameter")
def test_odd_trials_and_a_restart_do_not_block_the_run(tmp_path, kind):
    sampler, study, objective = begun(kind, tmp_path, storage=stored(tmp_path))
    study.enqueue_trial({"x": 7.0, "y": 1.0})  # outside the space
    study.optimize(objective, n_trials=1)
    run = sampler.run_of(study)
    assert (run.algorithm.points_in_use(), run.privatizer.points()) == ((), ())
    assert keys(tmp_path) == (["value/0"] if kind == "gibo" else [])
    study.enqueue_trial({"x": 0.5})
    study.ask()  # stale: it never comes back
    study.add_trial(optuna.create_trial(params={"x": 0.0, "y": 1.0}, distributions=SPACE, value=0.1))
    study.tell(study.ask(), state=TrialState.FAIL)
    study.tell(study.ask(), state=TrialState.PRUNED)
    study.optimize(objective, callbacks=[lambda study, _: study.stop()])  # as at a timeout: the run goes on
    study.optimize(objective, n_trials=9)
    found, spent = sampler.recommend(study), open_ledger(tmp_path).spent()
    second, study, objective = begun(kind, tmp_path, storage=stored(tmp_path))
    assert second.recommend(study) == found
    assert open_ledger(tmp_path).spent() == spent
    study.optimize(objective, n_trials=sampler.n_trials + 9)
    assert second.run_of(study).complete
    assert spent < open_ledger(tmp_path).spent() <= 1.0
    assert len(keys(tmp_path)) == len(set(keys(tmp_path)))


def test_a_study_stops_when_its_plan_is_complete(tmp_path):
    """More trials are refused before training."""
    (sampler, study, objective), calls = begun("gibo", tmp_path, monitor_share=0.0, n_trials=12), []
    study.optimize(objective, n_trials=None)
    assert sampler.run_of(study).complete
    assert len(study.trials) == sampler.n_trials
    assert {t.value for t in study.trials} == {math.inf}  # withheld, which could not look good
    assert keys(tmp_path, "value/") == []
    study.optimize(sampler.objective(calls.append), n_trials=5)
    assert [t.state for t in study.trials].count(TrialState.PRUNED) == 1
    with pytest.raises(dptune.PlanComplete):
        sampler.objective(calls.append)(study.ask())
    assert not calls


def test_a_study_without_a_space_and_a_budget_is_refused_before_training(tmp_path):
    sampler, calls = CentredSampler(open_privatizer(tmp_path), n_trials=24), []
    spend_elsewhere(open_privatizer(tmp_path), 1.0)
    with pytest.raises(dptune.BudgetExhausted):
        create(None, sampler).optimize(sampler.objective(calls.append), n_trials=1)
    assert not calls


# ---- the search space -------------------------------------------------------------------------------------


@pytest.mark.parametrize("warn", [True, False])
def test_parameters_outside_the_space_are_drawn_with_a_warning(tmp_path, caplog, warn):
    sampler = open_sampler(open_privatizer(tmp_path), warn_independent_sampling=warn, n_trials=12)
    study = create(None, sampler)
    caplog.set_level("WARNING", "optuna.dptune")

    @sampler.objective
    def losses(trial):
        trial.suggest_categorical("kernel", ["rbf", "poly"])
        if trial.number % 2:
            trial.suggest_float("only_sometimes", 0, 1)
        return people_s_losses(trial)

    study.optimize(losses, n_trials=sampler.n_trials)
    told = [any(name in m for m in caplog.messages) for name in ("'kernel'", "'only_sometimes'", "'x' in trial")]
    assert told == [warn, warn, False]
    assert sampler.run_of(study).complete


def test_without_a_space_the_first_trial_of_each_study_fixes_it(tmp_path):
    sampler, again = (DPGIBOSampler(privatizer=open_privatizer(tmp_path), n_trials=20, mu=0.5, seed=0) for _ in "ab")
    for use, says in (
        (
            sampler.objective(lambda trial: np.zeros(N)),
            "the first trial had no float or int parameter.*`choose`.*dptune.select",
        ),
        (lambda trial: sampler.n_trials, "without n_trials: the study stops when its plan is complete"),
        (lambda trial: sampler.recommend(trial.study), "nothing to recommend"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            use(create(None, sampler, "none").ask())
    for name in ("one", "two"):
        study = create(stored(tmp_path), sampler, name)
        study.optimize(objective_of(sampler), n_trials=5)
        assert set(sampler.run_of(study).space) == {"x", "y"}
        restarted = create(stored(tmp_path), again, name)
        assert again.run_of(restarted).space.describe() == sampler.run_of(study).space.describe()


# ---- what is shown and what is answered -------------------------------------------------------------------


@BOTH
def test_the_answers_loss_is_released_once_and_compared_to_the_defaults(tmp_path, kind):
    default, trained = {"x": -0.9, "y": 5.0}, []
    sampler, study, objective = ran(kind, tmp_path, default=default, n_trials=12)
    assert sampler.n_trials == sampler.run_of(study).plan.trials == len(study.trials)
    best = sampler.recommend(study)
    assert best.defaults == default
    estimate = objective.estimate(study, best)
    assert objective.estimate(study, best) == estimate
    low, high = estimate.interval(1 - 1e-9)
    assert low < losses_at(people(), **best).mean() < high
    assert estimate.private
    assert (estimate.improvement is not None) == (best != default)  # the noise decides, in this unseeded run
    with pytest.raises(dptune.errors.KeyConflict):
        sampler.objective(trained.append).estimate(study, {"x": 0.0, "y": 1.0})
    assert not trained


@BOTH
def test_without_noise_an_estimate_is_the_loss_and_the_gain(tmp_path, kind):
    default, p = {"x": -0.9, "y": 5.0}, open_privatizer(tmp_path, noise=NoNoise())
    sampler, objective = front(kind, p, default=default, n_trials=12)
    study = create(None, sampler)
    study.optimize(objective, n_trials=sampler.n_trials)
    wanted = {"x": 0.3, "y": 0.7}
    estimate = objective.estimate(study, wanted)
    here, there = (np.clip(losses_at(people(), **each), 0, 4).mean() for each in (wanted, default))
    assert estimate.value == pytest.approx(here, rel=1e-5)
    assert estimate.improvement.value == pytest.approx(there - here, rel=1e-5)


def test_a_seeded_run_says_so_in_its_study_and_in_each_line_of_the_log(tmp_path, caplog):
    sampler = open_sampler(open_privatizer(tmp_path, noise=SeededNoise(3)))
    study = create(None, sampler)
    study.optimize(objective_of(sampler), n_trials=7)
    assert study.user_attrs["dptune:private"] is False
    assert "NOT PRIVATE" in study._storage.get_study_system_attrs(study._study_id)["dashboard:note_str:0"]
    lines = [record.getMessage() for record in caplog.records if record.name == "optuna.dptune"]
    assert lines
    assert all("NOT PRIVATE" in line for line in lines)


# ---- PrivateObjective: any sampler, on privatised values --------------------------------------------------


@pytest.mark.parametrize("sampler", [TPESampler, CmaEsSampler])
def test_every_sampler_gets_released_values_and_a_copy_continues_the_plan(tmp_path, sampler):
    privatizer = open_privatizer(tmp_path)
    objective = PrivateObjective(people_s_losses, privatizer, n_trials=12)
    study = create(None, sampler(seed=0))
    study.optimize(objective, n_trials=8)
    study.optimize(pickle.loads(pickle.dumps(objective)), n_trials=4)
    assert [t.value for t in study.trials] == [c.value[0] for c in open_ledger(tmp_path).charges(prefix="value/")]
    assert open_ledger(tmp_path).spent() == pytest.approx(np.sqrt(0.95))
    assert objective.recommend(study) in [t.params for t in study.trials]
    assert privatizer.points() == ()
    objective.estimate(study, study.best_params)
    assert open_ledger(tmp_path).spent() == pytest.approx(1.0)


def test_a_fitted_estimator_and_a_named_loss_suffice(tmp_path, caplog):
    """The statement names studies that train on private rows."""
    private = np.zeros((N, 1)), np.arange(N) % 4 == 0  # a quarter differs from what most are

    def model(trial):
        return DummyClassifier().fit(point(trial) and [[0.0]] * 3, [True, False, False])

    about = {"loss": "zero_one", "data": private, "training": "private"}
    objective = PrivateObjective(model, open_privatizer(tmp_path, mu=50.0), n_trials=6, **about)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    estimate = objective.estimate(study, objective.recommend(study))
    assert abs(estimate.value - 0.25) < 6 * estimate.sigma
    assert any("zero_one" in line for line in caplog.messages)  # whose range is narrower than the clip
    assert open_ledger(tmp_path, 50.0).statement(delta=1e-5).trained == ("study",)


def test_what_cannot_be_minimised_or_estimated_is_refused_unpaid(tmp_path):
    def losses(trial):
        trial.suggest_categorical("kernel", ["rbf", "poly"])
        return people_s_losses(trial)

    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=3)
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    without_kernel = dict(objective.recommend(study))
    del without_kernel["kernel"]
    direction = r'direction="minimize".*stored keeps its direction.*study_name'
    for use, says in (
        (lambda: optuna.create_study(direction="maximize").optimize(objective, n_trials=1), direction),
        (lambda: optuna.create_study(directions=["minimize"] * 2).optimize(objective, n_trials=1), direction),
        (lambda: objective(study.best_trial), r"estimate\(study, parameters\)"),
        (lambda: objective.estimate(study, study.best_trial), "map names to values.*got FrozenTrial"),
        (lambda: objective.estimate(study, without_kernel), r"'kernel'.*estimate\(study, \{\*\*recommend"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            use()
    assert len(open_ledger(tmp_path).charges()) == 3


def test_the_work_of_a_trial_does_not_grow_with_the_ledger(tmp_path, monkeypatch):
    (_, study, objective), read, parse = begun("values", tmp_path, n_trials=30), [], entries.charge_of
    monkeypatch.setattr(entries, "charge_of", lambda row: read.append(row["key"]) or parse(row))
    each = []
    for trials in (2, 20, 2):
        read.clear()
        study.optimize(objective, n_trials=trials)
        each.append(len(read) / trials)
    assert 0 < each[-1] <= each[0]
