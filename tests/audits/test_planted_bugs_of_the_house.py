"""Each bug that no test caught when the project was tried, planted alone: an audit of whole runs fails on it.

The audits are in ``house_audits``. SQLite's settings and their planted bugs are in tests/ledger/test_connection.py.
"""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import house_audits as audits
import numpy as np
import optuna
import pytest
from every_logger import every_logger, without_clocks
from optuna.distributions import FloatDistribution

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.losses import estimator
from dptune.privacy.noise import SeededNoise
from dptune.privacy.stored_losses import StoredLosses
from dptune_optuna import CentredSampler, PrivateObjective, shield

# ---- noise -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("audit", [audits.audit_grid, audits.audit_source])
def test_every_released_number_of_a_run_is_what_openDP_drew_on_its_grid(fast_path: Path, audit: Any) -> None:
    audit(fast_path)


@pytest.mark.parametrize(
    ("bug", "audit"),
    [
        (audits.numpy_noise, audits.audit_grid),
        (audits.numpy_noise_on_the_grid, audits.audit_source),
        (audits.coarse_grid, audits.audit_grid),
    ],
)
def test_other_noise_is_found(fast_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Any, audit: Any) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit(fast_path)


# ---- sensitivity -----------------------------------------------------------------------------------------

KINDS = {"value/": "values", "start": "gibo", "step/": "gibo", "share/": "centred", "generation/": "centred"}
ROWS_FOR_PEOPLE = ("groups", lambda p: p.n / p.rows)
EQUAL_FOR_LARGEST_WEIGHT = ("weights", lambda p: 1 / p.n / audits.LARGEST_SHARE["weights"])


@pytest.mark.parametrize("people", audits.PEOPLE)
def test_every_kind_of_release_has_the_sensitivity_of_its_formula(fast_path: Path, people: str) -> None:
    found = [audits.audit_run_sensitivity(fast_path, method, people) for method in audits.METHODS]
    found += [audits.audit_run_sensitivity(fast_path, method, people, default=True) for method in ("gibo", "centred")]
    assert set().union(*found) == set(audits.KEYS)


@pytest.mark.parametrize(
    ("key", "bug", "default"),
    [
        ("value/", ROWS_FOR_PEOPLE, False),
        ("start", EQUAL_FOR_LARGEST_WEIGHT, False),
        ("step/", ROWS_FOR_PEOPLE, False),
        ("share/", EQUAL_FOR_LARGEST_WEIGHT, False),
        ("generation/", ROWS_FOR_PEOPLE, False),
        ("final", EQUAL_FOR_LARGEST_WEIGHT, False),
        ("final", ROWS_FOR_PEOPLE, True),
    ],
)
def test_a_sensitivity_that_is_too_small_in_one_kind_of_release_is_found(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, bug: Any, default: bool
) -> None:
    people, factor = bug
    audits.plant_sensitivity(monkeypatch, key, factor)
    with pytest.raises(AssertionError, match=key):
        audits.audit_run_sensitivity(fast_path, KINDS.get(key, "centred"), people, default=default)


# ---- names -----------------------------------------------------------------------------------------------


def test_no_run_and_no_parameters_see_the_losses_of_others(fast_path: Path) -> None:
    audits.audit_names(fast_path)


