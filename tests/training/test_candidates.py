"""Random and quasi-random proposals of repeat and select, alike in Optuna and in Ray."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from ray import tune
from training_tools import N, ledgers

from dptune import Categorical, Float, InputError, Space
from dptune.training import Repeats, quasi_random
from dptune.training.repeats import one_of
from dptune.training.repeats import repeat_and_select as in_one_process
from dptune_optuna import repeat_and_select
from dptune_ray import repeats as on_ray

SPACE = Space({"rate": Float(1e-3, 1.0, log=True), "model/kind": Categorical(["a", "b"])})
LAW = Repeats.poisson(30)
TUNE = {
    "rate": tune.loguniform(1e-3, 1.0),
    "model": {"kind": tune.choice(["a", "b"]), "depth": tune.randint(1, 9)},
    "k": 5,
}


def test_a_list_fills_the_space_evenly_and_is_the_same_for_everybody() -> None:
    listed = quasi_random(SPACE, 64)
    assert listed == quasi_random(SPACE, 64) != quasi_random(SPACE, 64, seed=1)
    decades = np.floor(np.log10([each["rate"] for each in listed]))
    assert max(np.unique(decades, return_counts=True)[1]) <= 22
    assert {each["model/kind"] for each in listed} == {"a", "b"}


@pytest.mark.parametrize("candidates", [None, quasi_random(SPACE, 8)])
def test_each_repeat_is_drawn_anew_in_optuna_and_in_ray(candidates: Any, fast_path: Path) -> None:
    study, seen = optuna.create_study(), []

    def objective(trial: Any) -> tuple[str, np.ndarray]:
        rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
        seen.append((rate, trial.suggest_categorical("model/kind", ["a", "b"]), trial.suggest_int("depth", 1, 9)))
        return "model", np.full(N, rate)

    both = ledgers(fast_path, law=LAW)
    best = repeat_and_select(study, objective, both, clip=(0.0, 1.0), candidates=candidates)
    assert study.trials[0].params == best.parameters
    configs = [on_ray.drawn(TUNE, candidates) for _ in range(30)]
    assert {config["k"] for config in configs} == {5}
    for drawn in (seen, [(c["rate"], c["model"]["kind"], c["model"]["depth"]) for c in configs]):
        assert len({depth for _, _, depth in drawn}) > 1, "what no candidate names is drawn"
        pairs = {(rate, kind) for rate, kind, _ in drawn}
        if candidates is None:
            assert len(pairs) == len(drawn)
        else:
            assert 1 < len(pairs) <= len(candidates)
            assert pairs <= {(each["rate"], each["model/kind"]) for each in candidates}


def test_an_empty_list_is_refused_before_anything_is_paid(fast_path: Path) -> None:
    both = ledgers(fast_path, law=LAW)
    in_optuna = partial(repeat_and_select, optuna.create_study())
    for call in (in_optuna, partial(on_ray.repeat_and_select, param_space=TUNE)):
        with pytest.raises(InputError, match="candidates is empty"):
            call(lambda _: ("", []), ledgers=both, clip=(0.0, 1.0), candidates=[])
    assert [ledger.count() for ledger in both] == [0, 0]


def test_a_process_of_ray_seals_what_the_function_raises(fast_path: Path) -> None:
    def fails(config: dict[str, Any]) -> Any:
        raise KeyboardInterrupt("row 7 has 'Smith'")

    carried, settings = on_ray.PickledFunction(fails), {"clip": (0.0, 1.0), "secure": True, "noise": None}
    answer = on_ray.select_here(carried, TUNE, ledgers(fast_path, law=LAW), None, settings)
    assert answer.parameters is None
    again = in_one_process(lambda: ({}, "", np.zeros(N)), ledgers(fast_path, law=LAW), clip=(0.0, 1.0))
    assert again.parameters is None


def test_odds_of_candidates_are_the_law_of_a_repeat():
    drawn = [one_of([{"C": 1}, {"C": 2}, {"C": 3}], [6.0, 3.0, 1.0])["C"] for _ in range(4000)]
    shares = np.bincount(drawn, minlength=4)[1:] / 4000
    assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.05  # six standard deviations


@pytest.mark.parametrize(("candidates", "odds"), [(None, [1.0]), ([{}, {}], [1.0]), ([{}], [0.0]), ([{}], [np.nan])])
def test_odds_that_are_not_usable_are_refused(candidates, odds):
    with pytest.raises(InputError, match="odds"):
        one_of(candidates, odds)
