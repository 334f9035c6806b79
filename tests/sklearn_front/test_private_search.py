"""The contract of a search over its methods: it finds, pays once, and is the same after clone, pickle and a kill."""

import pickle
import warnings
from pathlib import Path

import joblib
import numpy as np
import optuna
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
from dptune_sklearn.spaces import candidates
from sklearn_tools import (
    METHODS,
    PRIVATE,
    PUBLIC,
    SPACE,
    VAL,
    Counted,
    Never,
    Stopped,
    forget_trained,
    ledger_in,
    rows,
    search_in,
    trained,
)

# ---- what holds for every method ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_search_ends_with_an_answer_which_it_announces_pays_once_and_returns_again(fast_path, capsys, caplog, method):
    caplog.set_level("INFO", logger="dptune_sklearn")
    search = search_in(fast_path, method).fit(*PUBLIC, **VAL)
    ledger, released, best = search.ledger, search.released_, search.best_params_
    assert 1e-3 <= best["C"] <= 1e3
    assert best["C"] == search.best_estimator_.C
    assert search.best_loss_.private
    assert (search.predict(PRIVATE[0]) == PRIVATE[1]).mean() > 0.6
    assert search.predict_proba(PRIVATE[0]).shape == (60, 2)
    assert list(search.classes_) == [0, 1]
    assert search.n_features_in_ == 3
    assert 3.9 < ledger.spent() <= 4.0
    assert sum(mu**2 for mu in released["mu"]) == pytest.approx(ledger.spent() ** 2)
    assert released["release"] == [charge.key for charge in ledger.charges()]
    assert "mu = 4" in str(search.statement(delta=1e-3))
    if method != "selection":
        assert best.defaults == {"C": 1.0}
        assert best.improvement == search.best_loss_.improvement
        assert (best.improvement is not None) == (best != best.defaults)  # the noise decides
        assert "is not made yet" not in search.summary()

    (said,) = [record.getMessage() for record in caplog.records if record.name == "dptune_sklearn"]
    assert capsys.readouterr().out == ""
    assert f"{search.name_!r} makes " in said
    assert "Spends: all of the ledger's mu=4. " in said
    assert "picks the right one of two records at most 98 times in 100" in said
    assert ("Shows: an improvement over the default of" in said) == (method != "selection")

    spent = ledger.spent()
    for again in (search, pickle.loads(pickle.dumps(search)), clone(search).set_params(n_jobs=2, verbose=1)):
        with joblib.parallel_config(backend="threading"):  # processes take seconds to start
            assert again.fit(*PUBLIC, **VAL).best_params_ == best
        assert (again.name_, again.best_loss_, again.ledger.spent()) == (search.name_, search.best_loss_, spent)
    assert capsys.readouterr().out == f"{said}\n"  # of the verbose one


@pytest.mark.filterwarnings("ignore:.*will learn little")
@pytest.mark.parametrize("method", ["selection", "sampler"])
def test_a_candidate_that_cannot_be_trained_ends_no_search_and_is_not_chosen(fast_path, method):
    search = search_in(fast_path, method, param_distributions={"C": [1.0, 0.1, -1.0]}, n_trials=20)
    with pytest.warns(FitFailedWarning):
        search.fit(*PUBLIC, **VAL)
    assert search.best_params_["C"] in (1.0, 0.1)
    assert 3.9 < search.ledger.spent() <= 4.0


class Fails(LogisticRegression):
    def fit(self, X, y):
        raise ZeroDivisionError("C is too large")


@pytest.mark.parametrize("method", ["centred", "selection", "sampler"])
def test_budget_is_refused_before_a_training_and_what_raises_is_shown_and_costs_nothing_if_all_fail(fast_path, method):
    with pytest.raises(dptune.BudgetExhausted):
        search_in(fast_path, method, Never(), mu=5.0).fit(*PUBLIC, **VAL)
    search = search_in(fast_path, method, Fails())
    with pytest.warns(FitFailedWarning), pytest.raises(dptune.InputError, match="ZeroDivisionError: C is too large"):
        search.fit(*PUBLIC, **VAL)
    assert search.ledger.spent() == 0