@pytest.mark.parametrize("part", ["scope", "parameters"])
def test_a_point_named_without_one_of_its_parts_is_found(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    audits.name_without(monkeypatch, part)
    with pytest.raises(AssertionError):
        audits.audit_names(fast_path)


# ---- what is logged --------------------------------------------------------------------------------------

ROWS, SECRET = 12, 4711.25


class Model:
    """Predicts its constant; fails on rows beyond 1000."""

    def __init__(self, constant: float) -> None:
        self.constant, self.n_features_in_ = constant, 1

    def fit(self) -> Model:
        return self

    def predict(self, X: Any) -> np.ndarray:
        if (np.asarray(X, dtype=float) > 1000).any():
            raise ValueError(f"{X.max()} is too large")
        return np.full(len(X), self.constant)


def raising(secret: float) -> dict[str, Any]:
    """A function that raises in every third trial, with a private number."""

    def losses(trial: Any) -> Any:
        x = trial.suggest_float("x", 0, 1)
        if trial.number % 3 == 1:
            raise ValueError(f"person 7 has {secret}")
        return np.full(ROWS, x)

    return {"function": losses}


def with_nan(people: int) -> dict[str, Any]:
    """A function of which so many people have no loss."""
    return {"function": lambda t: np.where(np.arange(ROWS) < people, np.nan, t.suggest_float("x", 0, 1))}


def with_failing_rows(rows: int) -> dict[str, Any]:
    """A model that fails on so many rows of ``data=``."""
    data = np.where(np.arange(ROWS) < rows, SECRET, 1.0)[:, None], np.zeros(ROWS)
    model = {"loss": "squared_error", "data": data}
    return {"function": lambda trial: Model(trial.suggest_float("x", 0, 1)).fit(), **model}


NEIGHBOURS: dict[str, list[dict[str, Any]]] = {
    "text of an exception": [raising(secret) for secret in (1.5, SECRET)],
    "number of NaN losses": [with_nan(people) for people in (0, 1, 2)],
    "number of failing rows": [with_failing_rows(rows) for rows in (0, 1, 2)],
}


def study(folder: Path, centred: bool, function: Any, **options: Any) -> None:
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(4.0))
    privatizer = LossPrivatizer(ledger, n=ROWS, clip=(0.0, 1.0), noise=SeededNoise(5))
    if centred:
        sampler: Any = CentredSampler(privatizer, {"x": FloatDistribution(0, 1)}, n_trials=8, seed=1)
        objective: Any = sampler.objective(function, **options)
    else:
        sampler = optuna.samplers.RandomSampler(seed=1)
        objective = PrivateObjective(function, privatizer, n_trials=8, **options)
    optuna.create_study(study_name="study", sampler=sampler).optimize(objective, n_trials=8)


def logged(folder: Path, centred: bool, half: dict[str, Any]) -> list[str]:
    folder.mkdir()
    with every_logger() as lines:
        study(folder, centred, **half)
    return without_clocks(lines, folder)


def audit_loggers(folder: Path, difference: str, *, centred: bool = False) -> None:
    """Neighbours make the same lines in every logger at every level."""
    folder.mkdir()
    mine, *others = (logged(folder / str(i), centred, half) for i, half in enumerate(NEIGHBOURS[difference]))
    assert len(mine) > 100  # SQL and its parameters, among others
    for theirs in others:
        for a, b in itertools.zip_longest(mine, theirs):
            assert a == b, "a log line depends on private data"
        assert not any(str(SECRET) in line for line in theirs)


def leak(patch: pytest.MonkeyPatch, difference: str, logger: logging.Logger, level: int) -> None:
    """Log what the difference is about where the package has it in hand."""
    clean, rows, guarded = StoredLosses.clean, estimator._without_bad_rows, shield.call_guarded

    def log_nan(self: StoredLosses, values: Any) -> Any:
        logger.log(level, "%d losses are NaN", np.isnan(values).sum())
        return clean(self, values)

    def log_rows(ask: Any, failing: Any) -> Any:
        output, found = rows(ask, failing)
        logger.log(level, "the model fails on %d rows", found.sum())
        return output, found

    def log_error(function: Any, *others: Any) -> Any:
        def called(trial: Any) -> Any:
            try:
                return function(trial)
            except Exception as error:
                logger.log(level, "the objective failed: %s", error)
                raise

        return guarded(called, *others)

    if difference == "number of NaN losses":
        patch.setattr(StoredLosses, "clean", log_nan)
    elif difference == "number of failing rows":
        patch.setattr(estimator, "_without_bad_rows", log_rows)
    else:
        patch.setattr(shield, "call_guarded", log_error)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("difference", "name", "level"),
    [
        ("text of an exception", "optuna.trial", logging.INFO),
        ("number of NaN losses", "dptune.losses", logging.DEBUG),
        ("number of failing rows", "made.just.now", logging.DEBUG),
    ],
)
def test_no_logger_at_any_level_tells_neighbours_apart_and_a_line_that_does_is_found(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch, difference: str, level: int, name: str
) -> None:
    monkeypatch.setattr(StoredLosses, "mean", lambda self, query: np.full(query.dimension, 0.25))
    audit_loggers(fast_path / "objective", difference)
    if difference == "number of NaN losses":
        audit_loggers(fast_path / "centred", difference, centred=True)
    leak(monkeypatch, difference, logging.getLogger(name), level)
    with pytest.raises(AssertionError, match="depends on private data"):
        audit_loggers(fast_path / "planted", difference)
