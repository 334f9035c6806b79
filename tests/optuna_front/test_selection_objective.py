"""SelectionObjective: a study sees a constant, and one trial is chosen at the end, for one price."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.samplers import GridSampler, PartialFixedSampler, QMCSampler, RandomSampler, TPESampler

import dptune
from dptune_optuna import SelectionObjective
from harness import stored

N = 30
Make = Callable[..., dptune.LossPrivatizer]


def function(trial: Any) -> np.ndarray:
    """Kind "good" is better for everybody."""
    kind = trial.suggest_categorical("kind", ["bad", "good", "ugly"])
    if kind == "ugly":
        return np.full(N, 0.9 + 0.1 * trial.suggest_float("x", 0, 1))
    return np.full(N, 0.05 if kind == "good" else 1.0)


def function_of_kind(trial: Any) -> np.ndarray:
    kind = trial.suggest_categorical("kind", ["bad", "good", "ugly"])
    return np.full(N, {"bad": 1.0, "good": 0.0, "ugly": 0.9}[kind])


def study_of(sampler: Any = None, **where: Any) -> optuna.Study:
    sampler = sampler or GridSampler({"kind": ["bad", "good", "ugly"], "x": [0.5]}, seed=0)
    return optuna.create_study(sampler=sampler, **where)


@pytest.fixture
def mine(privatizer: Make) -> dptune.LossPrivatizer:
    return privatizer(n=N)


def test_values_are_withheld_and_one_trial_is_chosen_once(mine: dptune.LossPrivatizer) -> None:
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


def test_after_a_restart_the_trials_are_trained_again_and_the_choice_is_kept(
    mine: dptune.LossPrivatizer, tmp_path: Path
) -> None:
    where = {"storage": stored(tmp_path), "study_name": "s", "load_if_exists": True}
    study_of(**where).optimize(SelectionObjective(function, mine, mu=9.0), n_trials=3)
    trained: list[int] = []

    def again(trial: Any) -> np.ndarray:
        trained.append(trial.number)
        return function(trial)

    fresh = dptune.LossPrivatizer(dptune.PrivacyLedger(tmp_path / "ledger.db"), n=N, clip=(0.0, 1.0))
    study, objective = study_of(**where), SelectionObjective(again, fresh, mu=9.0)
    assert objective.select(study) == {"kind": "good"}
    assert objective.select(study) == {"kind": "good"}  # from the study: nothing is trained again
    assert trained == [0, 1, 2]
    assert mine.ledger.spent() == pytest.approx(9.0)


def test_the_trials_of_a_study_that_another_objective_ran_can_be_chosen_among(mine: dptune.LossPrivatizer) -> None:
    study = study_of()
    study.optimize(lambda trial: float(trial.suggest_categorical("kind", ["bad", "good", "ugly"]) == "bad"))
    assert SelectionObjective(function_of_kind, mine, mu=9.0).select(study, name="by people")["kind"] == "good"
    assert {charge.scope for charge in mine.ledger.charges()} == {"by people"}


def test_samplers_that_learn_from_values_are_refused_by_name_and_others_taken(mine: dptune.LossPrivatizer) -> None:
    objective = SelectionObjective(function, mine, mu=1.0)
    for learns in (TPESampler(), PartialFixedSampler({"x": 0.5}, TPESampler())):
        with pytest.raises(dptune.InputError, match="RandomSampler"):
            study_of(learns).optimize(objective, n_trials=1)
    for sampler in (RandomSampler(seed=0), QMCSampler(seed=0), PartialFixedSampler({"x": 0.5}, RandomSampler())):
        study_of(sampler).optimize(objective, n_trials=2)


def test_a_function_that_fails_is_a_candidate_that_loses_and_nothing_of_it_is_shown(
    mine: dptune.LossPrivatizer, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(trial: Any) -> np.ndarray:
        if trial.suggest_categorical("kind", ["bad", "good", "ugly"]) == "bad":
            raise ValueError("a private 0.123456")
        return function_of_kind(trial)

    study = study_of(GridSampler({"kind": ["bad", "good", "ugly"]}))
    optuna.logging.enable_propagation()
    study.optimize(SelectionObjective(failing, mine, mu=9.0), n_trials=3)
    optuna.logging.disable_propagation()
    assert [trial.value for trial in study.trials] == [math.inf] * 3
    assert "0.123456" not in caplog.text + repr([trial.user_attrs for trial in study.trials])
    assert SelectionObjective(failing, mine, mu=9.0).select(study) == {"kind": "good"}


def test_reporting_is_refused(mine: dptune.LossPrivatizer) -> None:
    def reporting(trial: Any) -> np.ndarray:
        trial.report(0.5, 1)
        return np.zeros(N)

    with pytest.raises(dptune.PrivacyError, match="report"):
        study_of(RandomSampler()).optimize(SelectionObjective(reporting, mine, mu=1.0), n_trials=1)


def test_what_cannot_be_used_is_refused_early(mine: dptune.LossPrivatizer) -> None:
    for change in ({"mu": 0.0}, {"estimate_share": 1.5}, {"loss": "log_loss"}, {"privatizer": "ledger.db"}):
        with pytest.raises(dptune.InputError):
            SelectionObjective(**{"function": function, "privatizer": mine, "mu": 1.0, **change})
    study = study_of()
    with pytest.raises(dptune.BudgetExhausted):
        SelectionObjective(function, mine, mu=11.0).select(study)
    with pytest.raises(dptune.InputError, match="at least two"):
        SelectionObjective(function, mine, mu=1.0).select(study)


def test_more_trials_after_a_choice_need_another_name(mine: dptune.LossPrivatizer) -> None:
    objective, study = SelectionObjective(function, mine, mu=1.0), study_of(RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    objective.select(study)
    study.optimize(objective, n_trials=2)
    with pytest.raises(dptune.errors.BudgetMismatch, match="another name"):
        objective.select(study)
    objective.select(study, name="with two more")
    assert mine.ledger.spent() == pytest.approx(2**0.5)


def test_it_can_be_tried_out_on_its_own(mine: dptune.LossPrivatizer) -> None:
    assert "private" in SelectionObjective(function, mine, mu=1.0).try_out({"kind": "good"})


DEFAULT = {"kind": "ugly", "x": 0.5}


def test_the_default_is_kept_where_nothing_is_known_to_be_better(mine: dptune.LossPrivatizer) -> None:
    """At this budget noise decides alone: six of six are kept in 56% of runs, none in one of 2 million."""
    objective, study = SelectionObjective(function, mine, mu=0.01, default=DEFAULT), study_of(RandomSampler(seed=1))
    study.enqueue_trial(DEFAULT)
    study.optimize(objective, n_trials=8)
    chosen = [objective.select(study, name=str(t)) for t in range(6)]
    assert DEFAULT in chosen
    assert mine.ledger.fact("0", "plan")["default"] == 0


def test_a_default_that_no_trial_has_is_said_and_can_be_mended(mine: dptune.LossPrivatizer) -> None:
    objective, study = SelectionObjective(function, mine, mu=0.5, default={"kind": "good"}), study_of()
    study.enqueue_trial({"kind": "bad"})
    study.enqueue_trial(DEFAULT)
    study.optimize(objective, n_trials=2)
    with pytest.raises(dptune.InputError, match="enqueue_trial"):
        objective.select(study)
    assert mine.ledger.spent() == 0
    study.enqueue_trial({"kind": "good"})
    study.optimize(objective, n_trials=1)
    assert objective.select(study)["kind"] in ("good", "bad", "ugly")


def test_another_default_after_a_choice_needs_another_name(mine: dptune.LossPrivatizer) -> None:
    study = study_of()
    study.optimize(SelectionObjective(function, mine, mu=0.5), n_trials=3)
    chosen = SelectionObjective(function, mine, mu=0.5, default={"kind": "bad"})
    chosen.select(study)
    spent = mine.ledger.spent()
    for default in ({"kind": "good"}, None):
        with pytest.raises(dptune.errors.BudgetMismatch, match="another name"):
            SelectionObjective(function, mine, mu=0.5, default=default).select(study)
    assert chosen.select(study) in [trial.params for trial in study.trials]
    assert mine.ledger.spent() == spent


@pytest.mark.parametrize("default", [{"kind": "good", "x": 0.5}, {"kind": np.str_("good")}])
def test_a_default_is_found_by_what_a_trial_suggested(mine: dptune.LossPrivatizer, default: dict[str, Any]) -> None:
    """``x`` is not suggested where the kind is good."""
    study = study_of()
    study.optimize(objective := SelectionObjective(function, mine, mu=0.5, default=default), n_trials=3)
    objective.select(study, name="which")
    place = mine.ledger.fact("which", "plan")["default"]
    assert study.trials[place].params == {"kind": "good"}


def test_a_default_that_lacks_a_parameter_or_failed_is_told_from_one_that_was_not_tried(
    mine: dptune.LossPrivatizer,
) -> None:
    def short(trial: Any) -> np.ndarray:
        if trial.suggest_categorical("kind", ["bad", "good", "ugly"]) == "good":
            return np.zeros(N - 1)
        trial.suggest_float("x", 0, 1)
        return np.zeros(N)

    study = study_of()
    study.optimize(SelectionObjective(short, mine, mu=0.5), n_trials=3, catch=dptune.InputError)
    for default, said in (({"kind": "ugly"}, "it has no 'x'"), ({"kind": "good"}, "did not complete.*try_out")):
        with pytest.raises(dptune.InputError, match=said):
            SelectionObjective(short, mine, mu=0.5, default=default).select(study)
    assert mine.ledger.spent() == 0


def test_a_default_that_is_no_dict_is_refused_before_training(mine: dptune.LossPrivatizer) -> None:
    with pytest.raises(dptune.InputError, match="dict"):
        SelectionObjective(function, mine, mu=0.5, default=3)