@pytest.mark.parametrize("method", ["centred", "selection"])
def test_noise_that_leaves_little_to_learn_is_announced_where_fit_was_called(fast_path, method):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search_in(fast_path, method, mu=0.01).fit(*PUBLIC, **VAL)
    assert [one.filename for one in told if "will learn little" in str(one.message)] == [__file__]


@pytest.mark.filterwarnings("ignore:The search")
def test_a_warm_start_with_more_trials_goes_on_with_the_search_and_pays_the_rest(fast_path):
    search = search_in(fast_path, "sampler", mu=2.0, warm_start=True).fit(*PUBLIC, **VAL)
    spent, first = search.ledger.spent(), list(search.released_["release"])
    wider = clone(search).set_params(n_trials=16, mu=4.0).fit(*PUBLIC, **VAL)
    assert wider.name_ == search.name_
    assert 1.9 < spent <= 2.0 < 3.9 < search.ledger.spent() <= 4.0
    assert wider.released_["release"][: len(first)] == first
    assert sum(mu**2 for mu in wider.released_["mu"]) == pytest.approx(search.ledger.spent() ** 2)
    paid = search.ledger.spent()
    for again in (wider, search, clone(wider).set_params(n_trials=12)):
        assert again.fit(*PUBLIC, **VAL).best_params_ == wider.best_params_  # also of the script that asked for less
    assert search.ledger.spent() == paid
    with pytest.raises(dptune.BudgetError):
        wider.set_params(n_trials=24, mu=4.5).fit(*PUBLIC, **VAL)


# ---- names and ledgers ----------------------------------------------------------------------------------


def test_another_question_is_another_run_with_a_budget_of_its_own_and_other_people_have_another_ledger(fast_path):
    search = search_in(fast_path, "selection").fit(*PUBLIC, **VAL)
    other = clone(search).set_params(n_trials=12)
    with pytest.raises(dptune.BudgetError):
        other.fit(*PUBLIC, **VAL)
    assert other.name_ != search.name_
    with pytest.raises(dptune.errors.BudgetMismatch, match="60"):
        search.fit(*PUBLIC, X_val=PRIVATE[0][:50], y_val=PRIVATE[1][:50])


@pytest.mark.parametrize("wider", [False, True], ids=["same", "warm start"])
def test_a_search_that_was_stopped_goes_on(fast_path, wider):
    forget_trained()
    search = search_in(fast_path, "centred", Stopped(), **({"mu": 2.0, "warm_start": True} if wider else {}))
    with pytest.raises(KeyboardInterrupt):
        search.fit(*PUBLIC, **VAL)
    assert 0 < search.ledger.spent() < 3.9
    search.set_params(**({"n_trials": 16, "mu": 4.0} if wider else {})).fit(*PUBLIC, **VAL)
    assert 3.9 < search.ledger.spent() <= 4.0
    if wider:  # it first completes what was stopped
        assert search.released_["release"].count("generation/4") == 1
    else:
        answer = 0 if search.best_params_ == search.best_params_.defaults else 1  # the default is trained once in all
        assert len(trained()) == 5 + 1 + 4 + answer  # the first round, the interrupt and one lost, the second round


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_grid_search_cannot_multiply_the_budget(fast_path):
    """diffprivlib: GridSearchCV clones the estimator, and 21 fits at epsilon 1 pass a cap of 1.5; 0 are recorded."""
    settings = {"mu": 1.0, "param_distributions": {"C": [0.01, 1.0, 100.0]}}
    search = search_in(fast_path, "selection", ledger=ledger_in(fast_path, mu=1.5), **settings)
    outer = GridSearchCV(search, {"loss": ["log_loss", "brier"]}, cv=3, refit=False, scoring="accuracy")
    with pytest.warns(FitFailedWarning):
        outer.fit(*rows(100), **VAL)
    ledger = ledger_in(fast_path, mu=1.5)
    scores = [outer.cv_results_[f"split{k}_test_score"] for k in range(3)]
    assert np.isfinite(scores).sum() == 2  # of six fits: three would cost 1.73
    assert len({charge.scope for charge in ledger.charges()}) == 2
    assert ledger.spent() == pytest.approx(2**0.5)


