"""Only released values and public facts reach MLflow, on the pages that docs/optuna.md names."""

import csv
import io
import math
import re
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
from mlflow import MlflowClient

import dptune
from dptune.privacy.noise import SeededNoise
from dptune_mlflow import MLflowCallback, log_run
from dptune_mlflow.run import MLflowRun, _table
from dptune_optuna import CentredSampler
from harness import (
    FRONTS,
    SPACE,
    N,
    create,
    front,
    open_ledger,
    open_privatizer,
    people,
    people_s_losses,
    point,
    users_function,
)
from noises import CannedNoise, NoNoise

SECRET = 1234.56789
PAGE = Path(__file__).parents[2] / "docs/optuna.md"


@pytest.fixture(autouse=True, scope="module")
def settings():
    """Let MLflow write to a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        yield


def place(folder):
    return {"delta": 1e-5, "tracking_uri": f"file:{folder}/mlruns"}


@pytest.fixture
def where(tmp_path):
    return place(tmp_path)


def written(kind, folder, function=people_s_losses, **sources):
    """Run a study to its estimate; return it and its run."""
    sampler, objective = front(kind, open_privatizer(folder, **sources), function, n_trials=8)
    callback, study = MLflowCallback(objective, **place(folder)), create(None, sampler)
    study.optimize(objective, n_trials=20, callbacks=[callback])
    run = objective.run_of(study)
    objective.estimate(study, run.recommend())
    callback.update(study)
    return study, run


def runs_in(where):
    """Return a client, the study's run, and those of its trials in order."""
    client = MlflowClient(where["tracking_uri"])
    found = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    (parent,) = [run for run in found if "dptune.run" in run.data.tags]
    trials = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(trials) == len(found) - 1
    return client, parent, sorted(trials, key=lambda run: int(run.info.run_name.removeprefix("trial ")))


@pytest.mark.parametrize("kind", FRONTS)
def test_a_study_is_an_mlflow_run_with_nested_trials_and_the_answer(tmp_path, where, kind):
    study, run = written(kind, tmp_path)
    client, parent, trials = runs_in(where)
    assert (parent.info.run_name, parent.info.status) == ("study", "FINISHED")
    known = [trial for trial in study.trials if math.isfinite(trial.value)]
    assert 4 <= len(known) <= len(study.trials) == len(trials)
    for nested, trial in zip(trials, study.trials, strict=True):
        assert nested.data.params == {name: str(value) for name, value in trial.params.items()}
        shown = {"value": trial.value} if trial in known else {}
        if kind != "centred":  # which has no release for each trial
            shown["sigma"] = run.ledger.find("study", f"value/{trial.number}").description["sigma"]
        assert nested.data.metrics == shown
    curve = client.get_metric_history(parent.info.run_id, "value")
    assert [(at.step, at.value) for at in curve] == [(trial.number, trial.value) for trial in known]
    spent = client.get_metric_history(parent.info.run_id, "mu_spent")
    assert [at.step for at in spent][:8] == list(range(8))
    numbers, tags, best = parent.data.metrics, parent.data.tags, run.recommend()
    assert numbers["mu_spent"] == spent[-1].value == run.ledger.spent()
    assert numbers["mu_left"] == run.ledger.remaining()

    estimate = run.estimated(best)
    assert {name: tags[f"recommended.{name}"] for name in SPACE} == {name: str(best[name]) for name in SPACE}
    assert (numbers["loss"], numbers["loss_sigma"]) == (estimate.value, estimate.sigma)
    assert (numbers["loss_low"], numbers["loss_high"]) == estimate.interval()
    assert str(estimate) in tags["mlflow.note.content"]
    assert best.summary().replace("\n", "\n\n") in tags["mlflow.note.content"]
    assert tags["private"] == "True"
    statement, table = (
        Path(client.download_artifacts(parent.info.run_id, name)).read_text()
        for name in ("statement.txt", "released.csv")
    )
    assert statement == run.ledger.statement(delta=1e-5).to_text()
    released = [(row["release"], tuple(map(float, row["value"].split()))) for row in csv.DictReader(table.splitlines())]
    assert released == [(charge.key, charge.value) for charge in run.ledger.charges("study")]
    assert log_run(run.ledger, "study", recommended=best, **where) == parent.info.run_id  # it is found again


def records(folder):
    """Everything in the store but ids and times."""
    files = sorted(path for path in folder.rglob("mlruns/**/*") if path.is_file())
    text = "\n".join(f"{path}\n{path.read_text()}" for path in files).replace(str(folder), "<folder>")
    text = re.sub(r"\b([0-9a-f]{32}|\d{18})\b", "<id>", text)
    text = re.sub(r"\b\d{13}\b|\d{4}-\d\d-\d\d[T ][\d:.+]+", "<time>", text)
    return "\n".join(sorted(text.splitlines()))


def of_neighbours(front, kind, tmp_path, noise):
    neighbour = people()
    neighbour[7] = SECRET
    for name, data in (("a", people()), ("b", neighbour)):
        (tmp_path / name).mkdir()
        written(front, tmp_path / name, users_function(data, kind), noise=noise())
    return records(tmp_path / "a"), records(tmp_path / "b")


@pytest.mark.parametrize(("front", "kind"), [("centred", "raise"), ("gibo", "prune")])
def test_records_of_neighbouring_data_are_byte_identical(tmp_path, front, kind):
    mine, theirs = of_neighbours(front, kind, tmp_path, CannedNoise)
    assert mine == theirs
    assert str(SECRET) not in theirs
    assert "person 7" not in theirs
    assert "NOT PRIVATE" in theirs  # canned noise is called what it is


