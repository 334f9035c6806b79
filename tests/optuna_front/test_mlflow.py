"""What reaches MLflow: released values and public facts, where its pages show them (docs/optuna.md)."""

from __future__ import annotations

import csv
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from mlflow import MlflowClient
from noises import CannedNoise, NoNoise

import dptune
from dptune.privacy.noise import SeededNoise
from dptune_mlflow import MLflowCallback, log_run
from harness import (
    FRONTS,
    SPACE,
    N,
    create,
    front,
    losses_of,
    open_ledger,
    open_privatizer,
    people,
    people_s_losses,
    point,
)

SECRET = 1234.56789
PAGE = Path(__file__).parents[2] / "docs/optuna.md"


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write to a folder, which MLflow allows where it is asked to."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return {"delta": 1e-5, "tracking_uri": f"file:{tmp_path}/mlruns"}


def written(kind: str, folder: Path, where: Any, function: Any = people_s_losses, **privatizer: Any) -> Any:
    """Run a study to its estimate; return it and its run."""
    sampler, objective = front(kind, open_privatizer(folder, **privatizer), function, n_trials=12)
    callback, study = MLflowCallback(objective, **where), create(None, sampler)
    study.optimize(objective, n_trials=30, callbacks=[callback])
    run = objective.run_of(study)
    objective.estimate(study, run.recommend())
    callback.update(study)
    return study, run


def runs_in(where: Any) -> Any:
    """Return a client, the study's run, and those of its trials in order."""
    client = MlflowClient(where["tracking_uri"])
    found = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    (parent,) = [run for run in found if "dptune.run" in run.data.tags]
    trials = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(trials) == len(found) - 1
    return client, parent, sorted(trials, key=lambda run: int(run.info.run_name.removeprefix("trial ")))


def artifact(client: Any, run: Any, name: str) -> str:
    return Path(client.download_artifacts(run.info.run_id, name)).read_text()


@pytest.mark.parametrize("kind", FRONTS)
def test_a_study_is_a_run_with_its_trials_nested(tmp_path: Path, where: Any, kind: str) -> None:
    study, run = written(kind, tmp_path, where)
    client, parent, trials = runs_in(where)
    assert (parent.info.run_name, parent.info.status) == ("study", "FINISHED")
    known = [trial for trial in study.trials if math.isfinite(trial.value)]
    assert 6 <= len(known) <= len(study.trials) == len(trials)
    for nested, trial in zip(trials, study.trials, strict=True):
        assert nested.data.params == {name: str(value) for name, value in trial.params.items()}
        shown = {"value": trial.value} if trial in known else {}
        if kind != "centred":  # which has no release for each trial
            shown["sigma"] = run.ledger.find("study", f"value/{trial.number}").description["sigma"]
        assert nested.data.metrics == shown
    curve = client.get_metric_history(parent.info.run_id, "value")
    assert [(at.step, at.value) for at in curve] == [(trial.number, trial.value) for trial in known]
    spent = client.get_metric_history(parent.info.run_id, "mu_spent")
    assert [at.step for at in spent][:12] == list(range(12))
    assert parent.data.metrics["mu_spent"] == spent[-1].value == run.ledger.spent()
    assert parent.data.metrics["mu_left"] == run.ledger.remaining()


@pytest.mark.parametrize("kind", FRONTS)
def test_the_answer_stands_with_the_study(tmp_path: Path, where: Any, kind: str) -> None:
    _, run = written(kind, tmp_path, where)
    client, parent, _ = runs_in(where)
    numbers, tags, best = parent.data.metrics, parent.data.tags, run.recommend()
    estimate = run.estimated(best)
    assert {name: tags[f"recommended.{name}"] for name in SPACE} == {name: str(best[name]) for name in SPACE}
    assert (numbers["loss"], numbers["loss_sigma"]) == (estimate.value, estimate.sigma)
    assert (numbers["loss_low"], numbers["loss_high"]) == estimate.interval()
    assert str(estimate) in tags["mlflow.note.content"]
    assert best.summary().replace("\n", "\n\n") in tags["mlflow.note.content"]
    assert tags["private"] == "True"
    assert artifact(client, parent, "statement.txt") == run.ledger.statement(delta=1e-5).to_text()
    rows, charges = csv.DictReader(artifact(client, parent, "released.csv").splitlines()), run.ledger.charges("study")
    assert [(row["release"], tuple(map(float, row["value"].split()))) for row in rows] == [
        (charge.key, charge.value) for charge in charges
    ]
    assert log_run(run.ledger, "study", recommended=best, **where) == parent.info.run_id  # it is found again


def records(folder: Path) -> str:
    """Everything in the store but ids and times."""
    files = sorted(path for path in folder.rglob("mlruns/**/*") if path.is_file())
    text = "\n".join(f"{path}\n{path.read_text()}" for path in files).replace(str(folder), "<folder>")
    text = re.sub(r"\b([0-9a-f]{32}|\d{18})\b", "<id>", text)
    text = re.sub(r"\b\d{13}\b|\d{4}-\d\d-\d\d[T ][\d:.+]+", "<time>", text)
    return "\n".join(sorted(text.splitlines()))


def fails(data: np.ndarray, kind: str) -> Any:
    """The user's function; that it fails is public, why is not."""

    def losses(trial: Any) -> np.ndarray:
        found = losses_of(data)(trial)
        if kind != "silent" and trial.number % 3 == 1:
            raise {"raise": ValueError, "prune": optuna.TrialPruned}[kind](f"person 7: {data[7]}")
        return found

    return losses