# ---- what is trained ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_jobs", "clip"), [(1, "auto"), (2, (0.0, 2.0))])
def test_the_default_is_trained_once(fast_path, n_jobs, clip):
    forget_trained()
    with joblib.parallel_config(backend="threading"):
        search_in(fast_path, "centred", Counted(), n_jobs=n_jobs, clip=clip).fit(*PUBLIC, **VAL)
    assert trained().count("1.0 None") == 1


def test_a_grid_trains_each_model_once(fast_path):
    forget_trained()
    grid = {"C": [0.01, 0.1, 1.0], "class_weight": [None, "balanced"]}
    search = search_in(fast_path, "centred", Counted(), param_distributions=grid, n_trials=16).fit(*PUBLIC, **VAL)
    assert len(set(trained())) == len(trained())
    assert 3 <= len(trained()) <= 6
    assert search.best_params_["C"] == search.best_estimator_.C


def test_joblib_s_multiprocessing_backend_works(fast_path):
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        search = search_in(fast_path, None, n_trials=2, cv=2, n_jobs=2)
        assert search.fit(*PUBLIC, **VAL).best_params_["C"] > 0


@pytest.mark.parametrize(("method", "instead"), [("centred", "the middle of the space"), ("sampler", "nothing")])
def test_pipelines_are_searched_by_their_steps_names_and_an_estimator_outside_is_warned_of(fast_path, method, instead):
    space = {"svc__C": loguniform(0.1, 10), "svc__gamma": loguniform(0.01, 1)}
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = search_in(fast_path, method, pipeline, param_distributions=space, loss="hinge")
    with pytest.warns(UserWarning, match=rf"\(svc__gamma='scale'\): .* with {instead},.* parameters within") as told:
        search.fit(*PUBLIC, **VAL)
    assert [one.filename for one in told] == [__file__]
    assert search.best_params_["svc__C"] == search.best_estimator_["svc"].C
    centre = {"svc__C": 1.0, "svc__gamma": 0.1}
    assert search.best_params_.defaults == ({} if method == "sampler" else pytest.approx(centre))
    assert method == "centred" or search.best_params_.improvement is None


def test_kinds_of_models_are_searched_with_their_own_parameters(fast_path):
    """A step of a pipeline, with conditions: scikit-learn's list of spaces."""
    spaces = [
        {"model": [LogisticRegression()], "model__C": loguniform(1e-3, 1e3)},
        {"model": [SVC()], "model__C": loguniform(0.1, 10), "model__kernel": ["rbf", "linear"]},
    ]
    pipeline = Pipeline([("scaler", StandardScaler()), ("model", LogisticRegression())])
    settings = {"param_distributions": spaces, "loss": "zero_one", "clip": "auto"}
    search = search_in(fast_path, "centred", pipeline, **settings).fit(*PUBLIC, **VAL)
    assert set(search.best_params_) in ({"model", "model__C"}, {"model", "model__C", "model__kernel"})
    assert "clip" not in search.released_["release"]  # the range of this loss is known
    assert (search.predict(PRIVATE[0]) == PRIVATE[1]).mean() > 0.6


# ---- what is said ---------------------------------------------------------------------------------------


# ---- other searchers ------------------------------------------------------------------------------------


class Watching(optuna.samplers.RandomSampler):
    """Writes down what it can see of the trials before; a search uses a copy of it."""

    def __init__(self, file):
        super().__init__(seed=0)
        self.file = str(file)

    def sample_relative(self, study, trial, search_space):
        before = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
        Path(self.file).write_text(repr([(each.value, each.user_attrs) for each in before]))
        return super().sample_relative(study, trial, search_space)