def test_records_differ_where_no_noise_hides_the_difference(tmp_path):
    mine, theirs = of_neighbours("values", "silent", tmp_path, NoNoise)
    assert mine != theirs


@pytest.mark.filterwarnings("ignore::dptune_optuna.sampler.UnprotectedValueWarning")
def test_of_a_trial_outside_the_shield_no_value_is_written(tmp_path, where):
    sampler, objective = front("gibo", open_privatizer(tmp_path), unprotected="allow")
    study, callback = create(None, sampler), MLflowCallback(sampler, **where)

    def unprotected(trial):
        trial.set_user_attr("mine", SECRET)
        trial.report(SECRET, 0)
        if trial.number > 1:
            raise [optuna.TrialPruned, ValueError][trial.number - 2](SECRET)
        point(trial)
        return SECRET

    study.optimize(objective, n_trials=1, callbacks=[callback])
    study.optimize(unprotected, n_trials=3, callbacks=[callback], catch=ValueError)
    trials = runs_in(where)[2]
    assert [run.info.status for run in trials] == ["FINISHED", "FINISHED", "KILLED", "FAILED"]
    assert [set(run.data.metrics) for run in trials] == [{"value", "sigma"}, set(), set(), set()]
    assert str(SECRET) not in records(tmp_path)


def test_runs_of_one_name_in_two_ledgers_or_of_two_names_in_one_are_two(tmp_path, where):
    """Each keeps its own numbers, whichever is written last, and is found again."""
    ids, client, where["experiment"] = {}, MlflowClient(where["tracking_uri"]), "all"
    for name, mu, noise in (("a", 0.3, {}), ("b", 0.3, {"noise": SeededNoise(1)}), ("a", 0.6, {}), ("a", 0.3, {})):
        (tmp_path / str(mu)).mkdir(exist_ok=True)
        one = open_privatizer(tmp_path / str(mu), **noise)
        one.observe("x", np.zeros(N))
        one.release(one.mean_query("x", mu), scope=name, key="1")
        made = log_run(one.ledger, name, **where)
        assert ids.setdefault((name, mu), made) == made
        assert client.get_run(made).info.run_name == name
    assert len(set(ids.values())) == 3
    data = {key: client.get_run(run).data for key, run in ids.items()}
    assert data["a", 0.6].metrics["mu_spent"] == pytest.approx(0.6)
    assert data["a", 0.3].metrics["mu_spent"] == pytest.approx(0.3 * 2**0.5)  # brought up to date
    assert data["a", 0.6].tags["private"] == "True"
    assert data["a", 0.3].tags["private"] == "False"  # another run of its ledger is not


def test_what_cannot_be_written_is_refused_by_name(tmp_path, where):
    sampler, unknown = (front("centred", open_privatizer(tmp_path))[0], CentredSampler(open_privatizer(tmp_path)))
    for use, says in (
        (lambda: MLflowCallback(sampler), "delta"),
        (lambda: MLflowCallback(optuna.samplers.TPESampler(), **where), "TPESampler"),
        (lambda: log_run(open_ledger(tmp_path), "svm", **where), "nothing for a run named 'svm'"),
        (lambda: MLflowCallback(unknown, **where).update(create(None, unknown)), "nothing to write"),
    ):
        with pytest.raises(dptune.InputError, match=says):
            use()
    with pytest.raises(TypeError, match="experimnt"):  # it would be written to another place
        MLflowRun(unknown._runs.request.ledger, "svm", **where, experimnt="ours")


def test_without_mlflow_the_extra_is_named(tmp_path, where, monkeypatch):
    sampler, objective = front("centred", open_privatizer(tmp_path))
    study, callback = create(None, sampler), MLflowCallback(sampler, **where)
    callback(study, optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL))  # nothing has begun
    assert not (tmp_path / "mlruns").exists()
    study.optimize(objective, n_trials=1)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(dptune.errors.MissingExtra, match=r"dptune\[mlflow\]"):
        callback.update(study)


def test_the_page_runs(tmp_path, where):
    section = PAGE.read_text().partition("\n## MLflow\n")[2].partition("\n## ")[0]
    sampler, model = front("centred", open_privatizer(tmp_path), n_trials=12)
    known = {"sampler": sampler, "model": model, "study": create(None, sampler)}
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(code.replace("sqlite:///mlflow.db", where["tracking_uri"]), known)
    parent = runs_in(where)[1]
    assert {name for name in parent.data.metrics if f"`{name}`" not in section} == set()


def test_the_table_of_releases_is_that_of_the_charges(tmp_path):
    one = open_privatizer(tmp_path)
    for key, mu in (("1", 0.3), ("2", 0.2)):
        one.observe("x", np.zeros(N))
        one.release(one.mean_query("x", mu), scope="a", key=key)
    pair = dptune.PrivacyLedger(tmp_path / "pair.db", dptune.Budget.approximate_dp(1.0, 1e-5))
    losses = np.random.default_rng(0).uniform(size=(3, 90))
    dptune.select(losses[:, :40], pair, name="a", public_losses=losses[:, 40:])
    charges = [*one.ledger.charges(), *pair.charges()]
    assert charges[-1].mu is None  # it has a limit of its own
    for row, charge in zip(csv.DictReader(io.StringIO(_table(charges))), charges, strict=True):
        said = charge.description
        assert (row["run"], row["release"], row["what"]) == ("a", charge.key, said["statistic"])
        assert [float(row[name]) for name in ("mu", "sigma", "value")] == [said["mu"], said["sigma"], *charge.value]
