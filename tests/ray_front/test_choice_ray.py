"""A finished experiment of public rows in Tune, and one private choice among what it proposes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from sklearn.linear_model import LogisticRegression

import dptune
import dptune_optuna
import dptune_ray
from dptune.privacy.noise import SeededNoise
from dptune_ray.choice import _ranked
from dptune_sklearn import PrivateSearch
from ray_harness import folder_bytes, found, object_store_bytes, open_ledger, random_search

pytestmark = pytest.mark.ray
ROWS, N = 60, 80
_rng = np.random.default_rng(7)
X = _rng.normal(size=(ROWS + N, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=ROWS + N) > 0).astype(int)
PUBLIC, PEOPLE = (X[:ROWS].copy(), Y[:ROWS].copy()), (X[ROWS:].copy(), Y[ROWS:].copy())
del X, Y


def logit(config, X, y):
    return LogisticRegression(C=config["C"]).fit(X, y)


def experiment(folder, trainable=None, samples=6, **tuning):
    """Return the results of an ordinary experiment on public rows."""

    def ordinary(config):
        for step in range(1, 3):
            if config["C"] < 3e-4:
                raise ValueError("too small")
            tune.report({"loss": abs(np.log(config["C"])) / step})

    once = {"reuse_actors": True, "max_concurrent_trials": 1}  # starting a process takes longer than the trials
    about = tune.TuneConfig(metric="loss", mode="min", num_samples=samples, **once, **tuning)
    run = tune.RunConfig(name="experiment", storage_path=str(folder / "tune"), verbose=0)
    space = {"C": tune.loguniform(1e-5, 1e3)}
    return tune.Tuner(trainable or ordinary, param_space=space, tune_config=about, run_config=run).fit()


def chosen(folder, results, train=logit, **about):
    about = {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "cv": 3, **about}
    if "privatizer" not in about:
        about.setdefault("ledger", open_ledger(folder))
    return dptune_ray.choose(results, train, **about)


@pytest.fixture(scope="module")
def results(cluster, tmp_path_factory):
    scheduler = ASHAScheduler(max_t=3)
    return experiment(tmp_path_factory.mktemp("results"), search_alg=random_search(seed=1), scheduler=scheduler)


def test_finalists_train_in_tasks_and_the_choice_is_that_of_the_other_front_end(results, tmp_path):
    made = []
    for name in ("ray", "optuna"):
        (tmp_path / name).mkdir()
        privatizer = dptune.LossPrivatizer(open_ledger(tmp_path / name), n=N, noise=SeededNoise(3))
        about = {"privatizer": privatizer, "default": {"C": 1e-3}, "name": "c"}
        if name == "ray":
            made.append(chosen(tmp_path, results, **about))
            continue
        configs = [results[i].config for i in _ranked(results, None, None)]
        study = dptune_optuna.choice.optuna.create_study()
        for place, config in enumerate(configs):
            space = {"C": dptune_optuna.choice.optuna.distributions.FloatDistribution(1e-5, 1e3, log=True)}
            study.add_trial(
                dptune_optuna.choice.optuna.trial.create_trial(params=config, distributions=space, value=float(place))
            )
        about |= {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "cv": 3, "progress": False}
        made.append(dptune_optuna.choose(study, lambda trial, X, y: logit(trial.params, X, y), **about))
    assert made[0].params == made[1].params
    assert made[0].selection == made[1].selection
    np.testing.assert_array_equal(made[0].model.coef_, made[1].model.coef_)


def test_every_front_end_leaves_the_same_share_for_a_report(results, tmp_path):
    for name in ("optuna", "sklearn"):
        (tmp_path / name).mkdir()
    made = {"ray": chosen(tmp_path, results, default={"C": 1e-3}, report_share=0.36)}
    study = dptune_optuna.choice.optuna.create_study()
    space = {"C": dptune_optuna.choice.optuna.distributions.FloatDistribution(1e-5, 1e3, log=True)}
    for place, C in enumerate([1e-3, 1e-1, 10.0]):
        trial = dptune_optuna.choice.optuna.trial.create_trial(params={"C": C}, distributions=space, value=float(place))
        study.add_trial(trial)
    about = {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "cv": 3, "report_share": 0.36}
    made["optuna"] = dptune_optuna.choose(
        study, lambda trial, X, y: logit(trial.params, X, y), ledger=open_ledger(tmp_path / "optuna"),
        default={"C": 1e-3}, progress=False, **about,
    )  # fmt: skip
    search = PrivateSearch(
        LogisticRegression(), {"C": [1e-3, 1e-1, 10.0]}, ledger=open_ledger(tmp_path / "sklearn"), loss="log_loss",
        n_trials=3, cv=3, report_share=0.36, default={"C": 1e-3},
    ).fit(*PUBLIC, X_val=PEOPLE[0], y_val=PEOPLE[1])  # fmt: skip
    selections = {"": made["ray"].selection, "optuna": made["optuna"].selection, "sklearn": search.selection_}
    for folder, selection in selections.items():
        assert selection.mu == pytest.approx(0.8)
        ledger = open_ledger(tmp_path / folder)
        found = dptune.report(made["ray"].model, dptune.LossPrivatizer(ledger, n=N), data=PEOPLE, public=PUBLIC)
        if selection.improvement is None:  # the default won: what its estimate would have cost is the report's, too
            assert found.mu > 0.6
        else:
            assert found.mu == pytest.approx(0.6)
        assert ledger.spent() == pytest.approx(1.0)


def test_an_estimator_will_do_and_the_answer_is_kept(results, tmp_path):
    first = chosen(tmp_path, results, LogisticRegression())
    assert (first.params, first.selection) == (lambda c: (c.params, c.selection))(chosen(tmp_path, results))
    assert open_ledger(tmp_path).count("experiment (choice)") >= 1
    assert "one private choice" in first.summary()


def test_results_are_ranked_by_the_experiment_s_metric_and_failed_ones_left_out(results):
    values = [results[i].metrics["loss"] for i in _ranked(results, None, None)]
    assert values == sorted(values)
    assert len(values) == len(results) - results.num_errors
    assert _ranked(results, "loss", "max") == _ranked(results, None, None)[::-1]


def a_mistake(config, X, y):
    raise ZeroDivisionError("a public mistake")


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"results": [1, 2]}, "what Tuner.fit"),
        ({"train": 3}, "must be a function"),
        ({"public": None}, r"needs public=\(X, y\)"),
        ({"metric": "no"}, "finite 'no'"),
        ({"train": a_mistake}, "could not be trained.*ZeroDivisionError: a public mistake"),
        ({"data": PUBLIC}, "can reach the private data"),
        ({"public_losses": np.zeros((2, ROWS))}, "one row for each configuration"),
    ],
)
def test_mistakes_are_told_before_anything_is_charged(results, tmp_path, about, says):
    given, train = about.pop("results", results), about.pop("train", logit)
    with pytest.raises(dptune.InputError, match=f"(?s){says}"):
        chosen(tmp_path, given, train, **about)
    assert open_ledger(tmp_path).spent() == 0


@pytest.mark.slow
def test_no_private_row_is_in_a_file_of_ray_on_the_console_or_in_an_object_store(
    results, tmp_path, cluster, capfd: Any
):
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=N)
    choice = chosen(tmp_path, results, privatizer=privatizer, default={"C": 1e-3})
    time.sleep(2)
    losses = -np.log(choice.model.predict_proba(PEOPLE[0])[np.arange(N), PEOPLE[1]])
    markers = [*PEOPLE[0].ravel()[:60].tolist(), *losses[:20].tolist(), float(losses.mean())]
    console = "".join(capfd.readouterr()).encode()
    assert found(markers, [("console", console)]) == []
    assert found(markers, [*folder_bytes(tmp_path, cluster)]) == []
    assert found(markers, [*object_store_bytes()]) == []
    public = [float(value) for value in PUBLIC[0].ravel()[:3]]
    assert found(public, [*object_store_bytes()]) != []  # the scan finds what tasks are given
