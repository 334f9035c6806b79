"""clip="auto" in Optuna: the default configuration is trained once more, first, and its losses choose the clip."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from noises import CannedNoise
from optuna.distributions import CategoricalDistribution, FloatDistribution
from sklearn.linear_model import Ridge

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetMismatch, InputError, KeyConflict
from dptune_optuna import CentredSampler, PrivateObjective

SPACE = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
DEFAULT = {"alpha": 1.0}
N = 300


def rows(n: int, seed: int) -> tuple[Any, Any]:
    """Inputs (n, 5), and answers (n,) in dollars."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, 1000 * (X @ np.arange(5) + rng.normal(size=n))


def about(loss: str) -> dict[str, Any]:
    """What the objective is told of the loss and of the private rows."""

    def load() -> tuple[Any, Any]:
        X, y = rows(N, 1)
        return X, y > 0 if loss == "zero_one" else y

    return {"loss": loss, "data": load}


class Fitting:
    """A function that trains a Ridge on public rows, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __call__(self, trial: Any) -> Any:
        self.asked.append(trial.suggest_float("alpha", 1e-3, 1e3, log=True))
        return Ridge(self.asked[-1]).fit(*rows(40, 0))


@pytest.fixture
def ledger(tmp_path: Path) -> PrivacyLedger:
    return PrivacyLedger(tmp_path / "ledger.db", Budget.gdp(1.0))


def sampled(ledger: PrivacyLedger, **settings: Any) -> Callable[..., Any]:
    sampler = CentredSampler(LossPrivatizer(ledger, n=N, clip="auto"), SPACE, n_trials=12, default=DEFAULT, **settings)

    def begin(function: Any, loss: str, storage: str | None = None) -> tuple[optuna.Study, Any]:
        study = optuna.create_study(study_name="s", sampler=sampler, storage=storage, load_if_exists=True)
        return study, sampler.objective(**about(loss))(function)

    return begin


def any_sampler(ledger: PrivacyLedger) -> Callable[..., Any]:
    privatizer = LossPrivatizer(ledger, n=N, clip="auto")

    def begin(function: Any, loss: str, storage: str | None = None) -> tuple[optuna.Study, Any]:
        objective = PrivateObjective(function, privatizer, n_trials=12, default=DEFAULT, **about(loss))
        return optuna.create_study(study_name="s", storage=storage, load_if_exists=True), objective

    return begin


@pytest.mark.parametrize("front", [sampled, any_sampler])
def test_the_default_chooses_the_clip_before_the_run_begins(
    front: Callable[..., Any], ledger: PrivacyLedger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    function = Fitting()
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study, objective = front(ledger)(function, "squared_error", storage)
    with caplog.at_level(logging.INFO, "optuna.dptune"):
        study.optimize(objective, n_trials=6)
    assert function.asked[0] == 1.0
    assert len(function.asked) == 7
    first, *runs = ledger.charges()
    assert first.scope == "clip/automatic"
    assert {charge.scope for charge in runs} == {"s"}
    high = 4 * first.value[0]  # type: ignore[index]
    assert 1e6 < high < 1e9  # dollars, squared
    assert f"The clip is (0, {high:.4g}), chosen privately for mu=0.224" in caplog.text
    again, objective = front(PrivacyLedger(tmp_path / "ledger.db"))(other := Fitting(), "squared_error", storage)
    again.optimize(objective, n_trials=1)
    assert len(ledger.charges("clip/automatic")) == 1
    assert len(other.asked) == 1


@pytest.mark.parametrize("space", [{**SPACE, "solver": CategoricalDistribution(["svd", "lsqr"])}, None])
def test_a_budget_in_epsilon_and_delta_keeps_a_part_for_the_choice_at_the_end(space: Any, tmp_path: Path) -> None:
    """As much as with a clip that is given, but for the clip's share; also where trials tell what is searched."""

    def fit(trial: Any) -> Any:
        alpha = trial.suggest_float("alpha", 1e-3, 1e3, log=True)
        return Ridge(alpha, solver=trial.suggest_categorical("solver", ["svd", "lsqr"])).fit(*rows(40, 0))

    def eta(clip: Any, storage: str | None = None) -> dict[str, float]:
        ledger = PrivacyLedger(tmp_path / f"{clip}.db", Budget.approximate_dp(1.0, 1e-5))
        default = {**DEFAULT, "solver": "svd"}
        sampler = CentredSampler(LossPrivatizer(ledger, n=N, clip=clip), space, n_trials=12, default=default, seed=0)
        study = optuna.create_study(study_name="s", sampler=sampler)
        study.optimize(sampler.objective(**about("squared_error"))(fit))
        assert ledger.filter.holder == "s"
        assert ledger.statement().epsilon == pytest.approx(1.0, rel=1e-6)
        assert ledger.statement().spent_epsilon <= 1.0 + 1e-9
        return {charge.scope: charge.eta for charge in ledger.charges() if charge.eta}

    given, chosen = eta((0.0, 1e8)), eta("auto")
    assert given["s"] * 0.95 < chosen["s"] < given["s"]
    assert chosen.keys() == given.keys() == {"s"}
    assert chosen["s"] > 0.41  # in GDP .34, with no clip to pay


def test_the_sampler_tries_the_default_first_and_ends_within_the_budget(ledger: PrivacyLedger) -> None:
    study, objective = sampled(ledger)(Fitting(), "squared_error")
    study.optimize(objective)
    assert study.trials[0].params == DEFAULT
    assert len(study.trials) == 12
    assert ledger.spent() <= 1.0
    assert study.sampler.recommend(study).summary()  # type: ignore[attr-defined]


