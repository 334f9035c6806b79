"""Any public search proposes candidates on public rows, and private people choose among them."""

import pickle
import re
import warnings
from pathlib import Path

import joblib
import numpy as np
import optuna
import pytest
import sklearn
from optuna.distributions import FloatDistribution
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
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import dptune
from dptune.errors import BudgetExhausted, BudgetMismatch
from dptune.privacy.noise import OpenDPNoise
from dptune_sklearn import PrivateSearch
from dptune_sklearn.public_search import proposals_of
from sklearn_tools import GRID, PRIVATE, PUBLIC, SPACE, VAL, WEAK, Never, grid, ledger_in, rows, search_in


def optuna_search():
    integration = pytest.importorskip("optuna_integration")  # absent where the oldest versions are tested
    return integration.OptunaSearchCV(WEAK, {"C": FloatDistribution(1e-3, 1e3, log=True)}, cv=3, n_trials=4)


SEARCHES = {
    "random": lambda: RandomizedSearchCV(WEAK, SPACE, n_iter=4, cv=3),
    "halving": lambda: HalvingRandomSearchCV(WEAK, SPACE, cv=3, n_candidates=6, min_resources=20),
    "optuna": optuna_search,
}
optuna.logging.set_verbosity(optuna.logging.WARNING)
pytestmark = pytest.mark.filterwarnings("ignore:OptunaSearchCV is experimental", "ignore:`optuna.terminator`")


@pytest.mark.parametrize(("kind", "fitted"), [("random", True), ("halving", False), ("optuna", False)])
def test_a_public_search_proposes_and_private_people_decide(fast_path, kind, fitted):
    public = SEARCHES[kind]().set_params(random_state=0)
    alone = clone(public).fit(*PUBLIC)
    search = search_in(fast_path, alone if fitted else public).fit(*PUBLIC, **VAL)
    results = search.cv_results_
    if kind == "optuna":
        assert results["mean_test_score"] == pytest.approx([trial.value for trial in search.search_.trials_])
    else:
        assert results["mean_test_score"] == pytest.approx(alone.cv_results_["mean_test_score"])
        assert results["params"] == alone.cv_results_["params"]
    assert search.n_splits_ == 3
    if search.best_index_ is None:
        assert search.best_params_ == {"C": WEAK.C}
        assert np.isnan(search.best_score_)
    else:
        assert results["params"][search.best_index_] == search.best_params_
        assert search.best_score_ == results["mean_test_score"][search.best_index_]
    assert search.best_params_["C"] == search.best_estimator_.C
    assert search.released_["release"] in (["index"], ["index", "improvement"])
    assert search.released_["release"] == [charge.key for charge in search.ledger.charges()]
    assert sum(mu**2 for mu in search.released_["mu"]) == pytest.approx(search.ledger.spent() ** 2)
    assert search.ledger.spent() <= 4.0
    assert search.predict(PRIVATE[0]).shape == (60,)
    assert list(search.classes_) == [0, 1]
    assert search.n_features_in_ == 3
    assert "private choice" in search.summary()
    assert "mu = 4" in str(search.statement(delta=1e-3))
    spent = search.ledger.spent()
    assert pickle.loads(pickle.dumps(search)).fit(*PUBLIC, **VAL).best_params_ == search.best_params_
    assert search.ledger.spent() == spent


