"""The last release in the front ends: an error of the ledger is made up for, and nothing is paid twice."""

import warnings
from contextlib import contextmanager

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

import dptune
from dptune_optuna import CentredSampler
from dptune_sklearn import PrivateSearch

N, CLIP, DEFAULT = 80, (0.0, 4.0), {"x": 0.9}
SPACE = {"x": FloatDistribution(-1.0, 1.0)}
PEOPLE = np.random.default_rng(0).normal(0.0, 0.1, N)
PUBLIC = np.random.default_rng(1).normal(size=(40, 3))
PRIVATE = np.random.default_rng(2).normal(size=(N, 3))
WEIGHTS = np.array([1.0, 2.0, -1.0])


def ledger_in(folder):
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(30.0))


@contextmanager
def failing(key, method):
    """Every charge, or record, of this key fails as with a full disk."""
    true = getattr(dptune.PrivacyLedger, method)

    def fails(self, *asked, **options):
        if (asked[1] if method == "charge" else asked[0].key) == key:
            raise dptune.LedgerError("disk full")
        return true(self, *asked, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dptune.PrivacyLedger, method, fails)
        yield


def one_answer_each(ledger, *keys):
    charges = [charge for charge in ledger.charges() if charge.key in keys]
    assert sorted(charge.key for charge in charges) == sorted(keys)
    assert all(charge.value is not None for charge in charges)


def losses(trial):
    return (trial.suggest_float("x", -1.0, 1.0) - 0.2 + PEOPLE) ** 2


def study_in(folder):
    privatizer = dptune.LossPrivatizer(ledger_in(folder), n=N, clip=CLIP)
    sampler = CentredSampler(privatizer, SPACE, n_trials=8, population=4, default=DEFAULT, seed=1)
    storage = f"sqlite:///{folder}/study.db"
    study = optuna.create_study(storage=storage, study_name="s", sampler=sampler, load_if_exists=True)
    return sampler, study, sampler.objective(losses)


def test_an_optuna_study(fast_path):
    sampler, study, objective = study_in(fast_path)
    with failing("choice", "charge"), pytest.raises(dptune.LedgerError, match="disk full"):
        study.optimize(objective)
    sampler, study, objective = study_in(fast_path)  # another process
    study.optimize(objective, timeout=120)
    assert sampler.recommend(study).improvement.verdict == "better"
    run = sampler.run_of(study)
    assert run.complete
    one_answer_each(run.ledger, "choice", "final")
    assert run.ledger.spent() == pytest.approx(30.0)


def test_a_scikit_learn_search(fast_path):
    def fit():
        about = {"ledger": ledger_in(fast_path), "loss": "mse", "clip": (0.0, 40.0), "n_trials": 8, "cv": None}
        settings = {"population": 4}
        search = PrivateSearch(Ridge(alpha=90.0), {"alpha": [0.1, 1.0, 90.0, 1000.0]}, settings=settings, **about)
        return search.fit(PUBLIC, PUBLIC @ WEIGHTS, X_val=PRIVATE, y_val=PRIVATE @ WEIGHTS)

    with failing("choice", "record"), pytest.raises(dptune.LedgerError, match="disk full"):
        fit()
    search = fit()
    assert search.best_params_.improvement is not None
    assert search.best_params_["alpha"] < 90
    one_answer_each(search.ledger, "choice", "final")
    assert search.ledger.spent() == pytest.approx(30.0)


def charged_key(folder):
    """The key of a choice, from one that is made."""
    privatizer = dptune.LossPrivatizer(ledger_in(folder), n=N, clip=CLIP)
    dptune.select(np.ones((2, N)), privatizer, mu=5.0, name="other")
    (charge,) = ledger_in(folder).charges("other")
    return charge.key


@pytest.mark.parametrize("method", ["charge", "record"])
def test_a_choice_among_losses(fast_path, method):
    key = charged_key(fast_path)
    candidates = np.vstack([np.full(N, level) for level in (3.0, 0.5, 2.0)])
    for _ in range(2):
        with failing(key, method), pytest.raises(dptune.LedgerError, match="disk full"):
            dptune.select(candidates, dptune.LossPrivatizer(ledger_in(fast_path), n=N, clip=CLIP), mu=9.0, name="mine")
    privatizer = dptune.LossPrivatizer(ledger_in(fast_path), n=N, clip=CLIP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dptune.select(candidates, privatizer, mu=9.0, name="mine").index == 1
    assert len(ledger_in(fast_path).charges("mine")) == 1
    assert ledger_in(fast_path).spent() == pytest.approx(np.hypot(9.0, 5.0))
