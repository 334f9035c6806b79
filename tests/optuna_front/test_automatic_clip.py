"""clip="auto" in Optuna: the default configuration is trained once more, first, and its losses choose the clip."""

import logging

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetMismatch, InputError
from dptune_optuna import CentredSampler, PrivateObjective
from harness import create, stored
from noises import NoNoise

SPACE = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
DEFAULT = {"alpha": 1.0}
N = 300


def rows(n, seed):
    """Inputs (n, 5), and answers (n,) in dollars."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, 1000 * (X @ np.arange(5) + rng.normal(size=n))


class Fitting:
    """A function that trains a Ridge on public rows, and keeps what it was asked for."""

    def __init__(self, fails=False):
        self.asked: list[float] = []
        self._fails = fails

    def __call__(self, trial):
        self.asked.append(trial.suggest_float("alpha", 1e-3, 1e3, log=True))
        if self._fails:
            raise ValueError("a public bug")
        return Ridge(self.asked[-1]).fit(*rows(40, 0))


def begun(folder, function, *, kind="sampler", loss="squared_error", clip="auto", noise=None, **more):
    """A ledger, a study and its objective."""
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(1.0))
    privatizer = LossPrivatizer(ledger, n=N, clip=clip, noise=noise)
    settings = {"n_trials": 12, "default": DEFAULT, **more}
    X, y = rows(N, 1)
    about = {"loss": loss, "data": lambda: (X, y > 0 if loss == "zero_one" else y)}
    if kind == "objective":
        return ledger, create(stored(folder), None), PrivateObjective(function, privatizer, **settings, **about)
    sampler = CentredSampler(privatizer, SPACE, **settings)
    return ledger, create(stored(folder), sampler), sampler.objective(**about)(function)


def first_trial(folder, function, **settings):
    ledger, study, objective = begun(folder, function, **settings)
    study.optimize(objective, n_trials=1)
    return ledger


@pytest.mark.parametrize("kind", ["sampler", "objective"])
def test_the_default_chooses_the_clip_before_the_run_begins(kind, tmp_path, caplog):
    noise = NoNoise()  # with noise, one of 1,500 clips lies elsewhere
    ledger, study, objective = begun(tmp_path, function := Fitting(), kind=kind, noise=noise)
    with caplog.at_level(logging.INFO, "optuna.dptune"):
        study.optimize(objective)
    assert function.asked[0] == 1.0
    assert len(function.asked) == len(study.trials) + 1 == 13
    assert kind == "objective" or study.trials[0].params == DEFAULT
    assert ledger.spent() <= 1.0
    first, *runs = ledger.charges()
    assert first.scope == "clip/automatic"
    assert {charge.scope for charge in runs} == {"study"}
    high = 4 * first.value[0]
    assert 1e6 < high < 1e9  # dollars, squared
    assert f"The clip is (0, {high:.4g}), chosen privately for mu=0.224" in caplog.text
    _, study, objective = begun(tmp_path, other := Fitting(), kind=kind, noise=noise)
    assert objective.run_of(study).complete
    assert other.asked == []
    assert len(ledger.charges("clip/automatic")) == 1


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"default": None}, InputError, "Give default=, or clip"),
        ({"default": {"alpha": 1e9}}, InputError, "within its range"),
        ({"mu": 1.0}, InputError, "leaves no room"),
        ({"fails": True}, ValueError, "a public bug"),
    ],
)
def test_a_mistake_is_refused_before_training_and_costs_nothing(settings, error, message, tmp_path):
    ledger, _, _ = begun(tmp_path, Fitting(), loss="zero_one", default=None)  # whose range is known: no release
    function = Fitting(fails=settings.pop("fails", False))
    with pytest.raises(error, match=message):
        first_trial(tmp_path, function, **settings)
    assert function.asked in ([], [1.0])
    assert ledger.spent() == 0


def test_a_run_keeps_its_clip(tmp_path):
    ledger = first_trial(tmp_path, Fitting(), clip=(0.0, 1e7), mu=0.5)
    spent = ledger.spent()
    with pytest.raises(BudgetMismatch):
        first_trial(tmp_path, Fitting(), mu=0.5)
    assert ledger.spent() == spent  # an automatic one is not paid
