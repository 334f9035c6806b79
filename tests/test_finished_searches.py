"""Each field of a finished search is used, refused or irrelevant, as docs/finished_searches.md says."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial
from scipy.stats import uniform
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, HalvingRandomSearchCV, RandomizedSearchCV

from dptune_optuna.choice import ranked
from dptune_sklearn.public_search import proposals_of

PAGE = (Path(__file__).parents[1] / "docs/finished_searches.md").read_text()


def table(title: str) -> dict[str, str]:
    """Return what becomes of each field of the table with this title."""
    rows = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.split("|")[1:3] for row in rows]
    return {name: becomes.strip() for names, becomes in cells for name in re.findall(r"`([^`]+)`", names)}


def test_each_field_of_a_trial_of_optuna_is_in_the_table() -> None:
    trial = create_trial(params={}, distributions={}, value=1.0)
    public = {name for name in dir(FrozenTrial) if not (name.startswith("_") or callable(getattr(trial, name)))}
    assert public | {name.removeprefix("_") for name in vars(trial)} <= table("fields of `FrozenTrial`").keys()


def test_each_field_of_a_result_of_ray_is_in_the_table() -> None:
    result = pytest.importorskip("ray.tune").Result
    properties = {name for name in dir(result) if isinstance(getattr(result, name), property)}
    assert properties | {field.name for field in dataclasses.fields(result)} <= table("fields of `Result`").keys()


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning", "ignore:`optuna.terminator`")
def test_each_attribute_and_column_of_a_search_is_in_the_table() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])
    y, model, grid, law = np.arange(80) % 2, LogisticRegression(), {"C": [1.0, 2.0]}, {"C": uniform(0.1, 1.0)}
    searches: list[Any] = [
        GridSearchCV(model, grid, cv=2, return_train_score=True),
        RandomizedSearchCV(model, law, n_iter=2, cv=2, random_state=0),
        HalvingGridSearchCV(model, grid, cv=2, min_resources=40, random_state=0),
        HalvingRandomSearchCV(model, law, cv=2, min_resources=40, random_state=0),
    ]
    attributes, columns = set[str](), set[str]()
    for search in searches:
        attributes |= learned(search.fit(X, y))
        named = (re.sub(r"^param_.*", "param_<name>", name) for name in search.cv_results_)
        columns |= {re.sub(r"split\d+", "split<i>", name) for name in named}
    assert columns <= table("columns of `cv_results_`").keys()
    wrapped = pytest.importorskip("optuna_integration").OptunaSearchCV
    space = {"C": optuna.distributions.FloatDistribution(0.1, 1.0)}
    attributes |= learned(wrapped(model, space, n_trials=2, cv=2, random_state=0).fit(X, y))
    assert attributes <= table("attributes of a fitted search").keys()


def learned(search: Any) -> set[str]:
    """Return the names of what fitting has added, as scikit-learn spells them."""
    return {name for name in dir(search) if re.fullmatch(r"[^_].*_", name)}


def test_every_field_has_one_of_three_fates() -> None:
    titles = re.findall(r"^\| ((?:fields|attributes|columns) of [^|]*) \|", PAGE, re.MULTILINE)
    assert len(titles) == 4
    assert {becomes for title in titles for becomes in table(title).values()} == {"used", "refused", "irrelevant"}


# ---- what the table says, tried ----------------------------------------------------------------------------


def test_small_rungs_of_a_halving_search_come_after_the_full_ones() -> None:
    """A score on few rows may be the best of all; the configuration of the last rung is taken once, at its place."""
    results = {
        "params": [{"C": C} for C in (1.0, 2.0, 3.0, 2.0, 3.0, 3.0, 4.0)],
        "mean_test_score": [0.99, 0.98, 0.97, 0.6, 0.7, 0.5, np.nan],
        "iter": [0, 0, 0, 1, 1, 2, 0],
    }
    search = SimpleNamespace(cv_results_=results, get_params=lambda deep: {})
    proposals = proposals_of(search, LogisticRegression(C=9.0), None)
    candidates, default = proposals.with_default(proposals.usual, 10)
    assert [one.parameters["C"] for one in candidates] == [3.0, 2.0, 1.0, 4.0, 9.0]
    assert default == 4
    assert [one.parameters["C"] for one in proposals.with_default(None, 2)[0]] == [3.0, 2.0]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
def test_each_objective_counts_in_its_own_direction(order: tuple[int, ...]) -> None:
    """The first is minimised, and the second maximised; the second trial is better than the others, one by one."""
    study = optuna.create_study(directions=["minimize", "maximize"])
    values = [(1.0, 10.0), (2.0, 9.0), (3.0, 1.0), (5.0, 0.5)]
    for place in order:
        study.add_trial(create_trial(params={}, distributions={}, values=list(values[place])))
    assert [tuple(trial.values) for trial in ranked(study)] == values


def test_a_trial_that_did_not_complete_is_no_candidate() -> None:
    study = optuna.create_study()
    kept = {"intermediate_values": {0: 0.0}, "params": {}, "distributions": {}}
    for state in (TrialState.FAIL, TrialState.PRUNED, TrialState.RUNNING, TrialState.WAITING):
        value = {"value": 0.0} if state is TrialState.PRUNED else {}
        study.add_trial(create_trial(state=state, **kept, **value))
    for number in (float("inf"), 2.0, 1.0):
        study.add_trial(create_trial(value=number, **kept))
    assert [trial.value for trial in ranked(study)] == [1.0, 2.0]
