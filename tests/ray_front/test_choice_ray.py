"""A finished experiment of public rows in Tune proposes candidates, of which one private choice takes one."""

import contextlib
import copy
import time
from typing import Any

import joblib
import numpy as np
import optuna
import pytest
from ray import tune
from ray.util.joblib import register_ray
from sklearn.linear_model import LogisticRegression

import dptune
import dptune_optuna
import dptune_ray
from dptune.privacy.noise import SeededNoise
from dptune_ray.choice import _ranked
from ray_harness import folder_bytes, found, object_store_bytes, open_ledger

pytestmark = pytest.mark.ray
ROWS, N = 60, 80
_rng = np.random.default_rng(7)
X = _rng.normal(size=(ROWS + N, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=ROWS + N) > 0).astype(int)
PUBLIC, PEOPLE = (X[:ROWS].copy(), Y[:ROWS].copy()), (X[ROWS:].copy(), Y[ROWS:].copy())
del X, Y
RANKED, FAILS = [0.2, 10.0, 1e-3], 1e-5  # values of C


def logit(config, X, y):
    return LogisticRegression(C=config["C"]).fit(X, y)


def chosen(folder, results, train=logit, **about):
    tasks = {"num_cpus": 2}  # one at a time, in one process: to start another one takes longer than they
    about = {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "cv": 3, "task_options": tasks, **about}
    if "ledger" not in about:
        about["ledger"] = open_ledger(folder)
    return dptune_ray.choose(results, train, **about)


@pytest.fixture(scope="module")
def results(cluster, tmp_path_factory):
    """The results of an ordinary experiment on public rows, one of which failed."""

    def ordinary(config):
        if config["C"] == FAILS:
            tune.report({"loss": 0.0})
            raise ValueError("it reported the best loss, and crashed")
        loss = abs(np.log(config["C"]))
        tune.report({"loss": loss, "eval": {"loss": 1 / loss, "per": {"row": -loss}, "kind": "hinge"}})

    once = {"reuse_actors": True, "max_concurrent_trials": 1}  # starting a process takes longer than the trials
    run = tune.RunConfig(name="experiment", storage_path=str(tmp_path_factory.mktemp("results")), verbose=0)
    space = {"C": tune.grid_search([*RANKED[::-1], FAILS])}
    about = tune.TuneConfig(metric="loss", mode="min", **once)
    return tune.Tuner(ordinary, param_space=space, tune_config=about, run_config=run).fit()


def test_finalists_train_in_tasks_and_the_choice_equals_that_of_optuna(results, tmp_path, caplog):
    assert results.num_errors == 1
    caplog.set_level("INFO", "dptune_ray.choice")
    privatizers = []
    for name in ("ray", "optuna"):
        (tmp_path / name).mkdir()
        privatizers.append(dptune.LossPrivatizer(open_ledger(tmp_path / name), n=N, noise=SeededNoise(3)))
    about = {"default": {"C": 1e-3}, "name": "c"}

    def in_a_task(config, X, y):
        import ray  # at the top it would be a way, through pytest's import hook, to PEOPLE

        model = logit(config, X, y)
        model.cpus_ = ray.get_runtime_context().get_assigned_resources()["CPU"]
        return model

    mine = chosen(tmp_path, results, in_a_task, ledger=privatizers[0], **about)
    assert mine.model.cpus_ == 2  # of task_options
    assert "Of 4 trials 1 ended with an error and are not candidates. Plan: " in caplog.text
    study, space = optuna.create_study(), {"C": optuna.distributions.FloatDistribution(1e-5, 1e3, log=True)}
    for place, C in enumerate(RANKED):
        study.add_trial(optuna.trial.create_trial(params={"C": C}, distributions=space, value=float(place)))
    about |= {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "cv": 3, "progress": False}
    theirs = dptune_optuna.choose(study, lambda trial, X, y: logit(trial.params, X, y), ledger=privatizers[1], **about)
    assert mine.params == theirs.params
    assert mine.selection == theirs.selection
    np.testing.assert_array_equal(mine.model.coef_, theirs.model.coef_)


def test_an_estimator_suffices_and_a_share_remains_for_a_report(results, tmp_path):
    """A repeated choice returns the stored answer."""
    first = chosen(tmp_path, results, LogisticRegression(), report_share=0.36)
    again = chosen(tmp_path, results, report_share=0.36)
    assert (first.params, first.selection) == (again.params, again.selection)
    ledger = open_ledger(tmp_path)
    assert ledger.count("experiment (choice)") >= 1
    assert "one private choice" in first.summary()
    assert first.selection.mu == pytest.approx(0.8)
    dptune.report(first.model, dptune.LossPrivatizer(ledger, n=N), data=PEOPLE, public=PUBLIC)
    assert ledger.spent() == pytest.approx(1.0)


