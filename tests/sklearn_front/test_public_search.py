"""Public rows propose, private people decide: any public search, wrapped or made; what it shows and refuses."""

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna_integration import OptunaSearchCV
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingRandomSearchCV,
    KFold,
    RandomizedSearchCV,
    TimeSeriesSplit,
)
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import dptune
from dptune.errors import BudgetExhausted
from dptune_sklearn import PrivateSearch, cross_validated_losses
from sklearn_tools import PRIVATE, PUBLIC, SPACE, VAL, Never, ledger_in

GRID = {"C": [0.001, 0.1, 1.0, 10.0]}
WEAK = LogisticRegression(C=1e-3)
SEARCHES = {
    "random": lambda: RandomizedSearchCV(WEAK, SPACE, n_iter=4, cv=3),
    "halving": lambda: HalvingRandomSearchCV(WEAK, SPACE, cv=3, n_candidates=6, min_resources=20),
    "optuna": lambda: OptunaSearchCV(WEAK, {"C": FloatDistribution(1e-3, 1e3, log=True)}, cv=3, n_trials=4),
}
optuna.logging.set_verbosity(optuna.logging.WARNING)
pytestmark = pytest.mark.filterwarnings("ignore:OptunaSearchCV is experimental", "ignore:`optuna.terminator`")


def made(folder, estimator=WEAK, space=SPACE, **settings):
    usual = {"ledger": ledger_in(folder), "loss": "log_loss", "n_trials": 8, "cv": 3}
    return PrivateSearch(estimator, space, **{**usual, **settings})


def wrapped(folder, search, **settings):
    return PrivateSearch(search, **{"ledger": ledger_in(folder), "loss": "log_loss", **settings})


@pytest.mark.parametrize(("kind", "fitted"), [("random", True), ("halving", False), ("optuna", False)])
def test_a_public_search_proposes_and_private_people_decide(fast_path, kind, fitted):
    public = SEARCHES[kind]().set_params(random_state=0)
    alone = clone(public).fit(*PUBLIC)
    search = wrapped(fast_path, alone if fitted else public).fit(*PUBLIC, **VAL)
    results = search.cv_results_
    assert results["mean_test_score"] == pytest.approx(
        search.search_.cv_results_["mean_test_score"] if kind != "optuna" else [t.value for t in search.search_.trials_]
    )
    if kind != "optuna":
        assert results["mean_test_score"] == pytest.approx(alone.cv_results_["mean_test_score"])
        assert results["params"] == alone.cv_results_["params"]
    assert search.n_splits_ == 3
    if search.best_index_ is None:
        assert search.best_params_ == {}
        assert search.best_estimator_.C == WEAK.C
    else:
        assert results["params"][search.best_index_] == search.best_params_
        assert search.best_score_ == results["mean_test_score"][search.best_index_]
        assert search.best_params_["C"] == search.best_estimator_.C
    assert search.released_["release"] in (["index"], ["index", "improvement"])
    assert search.ledger.spent() <= 4.0
    assert search.predict(PRIVATE[0]).shape == (60,)
    assert "private choice" in search.summary() == search.best_params_.summary()
    assert "mu = 4" in str(search.statement(delta=1e-3))
    spent = search.ledger.spent()
    assert pickle.loads(pickle.dumps(search)).fit(*PUBLIC, **VAL).best_params_ == search.best_params_
    assert search.ledger.spent() == spent


def test_a_search_that_is_made_has_the_results_of_RandomizedSearchCV(fast_path):
    search = made(fast_path, scoring="accuracy").fit(*PUBLIC, **VAL)
    results = search.cv_results_
    grid = [{"C": [point["C"]]} for point in results["params"]]
    expected = GridSearchCV(WEAK, grid, cv=3, scoring="accuracy").fit(*PUBLIC).cv_results_
    for name in ("mean_test_score", "std_test_score", "split0_test_score", "split2_test_score", "rank_test_score"):
        assert results[name] == pytest.approx(expected[name]), name
    assert list(results["param_C"]) == list(expected["param_C"])
    assert set(expected) - set(results) == {"mean_score_time", "std_score_time"}
    assert search.multimetric_ is False


