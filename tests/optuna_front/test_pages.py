"""What Optuna's own pages show: the name of the values, the noise beside each, and the note."""

import math
import warnings

import pytest

from dptune_optuna.studies import SIGMA
from harness import begun, open_ledger, ran


def run_study(folder, kind):
    """Run a whole study, with warnings as errors."""
    trials = 6 if kind == "values" else 12
    with warnings.catch_warnings(action="error"):
        _, study, objective = ran(kind, folder, trials, n_trials=trials)
    return study, objective


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
def test_values_have_a_name_and_their_noise_beside_them(tmp_path, front, name):
    study, _ = run_study(tmp_path, front)
    assert study.metric_names == [name]
    known = [t for t in study.trials if math.isfinite(t.value)]
    assert len(known) > len(study.trials) / 2
    charges = {c.key: c.description for c in open_ledger(tmp_path).charges("study", prefix="value/")}
    for trial in study.trials:  # nothing else is among the attributes; a centred trial has no release of its own
        of_noise = {} if front == "centred" else {SIGMA: charges[f"value/{trial.number}"]["sigma"]}
        assert trial.user_attrs == of_noise
    assert (f"`{SIGMA}` is the standard deviation" in note_of(study)) == (front != "centred")


def test_the_noise_beside_a_value_is_what_the_mechanism_draws_and_the_dashboard_reads_the_note(tmp_path):
    study, objective = run_study(tmp_path, "values")
    run = objective.run_of(study)
    width, mu = run.privatizer.loss_range, run.plan.monitor_mu
    for trial in study.trials:
        assert trial.user_attrs[SIGMA] == pytest.approx(width / (run.privatizer.n * mu), rel=1e-5)
    assert study.user_attrs["dptune:private"] is True
    assert {f"dptune:{name}": value for name, value in run.progress().items()}.items() <= study.user_attrs.items()
    assert "NOT PRIVATE" not in note_of(study)
    dashboard = pytest.importorskip("optuna_dashboard")
    assert dashboard.get_note(study) == note_of(study)


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


@pytest.mark.parametrize("front", ["values", "centred"])
def test_the_note_has_the_budget_and_in_the_end_the_recommendation(tmp_path, front):
    study, objective = run_study(tmp_path, front)
    recommended = objective.recommend(study) if front == "values" else study.sampler.recommend(study)
    text = note_of(study)
    assert "95%: mu = 0.975 of 1 is spent" in text
    assert f"x = `{recommended['x']:.4g}`" in text
    assert recommended.summary().replace("\n", "\n\n") in text
    objective.estimate(study, recommended)
    assert f"`{'█' * 30}` 100%: mu = 1 of 1 is spent" in note_of(study)
    assert study.user_attrs["dptune:mu_spent"] == open_ledger(tmp_path).spent()