def test_a_dry_run_and_averages_on_the_cluster(results, tmp_path):
    """A plan stores nothing and reads nobody; an average is one more candidate."""
    ledger = open_ledger(tmp_path)
    planned = chosen(tmp_path, results, ledger=ledger, data=None, n=N, dry_run=True, averages=True)
    assert f"Plan: {N} private people choose among" in str(planned)
    assert (planned.selection, planned.model, ledger.spent(), ledger.facts("plan")) == (None, None, 0, {})
    found = chosen(tmp_path, results, ledger=ledger, averages=True)
    assert found.name == planned.name
    assert found.selection.candidates > len(RANKED)
    assert found.model.predict_proba(PUBLIC[0]).shape == (ROWS, 2)


@pytest.mark.slow  # its workers start for a minute on a busy machine
def test_ray_s_backend_of_joblib_makes_the_choice_of_one_process(cluster, tmp_path):
    register_ray()
    study, space = optuna.create_study(), {"C": optuna.distributions.FloatDistribution(1e-5, 1e3, log=True)}
    for place, C in enumerate(RANKED):
        study.add_trial(optuna.trial.create_trial(params={"C": C}, distributions=space, value=float(place)))
    found = []
    for name, backend in (("one", contextlib.nullcontext()), ("ray", joblib.parallel_config("ray", n_jobs=2))):
        (tmp_path / name).mkdir()
        privatizer = dptune.LossPrivatizer(open_ledger(tmp_path / name), n=N, noise=SeededNoise(3))
        about = {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "cv": 3, "progress": False, "name": "c"}
        with backend:
            choice = dptune_optuna.choose(study, LogisticRegression(), ledger=privatizer, **about)
        found.append((choice.params, choice.selection, choice.model.coef_.tolist()))
    assert found[0] == found[1]


def test_ties_are_ranked_by_trial_whatever_the_order_of_results(results):
    """A restored experiment lists its trials in another order."""
    turned = copy.copy(results)
    turned._results = results._results[::-1]
    orders = [
        [grid[one.place].metrics["trial_id"] for one in _ranked(grid, "training_iteration", "min", saved=False)]
        for grid in (results, turned)
    ]
    assert len(orders[0]) == len(RANKED)
    assert orders[0] == orders[1]


def test_a_metric_of_a_nested_dictionary_has_tunes_name(results):
    orders = [[one.place for one in _ranked(results, name, "min", saved=False)] for name in ("loss", "eval/per/row")]
    assert orders[0] == orders[1][::-1] == [one.place for one in _ranked(results, "eval/loss", "max", saved=False)]


def a_mistake(config, X, y):
    raise ZeroDivisionError("a public mistake")


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"results": [1, 2]}, "what Tuner.fit"),
        ({"mode": "sideways"}, """give metric= and mode="min" or "max"; there are 'loss' and 'sideways'"""),
        ({"metric": "no"}, "finite 'no'. Finite is 'loss', 'eval/loss', 'eval/per/row'. Nothing"),
        ({"metric": "eval"}, "finite 'eval'"),
        ({"metric": "eval/kind"}, "finite 'eval/kind'"),
        ({"train": None}, "needs either train, a function"),
        ({"train": a_mistake}, "failed on public rows.*ZeroDivisionError: a public mistake"),
        ({"data": PUBLIC}, "^public=.* shares memory"),
    ],
)
def test_mistakes_are_told_before_anything_is_charged(results, tmp_path, about, says):
    given, train = about.pop("results", results), about.pop("train", logit)
    with pytest.raises(dptune.InputError, match=f"(?s){says}"):
        chosen(tmp_path, given, train, **about)
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.slow
def test_no_private_row_is_in_rays_files_console_or_object_store(results, tmp_path, cluster, capfd: Any):
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=N)
    choice = chosen(tmp_path, results, ledger=privatizer, default={"C": 1e-3})
    time.sleep(2)
    losses = -np.log(choice.model.predict_proba(PEOPLE[0])[np.arange(N), PEOPLE[1]])
    markers = [*PEOPLE[0].ravel()[:60].tolist(), *losses[:20].tolist(), float(losses.mean())]
    console = "".join(capfd.readouterr()).encode()
    assert found(markers, [("console", console)]) == []
    assert found(markers, [*folder_bytes(tmp_path, cluster)]) == []
    assert found(markers, [*object_store_bytes()]) == []
    public = [float(value) for value in PUBLIC[0].ravel()[:3]]
    assert found(public, [*object_store_bytes()]) != []  # the scan finds what tasks are given