def test_the_choice_is_announced_and_an_exact_private_score_is_warned_of(fast_path, capsys, caplog):
    caplog.set_level("INFO", logger="dptune_sklearn")
    search = search_in(fast_path).fit(*PUBLIC, **VAL)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "dptune_sklearn"]
    assert capsys.readouterr().out == ""
    assert "Spends: all of the ledger's mu=4. " in said
    assert "picks the right one of two records at most 98 times in 100" in said
    assert search.name_.startswith("GridSearchCV ")
    assert f"{search.name_!r}" in said
    with pytest.warns(UserWarning, match="NOT PRIVATE: score"):
        search.score(*PRIVATE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.score(*PUBLIC)
    assert b"NOT PRIVATE" not in pickle.dumps(search)


def test_the_chosen_finalists_losses_are_those_of_scikit_learns_model(fast_path):
    """What the private people are asked, against models that are trained by hand; the noise is small."""
    search = search_in(fast_path, ledger=ledger_in(fast_path, mu=1e4), clip=(0.0, 3.0)).fit(*PUBLIC, **VAL)
    means = {}
    for C in GRID["C"]:
        p = LogisticRegression(C=C).fit(*PUBLIC).predict_proba(PRIVATE[0])[np.arange(60), PRIVATE[1]]
        means[C] = np.clip(-np.log(p), 0, 3).mean()
    improvement = search.selection_.improvement
    assert search.best_params_["C"] == min(means, key=means.get)
    assert improvement.value == pytest.approx(means[1e-3] - min(means.values()), abs=6 * improvement.sigma)
    assert improvement.sigma < 1e-3
    assert search.selection_.verdict == "better"


KNN = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3, 5, 9]}, cv=3)
KINDS = [{"model": [LogisticRegression()], "model__C": [0.1, 1.0]}, {"model": [SVC()], "model__gamma": [0.1, "scale"]}]


@pytest.mark.parametrize(
    ("search", "default", "candidates", "today"),
    [
        (grid(LogisticRegression(C=7.0)), None, 5, {"C": 7.0}),
        (grid(LogisticRegression(C=10)), None, 4, {"C": 10.0}),
        (grid(), {"class_weight": "balanced"}, 5, {"C": 1e-3, "class_weight": "balanced"}),
        (grid(), {"C": 10}, 4, {"C": 10.0}),
        (KNN, {"weights": "distance"}, 4, {"n_neighbors": 5, "weights": "distance"}),
        (grid(Pipeline([("model", SVC())]), KINDS), None, 4, {"model__gamma": "scale"}),
    ],
)
def test_what_you_have_is_always_a_candidate_and_what_is_compared_with(fast_path, search, default, candidates, today):
    found = search_in(fast_path, search, default=default, mu=2.0, loss="zero_one").fit(*PUBLIC, **VAL)
    chosen = found.selection_
    assert chosen.candidates == candidates
    if chosen.verdict == "the default":
        assert today.items() <= found.best_params_.items()
    else:
        assert chosen.improvement is not None


def test_small_rungs_follow_full_ones_and_a_repetition_takes_no_place():
    """``candidates=`` counts configurations; one that failed on a rung is the last of it."""
    results = {
        "params": [{"C": C} for C in (1, 2, 3, 4, 2, 3, 3)],
        "iter": np.array([0, 0, 0, 0, 1, 1, 2]),
        "mean_test_score": np.array([0.99, 0.9, 0.8, np.nan, 0.5, 0.6, 0.1]),
    }
    search = grid()
    search.cv_results_ = results
    proposals = proposals_of(search, WEAK, None)
    assert [each.row for each in proposals.candidates] == [6, 5, 4, 0, 1, 2, 3]
    assert [each.parameters["C"] for each in proposals.with_default(None, 3)[0]] == [3, 2, 1]


def test_without_refit_no_model_is_kept(fast_path):
    search = search_in(fast_path, grid(refit=False)).fit(*PUBLIC, **VAL)
    assert not hasattr(search, "best_estimator_")
    assert "C" in search.cv_results_["params"][0]
    with pytest.raises(AttributeError):
        search.predict(PRIVATE[0])


def test_a_search_without_seeds_is_the_same_again_and_costs_nothing(fast_path, capsys):
    tree, folds = DecisionTreeClassifier(splitter="random"), KFold(3, shuffle=True)
    space = {"max_depth": [1, 2, 3, None], "max_features": [1, 2, 3]}
    search = search_in(fast_path, RandomizedSearchCV(tree, space, n_iter=4, cv=folds))
    best, spent = search.fit(*PUBLIC, **VAL).best_params_, search.ledger.spent()
    capsys.readouterr()
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        assert clone(search).set_params(verbose=1, n_jobs=2).fit(*PUBLIC, **VAL).best_params_ == best
    assert re.fullmatch(
        rf"Recorded answer of '{search.name_}', from [\d-]{{10}}\. Nothing is charged\. data= played no part: .*\n",
        capsys.readouterr().out,
    )
    assert search.ledger.spent() == spent