def test_an_optuna_sampler_sees_noisy_values_and_their_noise_and_nothing_else_after_a_kill_too(fast_path):
    forget_trained()
    seen = fast_path / "seen"
    sampler = Watching(seen)
    before = pickle.dumps(sampler)
    with pytest.raises(KeyboardInterrupt):
        search_in(fast_path, sampler, Stopped()).fit(*PUBLIC, **VAL)
    killed = seen.read_text()
    search = search_in(fast_path, sampler, Stopped()).fit(*PUBLIC, **VAL)
    assert pickle.dumps(sampler) == before, "the user's stays as it was given"
    released = search.released_
    assert [key.split("/")[0] for key in released["release"]] == ["value"] * 8 + ["final"]
    assert released["params"][-1] == search.best_params_
    for charge, sigma, at in zip(search.ledger.charges(), released["sigma"], released["params"], strict=True):
        assert at == charge.note["parameters"]
        both = len(charge.value) ** 0.5  # two levels in one release
        assert sigma == charge.description["sigma"]
        assert sigma == pytest.approx(both * search.clip[1] / (len(PRIVATE[1]) * charge.mu), rel=1e-5)
    paid = [(charge.value[0], charge.description["sigma"]) for charge in search.ledger.charges(prefix="value/")]
    told = [(value, {"dptune:sigma": sigma}) for value, sigma in paid]
    assert (killed, seen.read_text()) == (repr(told[:5]), repr(told[:7]))


def test_a_method_of_ones_own_searches_and_without_an_estimate_there_is_no_score(fast_path):
    search = search_in(fast_path, dptune.CENTRED, settings={"final_share": 0.0}).fit(*PUBLIC, **VAL)
    assert 1e-3 <= search.best_params_["C"] <= 1e3
    assert search.best_loss_ is None
    assert not hasattr(search, "best_index_")
    for unknown, said in (("cv_results_", "released_"), ("best_score_", "no score of the chosen parameters")):
        with pytest.raises(AttributeError, match=said):
            getattr(search, unknown)


# ---- what you use today is a candidate -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*will learn little")
def test_a_choice_keeps_the_default_where_nothing_is_known_to_be_better(fast_path):
    settings = {"default": {"C": 1.0}, "mu": 0.01, "n_trials": 4}
    search = search_in(fast_path, "selection", **settings).fit(*PUBLIC, **VAL)
    plan = search.ledger.fact(search.name_, "plan")
    assert (plan["default"], plan["candidates"]) == (0, 4)
    assert clone(search).fit(*PUBLIC, **VAL).best_params_ == search.best_params_
    assert search.ledger.spent() == pytest.approx(0.01)


def test_a_default_of_another_parameter_is_a_candidate(fast_path):
    settings = {"param_distributions": {"n_neighbors": [3, 5, 9]}, "default": {"weights": "distance"}, "n_trials": None}
    search = search_in(fast_path, "selection", KNeighborsClassifier(), **settings).fit(*PUBLIC, **VAL)
    assert search.best_params_.keys() in ({"n_neighbors"}, {"weights"})
    assert search.ledger.fact(search.name_, "plan")["candidates"] == 4


def test_a_zero_beside_a_logarithmic_range_is_compared_at_the_nearest_point(fast_path):
    search = search_in(fast_path, param_distributions={"tol": loguniform(1e-6, 1e-1)}, default={"tol": 0.0})
    with pytest.warns(UserWarning, match=r"nearest point: tol=1e-06 for 0\.0\."):
        search.fit(*PUBLIC, **VAL)
    assert search.best_params_.defaults == pytest.approx({"tol": 1e-6})


@pytest.mark.filterwarnings("ignore:A candidate could not be trained")
@pytest.mark.parametrize(
    ("default", "said"), [(1.0, "must be a dict"), ({"C": -1.0}, "'C' parameter"), ({"D": 1}, "'D'")]
)
def test_a_default_that_cannot_be_trained_is_refused_and_costs_nothing(fast_path, default, said):
    search = search_in(fast_path, "selection", default=default, clip="auto")
    with pytest.raises(dptune.InputError, match=said):
        search.fit(*PUBLIC, **VAL)
    assert search.ledger.spent() == 0


def test_a_default_of_a_grid_is_tried_once_and_one_outside_is_added():
    grid = {"C": np.array([0.01, 1.0, 100.0])}
    assert candidates(grid, None, 0, first={"C": 1.0})[0] == {"C": 1.0}
    assert [len(candidates(grid, None, 0, first={"C": C})) for C in (1.0, 100.0, 5.0)] == [3, 3, 4]
    assert candidates(grid, 2, 0, first={"C": 1.0})[0] == {"C": 1.0}
    assert [len(candidates(SPACE, most, 0, first={"C": 1.0})) for most in (None, 7)] == [100, 7]
