"""SelectionObjective: a study sees a constant, and one trial is chosen at the end, for one price."""

import math

import numpy as np
import optuna
import pytest
from optuna.samplers import GridSampler, PartialFixedSampler, QMCSampler, RandomSampler, TPESampler

import dptune
from dptune_optuna import SelectionObjective
from harness import stored

N = 30


def function(trial):
    """Kind "good" is better for everybody."""
    kind = trial.suggest_categorical("kind", ["bad", "good", "ugly"])
    if kind == "ugly":
        return np.full(N, 0.9 + 0.1 * trial.suggest_float("x", 0, 1))
    return np.full(N, 0.05 if kind == "good" else 1.0)


def study_of(sampler=None, **where):
    sampler = sampler or GridSampler({"kind": ["bad", "good", "ugly"], "x": [0.5]}, seed=0)
    return optuna.create_study(sampler=sampler, **where)


@pytest.fixture
def mine(privatizer):
    return privatizer(n=N)


def test_values_are_withheld_and_one_trial_is_chosen_once(mine):
    objective, study = SelectionObjective(function, mine, mu=9.0, estimate_share=0.1), study_of(RandomSampler(seed=1))
    study.optimize(objective, n_trials=20)
    assert {trial.value for trial in study.trials} == {math.inf}
    assert mine.ledger.spent() == 0
    assert objective.select(study) == {"kind": "good"}
    assert mine.ledger.spent() == pytest.approx(9.0)
    known = study.user_attrs["dptune:selected"]
    assert study.trials[known["trial"]].params == {"kind": "good"}
    assert abs(known["loss"]["value"] - 0.05) < 6 * known["loss"]["sigma"]
    assert objective.select(study) == {"kind": "good"}
    assert mine.ledger.spent() == pytest.approx(9.0)
    assert "private" in objective.try_out({"kind": "good"})


def test_after_a_restart_the_trials_are_trained_again_and_the_choice_is_kept(mine, tmp_path):
    where = {"storage": stored(tmp_path), "study_name": "s", "load_if_exists": True}
    study_of(**where).optimize(SelectionObjective(function, mine, mu=9.0), n_trials=3)
    trained = []

    def again(trial):
        trained.append(trial.number)
        return function(trial)

    fresh = dptune.LossPrivatizer(dptune.PrivacyLedger(tmp_path / "ledger.db"), n=N, clip=(0.0, 1.0))
    study, objective = study_of(**where), SelectionObjective(again, fresh, mu=9.0)
    assert objective.select(study) == {"kind": "good"}
    assert objective.select(study) == {"kind": "good"}  # from the study: nothing is trained again
    assert trained == [0, 1, 2]
    assert mine.ledger.spent() == pytest.approx(9.0)


def test_the_trials_of_a_study_that_another_objective_ran_can_be_chosen_among(mine):
    study = study_of()
    study.optimize(lambda trial: float(function(trial)[0]))
    assert SelectionObjective(function, mine, mu=9.0).select(study, name="by people")["kind"] == "good"
    assert {charge.scope for charge in mine.ledger.charges()} == {"by people"}


def test_samplers_that_learn_from_values_are_refused_by_name_and_others_taken(mine):
    objective = SelectionObjective(function, mine, mu=1.0)
    for learns in (TPESampler(), PartialFixedSampler({"x": 0.5}, TPESampler())):
        study = study_of(learns)
        study.optimize(objective, catch=(Exception,))  # it ends
        with pytest.raises(dptune.InputError, match="RandomSampler"):
            study.optimize(objective, n_trials=1)
        assert len(study.trials) == 2
    for sampler in (RandomSampler(seed=0), QMCSampler(seed=0), PartialFixedSampler({"x": 0.5}, RandomSampler())):
        study_of(sampler).optimize(objective, n_trials=2)


def test_a_function_that_fails_is_a_candidate_that_loses_and_nothing_of_it_is_shown(mine, caplog):
    def failing(trial):
        if trial.suggest_categorical("kind", ["bad", "good", "ugly"]) == "bad":
            raise ValueError("a private 0.123456")
        return function(trial)

    study = study_of()
    study.optimize(SelectionObjective(failing, mine, mu=9.0))
    assert [trial.value for trial in study.trials] == [math.inf] * 3
    assert "finished with value: inf" in caplog.text
    assert "0.123456" not in caplog.text + repr([trial.user_attrs for trial in study.trials])
    assert SelectionObjective(failing, mine, mu=9.0).select(study) == {"kind": "good"}


def test_what_cannot_be_used_is_refused_early(mine):
    for change in (
        {"mu": 0.0},
        {"estimate_share": 1.5},
        {"loss": "log_loss"},
        {"privatizer": "ledger.db"},
        {"default": 3},
    ):
        with pytest.raises(dptune.InputError):
            SelectionObjective(**{"function": function, "privatizer": mine, "mu": 1.0, **change})
    with pytest.raises(dptune.BudgetExhausted):
        SelectionObjective(function, mine, mu=11.0).select(study_of())
    with pytest.raises(dptune.InputError):
        SelectionObjective(function, mine, mu=1.0).select(study_of())


DEFAULT = {"kind": "ugly", "x": 0.5}


@pytest.mark.parametrize("default", [DEFAULT, {"kind": "good", "x": 0.5}, {"kind": np.str_("good")}])
def test_a_default_is_found_by_what_a_trial_suggested(mine, default):
    """``x`` is not suggested where the kind is good."""
    study = study_of()
    study.optimize(objective := SelectionObjective(function, mine, mu=0.5, default=default), n_trials=3)
    objective.select(study, name="which")
    place = mine.ledger.fact("which", "plan")["default"]
    assert study.trials[place].params["kind"] == default["kind"]


def test_a_default_that_no_trial_has_is_refused_untrained_with_the_remedy(mine):
    def short(trial):
        if trial.suggest_categorical("kind", ["bad", "good", "ugly"]) == "good":
            return np.zeros(N - 1)
        trial.suggest_float("x", 0, 1)
        return np.zeros(N)

    study = study_of()
    study.optimize(SelectionObjective(short, mine, mu=0.5), n_trials=3, catch=dptune.InputError)
    for default, said in (
        ({"kind": "ugly"}, "it has no 'x'"),
        ({"kind": "good"}, "did not complete.*try_out"),
        ({"kind": "ugly", "x": 0.9}, "enqueue_trial"),
    ):
        with pytest.raises(dptune.InputError, match=said):
            SelectionObjective(short, mine, mu=0.5, default=default).select(study)
    assert mine.ledger.spent() == 0