def test_groups_of_training_rows_stay_together(fast_path):
    groups = np.arange(40) // 4
    search = search_in(fast_path, grid(cv=GroupKFold(4)), mu=1.0)
    assert search.fit(*PUBLIC, **VAL, train_groups=groups).n_splits_ == 4
    with pytest.raises(ValueError, match="groups"):
        search.fit(*PUBLIC, **VAL)


def test_options_of_fit_reach_the_public_search_too(fast_path):
    weights = np.where(np.arange(40) < 20, 1.0, 1e-3)
    search = search_in(fast_path, mu=1.0).fit(*PUBLIC, **VAL, sample_weight=weights)
    alone = grid().fit(*PUBLIC, sample_weight=weights)
    assert search.cv_results_["mean_test_score"] == pytest.approx(alone.cv_results_["mean_test_score"])
    by_hand = LogisticRegression(**search.best_params_).fit(*PUBLIC, sample_weight=weights)
    assert search.best_estimator_.coef_ == pytest.approx(by_hand.coef_)


def test_a_pipeline_routes_and_transforms_the_private_rows(fast_path):
    scaler = StandardScaler().fit(PUBLIC[0])
    with sklearn.config_context(enable_metadata_routing=True):
        search = search_in(fast_path).set_fit_request(X_val=True, y_val=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("search", search)], transform_input=["X_val"])
        pipeline.fit(*PUBLIC, **VAL)
        spent = search.ledger.spent()
        scaled = {"X_val": scaler.transform(PRIVATE[0]), "y_val": PRIVATE[1]}
        by_hand = search_in(fast_path).fit(scaler.transform(PUBLIC[0]), PUBLIC[1], **scaled)
    assert pipeline["search"].name_ == by_hand.name_  # the public losses are the same
    assert by_hand.ledger.spent() == spent
    assert pipeline.predict(PRIVATE[0]).shape == (60,)


# ---- names and ledgers -----------------------------------------------------------------------------------------------


def doubled(X):
    return 2 * X


def through(function):
    return grid(make_pipeline(FunctionTransformer(function), WEAK), {"logisticregression__C": GRID["C"]})


