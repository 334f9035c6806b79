"""Optuna's own pages show the name of the values, the noise of each value, and the note."""

import math
import warnings

import optuna
import pytest

from dptune_optuna.studies import SIGMA, TITLE, write_note
from harness import N, begun, ran


def note_of(study):
    """As optuna-dashboard reads it."""
    storage, identity = study._storage, study._study_id
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
def test_values_have_a_name_and_a_noise_level(tmp_path, front, name):
    """The study's note states the budget and the answer."""
    with warnings.catch_warnings(action="error"):
        _, study, objective = ran(front, tmp_path, 12, n_trials=12)
    run = objective.run_of(study)
    assert study.metric_names == [name]
    known = [t for t in study.trials if math.isfinite(t.value)]
    assert len(known) > len(study.trials) / 2
    charges = {c.key: c.description for c in run.ledger.charges("study", prefix="value/")}
    drawn = run.privatizer.loss_range / (N * run.plan.monitor_mu) if front != "centred" else None
    for trial in study.trials:  # nothing else is among the attributes; a centred trial has no release of its own
        of_noise = {} if front == "centred" else {SIGMA: charges[f"value/{trial.number}"]["sigma"]}
        assert trial.user_attrs == of_noise
        assert trial.user_attrs.get(SIGMA) == (drawn and pytest.approx(drawn, rel=1e-5))
    assert study.user_attrs["dptune:private"] is True
    assert {f"dptune:{name}": value for name, value in run.progress().items()}.items() <= study.user_attrs.items()

    recommended, text = run.recommend(), note_of(study)
    assert "NOT PRIVATE" not in text
    assert (f"`{SIGMA}` is the standard deviation" in text) == (front != "centred")
    assert f"mu = {run.ledger.spent():.3g} of 1 is spent" in text
    assert f"x = `{recommended['x']:.4g}`" in text
    assert recommended.summary().replace("\n", "\n\n") in text
    objective.estimate(study, recommended)
    if front != "gibo":  # which need not spend all that is planned
        assert "95%: mu = 0.975 of 1 is spent" in text
        assert f"`{'█' * 30}` 100%: mu = 1 of 1 is spent" in note_of(study)
    assert study.user_attrs["dptune:mu_spent"] == run.ledger.spent()


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_name_and_a_note_of_the_users_stay(tmp_path):
    _, study, objective = begun("values", tmp_path)
    study.set_metric_names(["score"])
    study.optimize(objective, n_trials=2)
    assert study.metric_names == ["score"]
    assert note_of(study).startswith("## Private search: values")
    study._storage.set_study_system_attr(study._study_id, "dashboard:note_str:0", "my own words")
    study.optimize(objective, n_trials=1)
    assert note_of(study) == "my own words"


def test_a_shorter_note_replaces_a_longer_one():
    study = optuna.create_study()
    for text in (f"{TITLE} {'long ' * 2000}", f"{TITLE} short", f"{TITLE} {'longer ' * 600}"):
        write_note(study, text)
        assert note_of(study) == text


def test_the_dashboard_reads_the_note(tmp_path):
    dashboard = pytest.importorskip("optuna_dashboard")
    _, study, _ = ran("values", tmp_path, 2)
    assert dashboard.get_note(study) == note_of(study) != ""