def test_a_loss_whose_range_is_known_needs_no_release(ledger: PrivacyLedger) -> None:
    privatizer = LossPrivatizer(ledger, n=N, clip="auto")
    sampler = CentredSampler(privatizer, SPACE, n_trials=12, default=DEFAULT)
    sampler.objective(**about("zero_one"))(Fitting())
    assert (privatizer.interval.low, privatizer.interval.high) == (0.0, 1.0)
    assert ledger.spent() == 0


def test_a_default_is_asked_for_and_one_that_fails_costs_nothing(ledger: PrivacyLedger) -> None:
    sampler = CentredSampler(LossPrivatizer(ledger, n=N, clip="auto"), SPACE)
    with pytest.raises(InputError, match="Give default=, or clip"):
        sampler.objective(Fitting())
    assert sampler.objective(**about("zero_one"))(Fitting())  # its range is known

    class Failing(Fitting):
        def __call__(self, trial: Any) -> Any:
            trial.suggest_float("alpha", 1e-3, 1e3, log=True)
            raise ValueError("a public bug")

    study, objective = sampled(ledger)(Failing(), "squared_error")
    with pytest.raises(ValueError, match="a public bug"):
        study.optimize(objective, n_trials=1)
    assert ledger.spent() == 0


def test_a_budget_that_has_no_room_for_clip_and_run_is_refused_before_training(ledger: PrivacyLedger) -> None:
    study, objective = sampled(ledger, mu=1.0)(function := Fitting(), "squared_error")
    with pytest.raises(InputError, match="leaves no room"):
        study.optimize(objective, n_trials=1)
    assert function.asked == []
    assert ledger.spent() == 0


@pytest.mark.parametrize("odd", [0.0, np.nan, np.inf, 1e300])
def test_neighbours_leave_the_same_study(odd: float, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def left(name: str, worst: float) -> list[str]:
        (folder := tmp_path / name).mkdir()
        ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(1.0))
        privatizer = LossPrivatizer(ledger, n=N, clip="auto", noise=CannedNoise())
        sampler = CentredSampler(privatizer, SPACE, n_trials=12, default=DEFAULT, seed=0)

        @sampler.objective
        def losses(trial: Any) -> Any:
            alpha = trial.suggest_float("alpha", 1e-3, 1e3, log=True)
            return np.append(np.random.default_rng(0).exponential(alpha, N - 1), worst)

        gc.collect()  # studies of earlier tests say now how far they came
        caplog.clear()
        study = optuna.create_study(sampler=sampler, study_name="s")
        with caplog.at_level(logging.DEBUG, "optuna.dptune"):
            study.optimize(losses)
        shown = [record.getMessage() for record in caplog.records if record.name.startswith("optuna.dptune")]
        trials = [repr((trial.params, trial.values, trial.state)) for trial in study.trials]
        charges = [repr((charge.key, charge.value, charge.description)) for charge in ledger.charges()]
        return [*shown, *trials, *charges, str(sampler.recommend(study).summary())]

    assert left("mine", 1.0) == left("theirs", odd)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"default": {"alpha": 1e9}}, "within its range"), ({"start_from": "other"}, "start_from= needs the clip")],
)
def test_a_mistake_costs_no_budget(settings: dict[str, Any], message: str, ledger: PrivacyLedger) -> None:
    privatizer = LossPrivatizer(ledger, n=N, clip="auto")
    sampler = CentredSampler(privatizer, SPACE, **{"n_trials": 12, "default": DEFAULT, **settings})
    study = optuna.create_study(sampler=sampler)
    with pytest.raises(InputError, match=message):
        study.optimize(sampler.objective(**about("squared_error"))(Fitting()), n_trials=1)
    assert ledger.spent() == 0


def test_a_run_that_was_begun_with_a_clip_keeps_it_and_an_automatic_one_is_not_paid(ledger: PrivacyLedger) -> None:
    given = CentredSampler(LossPrivatizer(ledger, n=N, clip=(0.0, 1e7)), SPACE, n_trials=12, mu=0.5, default=DEFAULT)
    study = optuna.create_study(study_name="s", sampler=given)
    study.optimize(given.objective(**about("squared_error"))(Fitting()), n_trials=1)
    spent = ledger.spent()
    study, objective = sampled(ledger, mu=0.5)(Fitting(), "squared_error")
    with pytest.raises(BudgetMismatch, match="was started with clip"):
        study.optimize(objective, n_trials=1)
    assert ledger.spent() == spent


def test_a_second_search_with_another_loss_does_not_get_the_clip_of_the_first(ledger: PrivacyLedger) -> None:
    study, objective = sampled(ledger, mu=0.5)(Fitting(), "absolute_error")
    study.optimize(objective, n_trials=1)
    spent = ledger.spent()
    with pytest.raises(KeyConflict, match="was chosen for absolute_error, and this is squared_error"):
        sampled(ledger, mu=0.5)(Fitting(), "squared_error")
    study, objective = sampled(ledger, mu=0.5)(Fitting(), "zero_one")  # its range is known
    assert ledger.spent() == spent


def test_no_two_trials_that_explore_are_the_same(tmp_path: Path) -> None:
    space = {name: FloatDistribution(0.0, 1.0) for name in "abc"}
    default = dict.fromkeys(space, 0.5)
    ledger = PrivacyLedger(tmp_path / "l.db", Budget.gdp(1.0))
    sampler = CentredSampler(LossPrivatizer(ledger, n=N, clip=(0.0, 1.0)), space, default=default, seed=0)

    @sampler.objective
    def losses(trial: Any) -> Any:
        return np.full(N, sum(trial.suggest_float(name, 0.0, 1.0) for name in space) / 3)

    study = optuna.create_study(sampler=sampler)
    study.optimize(losses, n_trials=40)  # as many as explore
    seen = [tuple(trial.params.values()) for trial in study.trials]
    assert len(set(seen)) == len(seen) == 40