TREES = {"max_depth": [1, 2, 3], "max_features": [1, 2]}
CHANGES = {  # two searches that differ in one thing: what it is -> (settings, options of fit) of both
    "the space": ({}, {"estimator": grid(space={"C": [0.001, 0.1, 1.0]})}),
    "the estimator": ({}, {"estimator": grid(LogisticRegression(C=1e-3, max_iter=3))}),
    "the code of a step": ({"estimator": through(abs)}, {"estimator": through(doubled)}),
    "the folds": ({}, {"estimator": grid(cv=4)}),
    "the default": ({}, {"default": {"C": 1.0}}),
    "the loss": ({}, {"loss": "brier"}),
    "the seed": (
        {"estimator": RandomizedSearchCV(DecisionTreeClassifier(), TREES, n_iter=3), "loss": "brier"},
        {
            "estimator": RandomizedSearchCV(DecisionTreeClassifier(), TREES, n_iter=3),
            "loss": "brier",
            "random_state": 1,
        },
    ),
    "training rows": ({}, {"train": rows(40, seed=9)}),
    "weights": ({}, {"sample_weight": np.linspace(0.1, 1, 40)}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_another_question_is_another_choice_and_a_name_has_one_meaning(fast_path, change, named):
    def fit(train=PUBLIC, sample_weight=None, **settings):
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        searched = settings.pop("estimator", None)
        search = search_in(fast_path, searched, **{**settings, "mu": 2.0, "name": "mine" if named else None})
        return search.fit(*train, **VAL, **options)

    first, second = CHANGES[change]
    search = fit(**first)
    if named:
        with pytest.raises(BudgetMismatch, match=r"name 'mine' belongs .* another name"):
            fit(**second)
    else:
        assert fit(**second).name_ != search.name_
    spent = search.ledger.spent()
    assert fit(**first).best_params_ == search.best_params_
    assert search.ledger.spent() == spent


EPSILON = dptune.Budget.approximate_dp(4.0, 1e-5)
RANDOM = RandomizedSearchCV(WEAK, SPACE, n_iter=4, cv=3, random_state=0)
SECOND = [  # a second run, and how it differs
    ({"estimator": clone(RANDOM).set_params(random_state=1)}, "in random_state (0, now 1)."),
    ({"estimator": clone(RANDOM).set_params(n_iter=5)}, "in n_iter (4, now 5)."),
    ({"default": {"C": 5.0}}, "in default configuration (C = 0.001, now C = 5)."),
    ({"mu": 0.5}, "belongs to another choice: it differs in mu (None, now 0.5)."),
    ({}, "in public losses (other public rows, folds, seeds or training code)."),
]


@pytest.mark.parametrize(("changed", "differs"), SECOND)
def test_a_second_run_says_what_was_spent_and_what_differs(fast_path, monkeypatch, changed, differs):
    monkeypatch.setattr(OpenDPNoise, "noisy_argmin", lambda self, statistic, scale: 0)  # not the default: all is spent
    ledger = dptune.PrivacyLedger(fast_path / "epsilon.db", EPSILON)
    search = search_in(fast_path, RANDOM, ledger=ledger).fit(*PUBLIC, **VAL)
    assert (ledger.charges()[0].mu, None in search.released_["mu"]) == (None, False)  # it has a limit of its own
    other = PUBLIC if changed else [each[::-1] for each in PUBLIC]  # the same space, ranked by other folds
    with pytest.raises((BudgetExhausted, BudgetMismatch)) as refused:
        search_in(fast_path, RANDOM, ledger=ledger).set_params(**changed).fit(*other, **VAL)
    said = str(refused.value)
    assert (differs in said, "Optuna" in said) == (True, False)
    if isinstance(refused.value, BudgetExhausted):
        assert "Budget left: 0 of epsilon = 4 (delta = 1e-05)." in said
        assert f"Charged before: {search.name_!r} on " in said
    assert said.endswith("Nothing was charged.")


@pytest.mark.parametrize("there", [False, True], ids=["no ledger yet", "a ledger"])
def test_a_plan_stores_and_charges_nothing_and_reads_no_private_row(fast_path, there):
    ledger = ledger_in(fast_path) if there else fast_path / "future.db"
    search = search_in(fast_path, ledger=ledger, budget=None if there else EPSILON)
    assert [search.plan(*PUBLIC, n=n).people for n in (60, 80)] == [60, 80]
    assert "is clipped to (0, 7.5)" in str(clone(search).set_params(clip=(0.0, 7.5)).plan(*PUBLIC, n=60))
    other = clone(search).set_params(default={"C": 1.0}, name="mine").plan(*PUBLIC, n=60)
    assert f"Spends: all of the ledger's {'mu=4' if there else 'epsilon=4 at delta=1e-05'}." in str(other)
    if there:
        assert (ledger.n, ledger.charges(), ledger.facts("plan")) == (None, [], {})
    else:
        assert not ledger.exists()
    search.set_params(name="mine").fit(*PUBLIC, **VAL)  # with another default than planned
    assert f"{search._ledger().runs()[0][1]}; the answer of 'mine'" in str(search.plan(*PUBLIC, n=60))
    with pytest.raises(BudgetMismatch, match="n=60, not 61"):
        search.plan(*PUBLIC, n=61)


def test_other_people_have_another_ledger(fast_path):
    search = search_in(fast_path).fit(*PUBLIC, **VAL)
    with pytest.raises(BudgetMismatch, match="60"):
        search.fit(*PUBLIC, X_val=PRIVATE[0][:50], y_val=PRIVATE[1][:50])


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_grid_search_cannot_multiply_the_budget(fast_path):
    """diffprivlib: GridSearchCV clones the estimator, and 21 fits at epsilon 1 pass a cap of 1.5; 0 are recorded."""
    search = search_in(fast_path, ledger=ledger_in(fast_path, mu=1.5), mu=1.0)
    outer = GridSearchCV(search, {"loss": ["log_loss", "brier"]}, cv=3, refit=False, scoring="accuracy")
    with pytest.warns(FitFailedWarning):
        outer.fit(*rows(100), **VAL)
    ledger = ledger_in(fast_path, mu=1.5)
    scores = [outer.cv_results_[f"split{k}_test_score"] for k in range(3)]
    assert np.isfinite(scores).sum() == len({charge.scope for charge in ledger.charges()}) in (2, 3)  # of six fits
    assert ledger.spent() <= 1.5  # a choice of the default leaves what its estimate had


# ---- what bad input gets ---------------------------------------------------------------------------------------------


class FailsOnAllRows(LogisticRegression):
    """Trains on the rows of two folds, and not on all of them."""

    def fit(self, X, y):
        if self.C == 10.0 and len(X) == 40:
            raise ZeroDivisionError("too many rows")
        return super().fit(X, y)


def test_what_cannot_be_trained_drops_out_publicly(fast_path):
    search = search_in(fast_path, grid(FailsOnAllRows(C=1e-3), refit=False), mu=1.0)
    with pytest.warns(FitFailedWarning, match="ZeroDivisionError: too many rows") as told:
        search.fit(*PUBLIC, **VAL)
    assert [one.filename for one in told] == [__file__]
    assert search.selection_.finalists == 3
    assert search.best_params_ != {"C": 10.0}


@pytest.mark.filterwarnings("always::sklearn.exceptions.FitFailedWarning", "ignore:One or more of the test scores")
def test_what_cannot_be_cross_validated_drops_out_publicly(fast_path):
    half = grid(space={"C": [0.1, 1.0, -1.0]}, refit=False)
    with pytest.warns(FitFailedWarning, match="1 of 4 configurations failed on public rows"):
        search = search_in(fast_path, half, mu=1.0).fit(*PUBLIC, **VAL)
    assert search.best_params_ != {"C": -1.0}
    with pytest.warns(FitFailedWarning, match="compared with nothing. Give default="):
        search = search_in(fast_path, grid(LogisticRegression(C=-1.0)), mu=1.0).fit(*PUBLIC, **VAL)
    assert search.selection_.verdict == "no default"


SEVERAL = {"scoring": ["accuracy", "f1"], "refit": False}
BAD = [
    (LogisticRegression, {}, dptune.InputError, "LogisticRegression is not one"),
    (PrivateSearch(grid(), ledger="x.db", loss="mse"), {}, dptune.InputError, "PrivateSearch is not one"),
    (grid(space={"C": [-1.0, -2.0]}), {}, ValueError, "All the 6 fits failed"),
    (grid(**SEVERAL), {}, dptune.InputError, "several scores and no refit= that names one"),
    (grid(SVC()), {}, dptune.InputError, "log_loss needs predict_proba"),
    (grid(error_score=PRIVATE[0]), {}, dptune.InputError, "the search: error_score"),
    (grid(scoring=lambda m, X, y, rows=PRIVATE[0]: 0.0), {}, dptune.InputError, "the search: scoring"),
    (grid(Never()), {"mu": 5.0}, BudgetExhausted, "mu=5"),
    (grid(), {"default": {"C": -1.0}}, dptune.InputError, "'C' parameter"),
    (grid(), {"default": {"D": 1}}, dptune.InputError, "'D'"),
    (grid(), {"estimate_share": 1}, dptune.InputError, "estimate_share must lie in"),
    (grid(), {"loss": "roc_auc"}, dptune.InputError, "log_loss or brier .*dptune.report"),
]


@pytest.mark.parametrize(("search", "settings", "error", "said"), BAD)
@pytest.mark.filterwarnings("ignore")
def test_bad_input_is_refused_with_the_reason_and_costs_nothing(fast_path, search, settings, error, said):
    with pytest.raises(error, match=said):
        search_in(fast_path, search, **settings).fit(*PUBLIC, **VAL)
    assert ledger_in(fast_path).charges() == []


def test_the_page_counts_the_lines_of_its_diffs_and_their_code_compiles():
    page = (Path(__file__).parents[2] / "docs" / "sklearn.md").read_text()
    told = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    differences = [block.split("```")[0].splitlines() for block in page.split("```diff\n")[1:]]
    counted = [(sum(line[0] == "-" for line in one), sum(line[0] == "+" for line in one)) for one in differences]
    assert [(int(out), int(put)) for out, put in told] == counted != []
    for one in differences:
        compile("\n".join(line[1:] for line in one if line[0] != "-"), "sklearn.md", "exec")