def of_neighbours(front: str, kind: str, tmp_path: Path, noise: Any) -> tuple[str, str]:
    neighbour = people()
    neighbour[7] = SECRET
    for name, data in (("a", people()), ("b", neighbour)):
        (tmp_path / name).mkdir()
        where = {"delta": 1e-5, "tracking_uri": f"file:{tmp_path / name}/mlruns"}
        written(front, tmp_path / name, where, fails(data, kind), noise=noise())
    return records(tmp_path / "a"), records(tmp_path / "b")


@pytest.mark.parametrize(
    ("front", "kind"), [*((front, "raise") for front in FRONTS), ("gibo", "silent"), ("values", "prune")]
)
def test_records_of_neighbouring_data_are_byte_identical(tmp_path: Path, front: str, kind: str) -> None:
    mine, theirs = of_neighbours(front, kind, tmp_path, CannedNoise)
    assert mine == theirs
    assert str(SECRET) not in theirs
    assert "person 7" not in theirs
    assert "NOT PRIVATE" in theirs  # canned noise is called what it is


def test_records_differ_where_no_noise_hides_the_difference(tmp_path: Path) -> None:
    mine, theirs = of_neighbours("values", "silent", tmp_path, NoNoise)
    assert mine != theirs


@pytest.mark.filterwarnings("ignore::dptune_optuna.UnprotectedValueWarning")
def test_of_a_trial_outside_the_shield_no_value_is_written(tmp_path: Path, where: Any) -> None:
    sampler, objective = front("gibo", open_privatizer(tmp_path), unprotected="allow")
    study, callback = create(None, sampler), MLflowCallback(sampler, **where)

    def unprotected(trial: optuna.Trial) -> float:
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


@pytest.mark.parametrize("seeded", [(), (0,), (1,), (0, 1)])
def test_a_run_is_private_if_and_only_if_all_its_ledgers_releases_are(
    tmp_path: Path, where: Any, seeded: tuple[int, ...]
) -> None:
    ledger = open_ledger(tmp_path)
    for i in range(2):
        noise = {"noise": SeededNoise(1)} if i in seeded else {}
        one = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 1.0), **noise)
        one.observe("x", np.zeros(N))
        one.release(one.mean_query("x", 0.3), scope="svm", key=str(i))
    run = MlflowClient(where["tracking_uri"]).get_run(log_run(ledger, "svm", **where))
    assert run.data.tags["private"] == str(not seeded)


def test_runs_of_one_name_in_two_ledgers_are_two_runs(tmp_path: Path, where: Any) -> None:
    """Each keeps its own numbers, whichever is written last, and is found again."""
    ids, client = {}, MlflowClient(where["tracking_uri"])
    for mu in (0.3, 0.6, 0.3):
        (tmp_path / str(mu)).mkdir(exist_ok=True)
        one = open_privatizer(tmp_path / str(mu))
        one.observe("x", np.zeros(N))
        one.release(one.mean_query("x", mu), scope="svm", key="1")
        made = log_run(one.ledger, "svm", **where)
        assert ids.setdefault(mu, made) == made
    assert len(set(ids.values())) == 2
    spent = {mu: client.get_run(run).data.metrics["mu_spent"] for mu, run in ids.items()}
    assert spent == {mu: pytest.approx(mu) for mu in ids}
    for mu, run in ids.items():
        assert (
            open_ledger(tmp_path / str(mu)).statement(delta=1e-5).to_text()
            == Path(client.download_artifacts(run, "statement.txt")).read_text()
        )


def test_runs_of_two_names_in_one_ledger_are_two_runs(tmp_path: Path, where: Any) -> None:
    one = open_privatizer(tmp_path)
    one.observe("x", np.zeros(N))
    for name in ("a", "b"):
        one.release(one.mean_query("x", 0.3), scope=name, key="1")
    where["experiment"] = "both"
    ids = [log_run(one.ledger, name, **where) for name in ("a", "b")]
    names = [MlflowClient(where["tracking_uri"]).get_run(run).info.run_name for run in ids]
    assert names == ["a", "b"]


def test_what_cannot_be_written_is_refused_by_name(tmp_path: Path, where: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, _ = front("centred", open_privatizer(tmp_path))
    with pytest.raises(dptune.InputError, match="delta"):
        MLflowCallback(sampler)
    with pytest.raises(dptune.InputError, match="TPESampler"):
        MLflowCallback(optuna.samplers.TPESampler(), **where)
    with pytest.raises(dptune.InputError, match="nothing for a run named 'svm'"):
        log_run(open_ledger(tmp_path), "svm", **where)
    study, callback = create(None, sampler), MLflowCallback(sampler, **where)
    callback(study, optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL))  # nothing has begun
    assert not (tmp_path / "mlruns").exists()
    monkeypatch.setitem(sys.modules, "mlflow", None)
    study.optimize(sampler.objective(people_s_losses), n_trials=1)
    with pytest.raises(dptune.MissingExtra, match=r"dptune\[mlflow\]"):
        callback.update(study)


def test_the_page_runs(tmp_path: Path, where: Any) -> None:
    section = PAGE.read_text().partition("\n## MLflow\n")[2].partition("\n## ")[0]
    sampler, model = front("centred", open_privatizer(tmp_path), n_trials=12)
    known = {"sampler": sampler, "model": model, "study": create(None, sampler)}
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(code.replace("sqlite:///mlflow.db", where["tracking_uri"]), known)
    parent = runs_in(where)[1]
    assert {name for name in parent.data.metrics if f"`{name}`" not in section} == set()
