"""A search that is not told its clip; its score in scikit-learn's sign; rows that a pipeline passes on."""

import numpy as np
import pytest
import sklearn
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import dptune
from dptune_sklearn import PrivateSearch
from sklearn_tools import ledger_in

SPACE = {"alpha": loguniform(1e-3, 1e3)}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, 500 * (X @ [1.0, 2.0, 3.0, 4.0] + rng.normal(size=n))


PUBLIC, (X_VAL, Y_VAL) = rows(50, 0), rows(400, 1)
VAL = {"X_val": X_VAL, "y_val": Y_VAL}


def unclipped(folder, **settings):
    settings = {"n_trials": 12, "cv": None, **settings}
    return PrivateSearch(Ridge(), SPACE, ledger=ledger_in(folder), loss="mse", **settings)


@pytest.mark.parametrize("method", ["centred", "selection"])
def test_the_estimator_as_it_was_given_chooses_the_clip_and_the_answer_stays(fast_path, method, capsys):
    search = unclipped(fast_path, method=method, verbose=1).fit(*PUBLIC, **VAL)
    said = {"centred": "The clip is (0, ", "selection": "Each loss is clipped to (0, "}
    assert said[method] in capsys.readouterr().out
    assert search.released_["release"][0] == "clip"
    assert 1e5 < search.released_["value"][0][0] < 1e8  # dollars, squared
    assert sum(mu**2 for mu in search.released_["mu"]) == pytest.approx(search.ledger.spent() ** 2)
    again = clone(search).fit(*PUBLIC, **VAL)
    assert again.released_ == search.released_
    assert again.best_params_ == search.best_params_
    assert search.best_score_ == -search.best_loss_.value < 0


@pytest.mark.filterwarnings("ignore:A candidate could not be trained")
@pytest.mark.parametrize(
    ("method", "budget"),
    [("centred", dptune.Budget.gdp(1.0)), ("selection", dptune.Budget.approximate_dp(1.0, 1e-5))],
    ids=["gdp", "pair"],
)
def test_a_misspelt_space_pays_for_no_clip_and_one_that_half_trains_for_one(fast_path, method, budget):
    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", budget)

    def fit(*solvers):
        space = {"solver": list(solvers), "alpha": [0.1, 1.0, 10.0]}
        about = {"loss": "mse", "n_trials": 12, "method": method, "random_state": 0, "cv": None}
        return PrivateSearch(Ridge(solver="svd"), space, ledger=ledger, **about).fit(*PUBLIC, **VAL)

    for misspelt in (("svdd", "lsqrr"), ("svdd", "cholesk")):
        with pytest.raises(dptune.InputError, match="Nothing was charged"):
            fit(*misspelt)
    assert ledger.charges() == []
    fit("svd", "lsqrr")
    with pytest.raises(dptune.BudgetExhausted):
        fit("svd", "lsqr", "cholesky")  # nothing is left; the clip is not asked for again
    assert [charge.key for charge in ledger.charges()].count("clip") == 1


def test_a_pipeline_routes_and_transforms_the_private_rows(fast_path):
    scaler = StandardScaler().fit(PUBLIC[0])
    (fast_path / "by hand").mkdir()
    by_hand = unclipped(fast_path / "by hand", method="selection")
    with sklearn.config_context(enable_metadata_routing=True):
        search = unclipped(fast_path, method="selection").set_fit_request(X_val=True, y_val=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("search", search)], transform_input=["X_val"])
        pipeline.fit(*PUBLIC, **VAL)
        by_hand.fit(scaler.transform(PUBLIC[0]), PUBLIC[1], X_val=scaler.transform(X_VAL), y_val=Y_VAL)
    assert pipeline["search"].name_ == by_hand.name_  # the training rows, and all settings, are the same
    assert pipeline.predict(X_VAL).shape == (400,)
