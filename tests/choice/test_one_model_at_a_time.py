"""Of finalists one model is in memory at a time, each is trained once, and the chosen one is the one that was asked."""

import weakref

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import dptune
from dptune.choice import kept_models
from dptune_optuna import candidate, choose
from dptune_sklearn import PrivateSearch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=80) > 0).astype(int)
ROWS = RNG.normal(size=(50, 3))
ANSWERS = (ROWS[:, 0] > 0).astype(int)
M, FOLDS = 6, 5


LIVING = weakref.WeakSet()
DRAWS = np.random.default_rng(1)


class Watched(LogisticRegression):
    """Counts its fits, and how many fitted ones live when another one is fitted; it may train without a seed."""

    fits, most, unseeded = 0, 0, False

    def fit(self, X, y, sample_weight=None):
        Watched.most = max(Watched.most, len(LIVING))
        Watched.fits += 1
        super().fit(X, y)
        if self.unseeded:
            self.coef_ += DRAWS.normal(scale=1e-6, size=self.coef_.shape)
        LIVING.add(self)
        return self


@pytest.fixture(autouse=True)
def nothing_is_watched():
    LIVING.clear()
    Watched.fits = Watched.most = 0
    Watched.unseeded = False


@pytest.fixture
def study():
    found = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    found.optimize(lambda trial: trial.suggest_float("C", 1e-3, 1e3, log=True), M)
    return found


def asked(**options):
    return {"data": (ROWS, ANSWERS), "loss": "log_loss", "even_if_hopeless": True, **options}


def test_an_iterator_of_models_is_read_lazily(ledger):
    models = (Watched(C=10.0**k).fit(X, Y) for k in range(M))
    dptune.select(models, ledger, public_losses=RNG.random((M, 80)), default_place=0, mu=1.0, **asked())
    assert (Watched.fits, Watched.most) == (M, 1)


@pytest.mark.parametrize("count", [M - 1, M + 1])
def test_another_number_of_models_is_refused_before_the_charge(ledger, count):
    models = (Watched(C=10.0**k).fit(X, Y) for k in range(count))
    with pytest.raises(dptune.InputError, match=f"{M} candidates, and {count} were given"):
        dptune.select(models, ledger, public_losses=RNG.random((M, 80)), default_place=0, mu=1.0, **asked())
    assert not ledger.charges()


@pytest.mark.parametrize("small", [0, 1 << 20])
@pytest.mark.parametrize("averages", [False, True])
def test_a_study_trains_each_finalist_once(monkeypatch, ledger, study, small, averages):
    monkeypatch.setattr(kept_models, "SMALL", small)
    choice = choose(
        study, Watched(), ledger=ledger, public=(X, Y), mu=1.0, progress=False, averages=averages, **asked()
    )
    assert Watched.fits == FOLDS * (M + 1) + M  # one candidate is cross-validated twice, to see whether it has a seed
    if not averages:
        assert Watched.most <= (2 if small == 0 else M)
    assert choice.model.predict_proba(ROWS).shape == (50, 2)


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_the_chosen_model_is_the_one_that_was_asked(monkeypatch, ledger, study, small):
    """Without a seed, a model that is trained again is another one."""
    monkeypatch.setattr(kept_models, "SMALL", small)
    Watched.unseeded, trained = True, {}

    def train(trial, X, y):
        model = Watched(C=trial.params["C"]).fit(X, y)
        trained.setdefault(trial.params["C"], model.coef_.copy())
        return model

    losses = RNG.random((M, 80))
    choice = choose(study, train, ledger=ledger, public=(X, Y), public_losses=losses, mu=1.0, progress=False, **asked())
    assert np.array_equal(choice.model.coef_, trained[choice.params["C"]])
    assert Watched.fits == M


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_an_objective_with_held_out_rows_trains_each_trial_once(monkeypatch, ledger, study, small):
    monkeypatch.setattr(kept_models, "SMALL", small)

    def objective(trial):
        model = Watched(C=trial.suggest_float("C", 1e-3, 1e3, log=True)).fit(X[:40], Y[:40])
        candidate(trial, model, held_out=(X[40:], Y[40:]))
        return 0.0

    choice = choose(study, objective, ledger=ledger, mu=1.0, progress=False, **asked())
    assert Watched.fits == M + 1
    again = Watched(C=choice.params["C"]).fit(X[:40], Y[:40])
    assert np.array_equal(choice.model.coef_, again.coef_)


def test_private_search_has_one_model_at_a_time(monkeypatch, ledger):
    monkeypatch.setattr(kept_models, "SMALL", 0)
    grid = GridSearchCV(Watched(), {"C": [10.0**k for k in range(-3, 3)]})
    search = PrivateSearch(grid, ledger=ledger, loss="log_loss", mu=1.0, even_if_hopeless=True)
    search.fit(X, Y, X_val=ROWS, y_val=ANSWERS)
    assert Watched.most <= 3  # the search has one of its own
    assert np.array_equal(search.best_estimator_.coef_, Watched(**search.best_params_).fit(X, Y).coef_)
