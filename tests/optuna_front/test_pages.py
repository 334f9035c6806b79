"""What Optuna's own pages show: the name of the values, the noise beside each, and the note."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest

from dptune.privacy.noise import SeededNoise
from dptune_optuna.studies import SIGMA
from harness import create, front, open_ledger, open_privatizer, ran


def run_study(folder: Path, kind: str, **more: Any) -> tuple[optuna.Study, Any]:
    """Run a whole study, with warnings as errors."""
    trials = 6 if kind == "values" else 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, study, objective = ran(kind, folder, trials, n_trials=trials, **more)
    return study, objective


def place_of(study: optuna.Study) -> tuple[Any, int]:
    return study._storage, study._study_id


def note_of(study: optuna.Study) -> str:
    """As optuna-dashboard reads it."""
    storage, identity = place_of(study)
    stored = storage.get_study_system_attrs(identity)
    parts = [key for key in stored if key.startswith("dashboard:note_str:")]
    return "".join(stored[f"dashboard:note_str:{i}"] for i in range(len(parts)))


@pytest.mark.parametrize(
    ("front", "name"),
    [
        ("values", "mean loss, noisy"),
        ("gibo", "mean loss, noisy"),
        ("centred", "mean loss, upper estimate: the centre's counts as 4"),
    ],
)
def test_values_have_a_name_and_their_noise_beside_them(tmp_path: Path, front: str, name: str) -> None:
    study, _ = run_study(tmp_path, front)
    assert study.metric_names == [name]
    known = [t for t in study.trials if math.isfinite(t.value)]
    assert len(known) > len(study.trials) / 2
    charges = {c.key: c.description for c in open_ledger(tmp_path).charges("study", prefix="value/")}
    for trial in study.trials:  # nothing else is among the attributes; a centred trial has no release of its own
        of_noise = {} if front == "centred" else {SIGMA: charges[f"value/{trial.number}"]["sigma"]}
        assert trial.user_attrs == of_noise
    assert (f"`{SIGMA}` is the standard deviation" in note_of(study)) == (front != "centred")


@pytest.mark.parametrize("seed", [None, 3])
def test_the_noise_beside_a_value_is_what_the_mechanism_draws(tmp_path: Path, seed: int | None) -> None:
    sampler, objective = front(
        "values", open_privatizer(tmp_path, noise=None if seed is None else SeededNoise(seed)), n_trials=4
    )
    study = create(None, sampler)
    study.optimize(objective, n_trials=4)
    run = objective.run_of(study)
    width, mu = run.privatizer.loss_range, run.plan.monitor_mu
    for trial in study.trials:
        assert trial.user_attrs[SIGMA] == pytest.approx(width / (run.privatizer.n * mu), rel=1e-5)
    assert study.user_attrs["dptune:private"] is (seed is None)
    assert ("NOT PRIVATE" in note_of(study)) == (seed is not None)


def test_the_first_generation_shows_no_constant_that_looks_like_a_result(tmp_path: Path) -> None:
    study, _ = run_study(tmp_path, "centred", storage=f"sqlite:///{tmp_path}/s.db")
    values = [t.value for t in study.trials]
    first = next(i for i, value in enumerate(values) if math.isfinite(value))
    assert values[:first] == [math.inf] * first
    assert len(set(values[first:])) == len(values) - first
    assert math.isfinite(study.best_value)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_name_and_a_note_of_the_users_stay(tmp_path: Path) -> None:
    sampler, objective = front("values", open_privatizer(tmp_path))
    study = create(None, sampler)
    study.set_metric_names(["score"])
    study.optimize(objective, n_trials=2)
    assert study.metric_names == ["score"]
    assert note_of(study).startswith("## Private search: values")
    storage, identity = place_of(study)
    storage.set_study_system_attr(identity, "dashboard:note_str:0", "my own words")
    study.optimize(objective, n_trials=1)
    assert note_of(study) == "my own words"


@pytest.mark.parametrize("front", ["values", "centred"])
def test_the_note_has_the_budget_and_in_the_end_the_recommendation(tmp_path: Path, front: str) -> None:
    study, objective = run_study(tmp_path, front)
    recommended = objective.recommend(study) if front == "values" else study.sampler.recommend(study)
    text = note_of(study)
    assert "95%: mu = 0.975 of 1 is spent" in text
    assert f"x = `{recommended['x']:.4g}`" in text
    assert recommended.summary().replace("\n", "\n\n") in text
    objective.estimate(study, recommended)
    assert f"`{'█' * 30}` 100%: mu = 1 of 1 is spent" in note_of(study)


def test_the_note_of_a_study_that_ends_with_a_choice_counts_the_choice(tmp_path: Path) -> None:
    study, _ = run_study(tmp_path, "centred", default={"x": 0.0, "y": 1.0})
    ledger = open_ledger(tmp_path)
    assert [charge.key for charge in ledger.charges("study")].count("choice") == 1
    assert study.user_attrs["dptune:mu_spent"] == ledger.spent()
    assert f"mu = {ledger.spent():.3g} of 1 is spent" in note_of(study)


def test_the_dashboard_reads_the_note(tmp_path: Path) -> None:
    dashboard = pytest.importorskip("optuna_dashboard")
    study, _ = run_study(tmp_path, "values")
    assert dashboard.get_note(study) == note_of(study)
