"""A selection is refused before it is charged, or its best is returned, whatever the study can store."""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from ray import tune

from dptune import InputError
from dptune.training import Repeats
from dptune.training.repeats import repeat_and_select
from dptune_optuna import repeat_and_select as in_optuna
from dptune_ray import repeats as on_ray
from training_tools import N, ledgers

SPACE = {"rate": tune.uniform(0.0, 1.0), "net": {"depth": tune.randint(1, 9)}, "k": 5}
SETTINGS: dict[str, Any] = {"clip": (0.0, 1.0)}


def rate(trial: Any) -> tuple[str, np.ndarray]:
    return "model", np.full(N, min(trial.suggest_float("rate", 0.0, 1.0), 1.0))


def layers(trial: Any) -> tuple[str, np.ndarray]:
    return "model", np.full(N, float(len(trial.suggest_categorical("layers", [(8,), (8, 8)])) > 1))


class FullDisk(optuna.storages.InMemoryStorage):
    def create_new_trial(self, *args: Any, template_trial: Any = None, **kwargs: Any) -> int:
        raise OSError("no space left on device")


@pytest.mark.parametrize(
    ("objective", "settings", "storage"),
    [(rate, {"candidates": [{"rate": 5.0}]}, None), (rate, {}, FullDisk())],
    ids=["a candidate outside", "a storage that is full"],
)
def test_a_best_that_a_study_cannot_take_is_returned(
    objective, settings, storage, fast_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study, both = optuna.create_study(storage=storage), ledgers(fast_path)
    with warnings.catch_warnings(action="error"):
        best = in_optuna(study, objective, both, **SETTINGS, **settings)
    assert "could not take it as a trial" in caplog.text
    assert best.model == "model"
    assert not study.trials


def test_a_choice_among_tuples_becomes_a_trial(fast_path: Path) -> None:
    study = optuna.create_study()
    best = in_optuna(study, layers, ledgers(fast_path), **SETTINGS)
    assert best.model == "model"
    assert [tuple(best.parameters["layers"])] == [trial.params["layers"] for trial in study.trials]


@pytest.mark.parametrize(
    "study",
    [
        partial(optuna.create_study, direction="maximize"),
        partial(optuna.create_study, directions=["minimize", "minimize"]),
        partial(str, "study"),
    ],
    ids=["maximises", "two values", "a name"],
)
def test_a_study_that_cannot_hold_a_loss_is_refused_first(study, fast_path: Path) -> None:
    both = ledgers(fast_path)
    with pytest.raises(InputError, match=r"study.*Nothing was charged\.$"):
        in_optuna(study(), rate, both, **SETTINGS)
    assert [ledger.count() for ledger in both] == [0, 0]


@pytest.mark.parametrize("named", [{"Rate": 0.5}, {"net": {"width": 3}}, {"net/width": 3}])
def test_candidates_that_ray_does_not_know_are_refused_first(named, fast_path: Path) -> None:
    both, known = ledgers(fast_path), {"rate": 0.5, "net": {"depth": 2}, "k": 5}
    with pytest.raises(InputError, match=r"param_space does not have.*Nothing was charged\.$"):
        on_ray.repeat_and_select(lambda _: ("", []), SPACE, both, candidates=[known, named], **SETTINGS)
    assert [ledger.count() for ledger in both] == [0, 0]
    on_ray._refuse_other_names(SPACE, [known])


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"candidates": [0.5]}, "candidates"),
        ({"candidates": iter([{}])}, "candidates"),
        ({"candidates": {"rate": 1}}, "candidates"),
        ({"clip": 0.5}, "clip"),
        ({"clip": ("a", "b")}, "clip"),
    ],
)
def test_odd_lists_and_clips_are_refused_by_name(wrong, names, fast_path: Path) -> None:
    both = ledgers(fast_path)
    with pytest.raises(InputError, match=f"^{names} must"):
        in_optuna(optuna.create_study(), rate, both, **{**SETTINGS, **wrong})
    if "clip" in wrong:
        with pytest.raises(InputError, match=r"^clip must"):
            repeat_and_select(lambda: ({}, "", np.zeros(N)), both, **wrong)
    assert [ledger.count() for ledger in both] == [0, 0]


def test_odds_have_any_unit(fast_path: Path) -> None:
    candidates, odds = [{"rate": 0.25}, {"rate": 0.5}], [1e308, 1e308]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = ledgers(fast_path, law=Repeats.geometric(2))
        best = in_optuna(optuna.create_study(), rate, both, candidates=candidates, odds=odds, **SETTINGS)
    assert best.parameters in candidates