def test_without_scoring_the_public_score_is_minus_the_loss_and_an_exact_private_one_is_warned_of(fast_path):
    search = made(fast_path).fit(*PUBLIC, **VAL)
    best = clone(WEAK).set_params(**search.best_params_)
    losses = cross_validated_losses(best.fit, *PUBLIC, cv=3, loss="log_loss")
    assert search.selection_.public_loss == pytest.approx(losses.mean(), abs=1e-3)
    if search.best_index_ is not None:
        assert search.cv_results_["mean_test_score"][search.best_index_] == pytest.approx(-losses.mean(), abs=0.05)
    with pytest.warns(UserWarning, match="NOT PRIVATE: score"):
        search.score(*PRIVATE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.score(*PUBLIC)
    assert b"NOT PRIVATE" not in pickle.dumps(search)


def test_the_chosen_finalist_s_losses_are_those_of_scikit_learn_s_model(fast_path):
    """What the private people are asked, against models that are trained by hand; the noise is small."""
    settings = {"ledger": ledger_in(fast_path, mu=1e4), "loss": "log_loss", "clip": (0.0, 3.0)}
    search = PrivateSearch(GridSearchCV(WEAK, GRID, cv=3), **settings).fit(*PUBLIC, **VAL)
    means = {}
    for C in GRID["C"]:
        p = LogisticRegression(C=C).fit(*PUBLIC).predict_proba(PRIVATE[0])[np.arange(60), PRIVATE[1]]
        means[C] = np.clip(-np.log(p), 0, 3).mean()
    improvement = search.best_params_.improvement
    assert search.best_params_["C"] == min(means, key=means.get)
    assert improvement.value == pytest.approx(means[1e-3] - min(means.values()), abs=6 * improvement.sigma)
    assert improvement.sigma < 1e-3
    assert search.selection_.verdict == "better"


def test_what_you_have_is_always_a_candidate_and_what_the_answer_is_compared_with(fast_path):
    for C, candidates in ((7.0, 5), (10, 4)):
        search = wrapped(fast_path, GridSearchCV(LogisticRegression(C=C), GRID, cv=3), mu=1.0).fit(*PUBLIC, **VAL)
        assert search.selection_.candidates == candidates
    balanced = {"class_weight": "balanced"}
    search = made(fast_path, default=balanced, mu=1.0).fit(*PUBLIC, **VAL)
    assert search.selection_.candidates == 9
    assert search.best_params_.defaults in (balanced, {"C": 1e-3}, {"C": 1e-3, **balanced})


@pytest.mark.parametrize(
    "search_in", [lambda at: made(at, refit=False), lambda at: wrapped(at, GridSearchCV(WEAK, GRID, refit=False))]
)
def test_without_refit_no_model_is_kept(fast_path, search_in):
    search = search_in(fast_path).fit(*PUBLIC, **VAL)
    assert not hasattr(search, "best_estimator_")
    assert "C" in search.cv_results_["params"][0]
    with pytest.raises(AttributeError):
        search.predict(PRIVATE[0])


@pytest.mark.parametrize("wrap", [False, True])
def test_a_search_without_seeds_is_the_same_again_and_costs_nothing(fast_path, capsys, wrap):
    tree, folds = DecisionTreeClassifier(splitter="random"), KFold(3, shuffle=True)
    space = {"max_depth": [1, 2, 3, None], "max_features": [1, 2, 3]}
    if wrap:
        search = wrapped(fast_path, RandomizedSearchCV(tree, space, n_iter=4, cv=folds))
    else:
        search = made(fast_path, tree, space, cv=folds, n_trials=4)
    best, spent = search.fit(*PUBLIC, **VAL).best_params_, search.ledger.spent()
    capsys.readouterr()
    assert clone(search).set_params(verbose=1).fit(*PUBLIC, **VAL).best_params_ == best
    assert f"Recorded answer of {search.name_!r}; nothing is charged.\n" in capsys.readouterr().out
    assert search.ledger.spent() == spent


def test_groups_of_training_rows_stay_together(fast_path):
    groups = np.arange(40) // 4
    search = made(fast_path, cv=GroupKFold(4), mu=1.0).fit(*PUBLIC, **VAL, train_groups=groups)
    assert search.n_splits_ == 4
    inner = GridSearchCV(WEAK, GRID, cv=GroupKFold(4))
    assert wrapped(fast_path, inner, mu=1.0).fit(*PUBLIC, **VAL, train_groups=groups).n_splits_ == 4
    with pytest.raises(ValueError, match="groups"):
        made(fast_path, cv=GroupKFold(4), mu=1.0).fit(*PUBLIC, **VAL)


def test_options_of_fit_reach_the_public_search_too(fast_path):
    weights = np.where(np.arange(40) < 20, 1.0, 1e-3)
    search = wrapped(fast_path, GridSearchCV(WEAK, GRID, cv=3), mu=1.0).fit(*PUBLIC, **VAL, sample_weight=weights)
    alone = GridSearchCV(WEAK, GRID, cv=3).fit(*PUBLIC, sample_weight=weights)
    assert search.cv_results_["mean_test_score"] == pytest.approx(alone.cv_results_["mean_test_score"])
    chosen = search.best_params_ or {"C": WEAK.C}
    by_hand = LogisticRegression(**chosen).fit(*PUBLIC, sample_weight=weights)
    assert search.best_estimator_.coef_ == pytest.approx(by_hand.coef_)


# ---- what bad input gets --------------------------------------------------------------------------------------------


class FailsOnAllRows(LogisticRegression):
    """Trains on the rows of two folds, and not on all of them."""

    def fit(self, X, y):
        if self.C == 10.0 and len(X) == 40:
            raise ZeroDivisionError("too many rows")
        return super().fit(X, y)


def test_what_cannot_be_trained_drops_out_publicly(fast_path):
    search = wrapped(fast_path, GridSearchCV(FailsOnAllRows(C=1e-3), GRID, cv=3, refit=False), mu=1.0)
    with pytest.warns(FitFailedWarning, match="ZeroDivisionError: too many rows"):
        search.fit(*PUBLIC, **VAL)
    assert search.selection_.finalists == 3
    assert search.best_params_ != {"C": 10.0}

    with pytest.warns(FitFailedWarning, match="could not be cross-validated"):
        search = made(fast_path, space={"C": [0.1, 1.0, -1.0]}, n_trials=None, mu=1.0).fit(*PUBLIC, **VAL)
    assert search.best_params_ != {"C": -1.0}
    assert search.cv_results_["rank_test_score"][2] == 3

    search = made(fast_path, LogisticRegression(C=-1.0), mu=1.0)
    with pytest.warns(UserWarning, match="compared with nothing"), pytest.warns(FitFailedWarning):
        search.fit(*PUBLIC, **VAL)
    assert search.selection_.improvement is None


def never():
    return GridSearchCV(Never(), GRID)


BAD = [
    (lambda: GridSearchCV(WEAK, {"C": [0.001]}, cv=3), {}, dptune.InputError, "two"),
    (lambda: GridSearchCV(WEAK, GRID, cv=TimeSeriesSplit(3)), {}, dptune.InputError, "never tests 10 of the 40"),
    (lambda: GridSearchCV(WEAK, {"C": [-1.0, -2.0]}), {}, ValueError, "All the 10 fits failed"),
    (
        lambda: GridSearchCV(WEAK, GRID, scoring=["accuracy", "f1"], refit=False), {}, dptune.InputError,
        "several scores and no refit= that names one",
    ),
    (lambda: GridSearchCV(SVC(), GRID, cv=3), {}, dptune.InputError, "log_loss needs predict_proba"),
    (lambda: GridSearchCV(WEAK, GRID, error_score=PRIVATE[0]), {}, dptune.InputError, "the search: error_score"),
    (
        lambda: GridSearchCV(WEAK, GRID, scoring=lambda m, X, y, rows=PRIVATE[0]: 0.0), {}, dptune.InputError,
        "the search: scoring",
    ),
    (never, {"cv": None}, dptune.InputError, "cv= is refused with a GridSearchCV"),
    (never, {"n_trials": 9}, dptune.InputError, "n_trials= is refused with"),
    (never, {"scoring": "accuracy"}, dptune.InputError, "scoring= is refused with"),
    (never, {"method": "centred"}, dptune.InputError, "method= is refused with"),
    (never, {"mu": 5.0}, BudgetExhausted, "mu=5"),
]  # fmt: skip


@pytest.mark.parametrize(("search", "settings", "error", "said"), BAD)
@pytest.mark.filterwarnings("ignore")
def test_bad_input_is_refused_with_the_reason_and_costs_nothing(fast_path, search, settings, error, said):
    with pytest.raises(error, match=said):
        wrapped(fast_path, search(), **settings).fit(*PUBLIC, **VAL)
    assert ledger_in(fast_path).charges() == []


def test_the_page_counts_the_lines_of_its_differences_whose_new_side_is_python():
    page = (Path(__file__).parents[2] / "docs" / "sklearn.md").read_text()
    told = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    differences = [block.split("```")[0].splitlines() for block in page.split("```diff\n")[1:]]
    counted = [(sum(line[0] == "-" for line in one), sum(line[0] == "+" for line in one)) for one in differences]
    assert [(int(out), int(put)) for out, put in told] == counted != []
    for one in differences:
        compile("\n".join(line[1:] for line in one if line[0] != "-"), "sklearn.md", "exec")
