"""The contract of a search over its methods: it finds, pays once, and is the same after clone, pickle and a kill."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import joblib
import numpy as np
import optuna
import pytest
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dptune
from dptune.search.outlook import risk_in_words
from sklearn_tools import (
    METHODS,
    PRIVATE,
    PUBLIC,
    SPACE,
    VAL,
    Never,
    Stopped,
    fits,
    forget_fits,
    ledger_in,
    rows,
    search_in,
)

ALL = pytest.mark.parametrize("method", METHODS)


# ---- what holds for every method ------------------------------------------------------------------------


@ALL
def test_a_search_ends_with_parameters_a_model_and_a_statement(fast_path, method):
    search = search_in(fast_path, method).fit(*PUBLIC, **VAL)
    assert 1e-3 <= search.best_params_["C"] <= 1e3
    assert search.best_params_["C"] == search.best_estimator_.C
    assert search.best_loss_.private
    assert (search.predict(PRIVATE[0]) == PRIVATE[1]).mean() > 0.6
    assert search.predict_proba(PRIVATE[0]).shape == (60, 2)
    assert list(search.classes_) == [0, 1]
    assert search.n_features_in_ == 3
    ledger = search.ledger
    assert 3.9 < ledger.spent() <= 4.0
    assert sum(mu**2 for mu in search.released_["mu"]) == pytest.approx(ledger.spent() ** 2)
    assert search.released_["release"] == [charge.key for charge in ledger.charges()]
    assert "mu = 4" in str(search.statement(delta=1e-3))


@ALL
def test_clones_pickles_and_refits_share_the_budget_and_the_answer(fast_path, method):
    search = search_in(fast_path, method).fit(*PUBLIC, **VAL)
    spent, best = search.ledger.spent(), search.best_params_
    for again in (search, clone(search), pickle.loads(pickle.dumps(search)), clone(search).set_params(n_jobs=2)):
        with joblib.parallel_config(backend="threading"):  # processes take seconds to start
            assert again.fit(*PUBLIC, **VAL).best_params_ == best
        assert again.best_loss_ == search.best_loss_
        assert again.ledger.spent() == spent


@pytest.mark.filterwarnings("ignore:.*will learn little")
@pytest.mark.parametrize("method", ["centred", "selection", optuna.samplers.TPESampler(seed=0)])
def test_a_candidate_that_cannot_be_trained_ends_no_search_and_is_not_chosen(fast_path, method):
    search = search_in(fast_path, method, param_distributions={"C": [1.0, 0.1, -1.0]}, n_trials=20)
    with pytest.warns(FitFailedWarning, match="could not be trained"):
        search.fit(*PUBLIC, **VAL)
    assert search.best_params_["C"] in (1.0, 0.1)
    assert 3.9 < search.ledger.spent() <= 4.0


class Fails(ClassifierMixin, BaseEstimator):
    def __init__(self, C=1.0, limit=np.inf):
        self.C, self.limit = C, limit

    def fit(self, X, y):
        if self.limit < self.C:
            raise ZeroDivisionError("C is too large")
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@ALL
def test_what_training_raises_is_shown_and_costs_nothing_if_all_fail(fast_path, method):
    search = search_in(fast_path, method, Fails(limit=0))
    with pytest.warns(FitFailedWarning), pytest.raises(dptune.InputError, match="ZeroDivisionError: C is too large"):
        search.fit(*PUBLIC, **VAL)
    assert search.ledger.spent() == 0


@ALL
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": []}, "param_distributions"),
        ({}, "param_distributions"),
        ([SPACE, {"CC": SPACE["C"]}], r"has 'CC', which .* Did you mean 'C'\?"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_trained_or_paid(fast_path, method, given, message):
    search = search_in(fast_path, method, Never(), param_distributions=given)
    with pytest.raises(dptune.InputError, match=message):
        search.fit(*PUBLIC, **VAL)
    assert ledger_in(fast_path).spent() == 0


@ALL
def test_budget_is_refused_before_anything_is_trained(fast_path, method):
    with pytest.raises(dptune.BudgetExhausted):
        search_in(fast_path, method, Never(), mu=5.0).fit(*PUBLIC, **VAL)


@ALL
def test_noise_that_leaves_little_to_learn_is_announced_where_fit_was_called(fast_path, method):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search_in(fast_path, method, mu=0.01).fit(*PUBLIC, **VAL)
    assert [one.filename for one in told if "will learn little" in str(one.message)] == [__file__]


@pytest.mark.filterwarnings("ignore:The search")
@pytest.mark.parametrize("method", [name for name in METHODS if name != "selection"])
def test_a_warm_start_with_more_trials_goes_on_with_the_search_and_pays_the_rest(fast_path, method):
    search = search_in(fast_path, method, mu=2.0, warm_start=True).fit(*PUBLIC, **VAL)
    spent, first = search.ledger.spent(), list(search.released_["release"])
    wider = clone(search).set_params(n_trials=16, mu=4.0).fit(*PUBLIC, **VAL)
    assert wider.name_ == search.name_
    assert 1.9 < spent <= 2.0 < 3.9 < search.ledger.spent() <= 4.0
    assert wider.released_["release"][: len(first)] == first
    assert sum(mu**2 for mu in wider.released_["mu"]) == pytest.approx(search.ledger.spent() ** 2)
    paid = search.ledger.spent()
    for again in (wider, search.set_params(n_jobs=None), clone(wider).set_params(n_trials=12)):
        assert again.fit(*PUBLIC, **VAL).best_params_ == wider.best_params_  # also of the script that asked for less
    assert search.ledger.spent() == paid
    with pytest.raises(dptune.BudgetError):
        wider.set_params(n_trials=24, mu=4.5).fit(*PUBLIC, **VAL)


def test_a_choice_that_is_made_once_has_no_warm_start(fast_path):
    with pytest.raises(dptune.InputError, match="made once"):
        search_in(fast_path, "selection", warm_start=True).fit(*PUBLIC, **VAL)


# ---- names and ledgers ----------------------------------------------------------------------------------


def test_another_question_is_another_run_and_needs_a_budget_of_its_own(fast_path):
    search = search_in(fast_path).fit(*PUBLIC, **VAL)
    others = [
        clone(search).set_params(n_trials=12),
        clone(search).set_params(estimator__class_weight="balanced"),
        clone(search).set_params(param_distributions={"C": loguniform(1e-2, 1e3)}),
    ]
    for other in others:
        with pytest.raises(dptune.BudgetError):
            other.fit(*PUBLIC, **VAL)
    with pytest.raises(dptune.BudgetError):
        search.fit(*rows(40, seed=9), **VAL)
    assert len({search.name_, *(other.name_ for other in others)}) == 4


def test_a_ledger_may_be_named_by_its_path(fast_path):
    where, budget = str(fast_path / "own.db"), dptune.Budget.gdp(mu=4.0)
    search = search_in(fast_path, ledger=where, budget=budget).fit(*PUBLIC, **VAL)
    assert search.best_loss_ == clone(search).set_params(budget=None).fit(*PUBLIC, **VAL).best_loss_


@pytest.mark.parametrize("wider", [False, True], ids=["same", "warm start"])
def test_a_search_that_was_stopped_goes_on(fast_path, wider):
    forget_fits()
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
        assert fits() == 5 + 1 + 4 + answer  # the first round, the interrupt and one lost, the second round


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_grid_search_cannot_multiply_the_budget(fast_path):
    """diffprivlib: GridSearchCV clones the estimator, and 21 fits at epsilon 1 pass a cap of 1.5; 0 are recorded."""
    settings = {"mu": 1.0, "param_distributions": {"C": [0.01, 1.0, 100.0]}}
    search = search_in(fast_path, "selection", ledger=ledger_in(fast_path, mu=1.5), **settings)
    others = {"estimator__class_weight": [None, "balanced"], "loss": ["log_loss", "brier"]}
    outer = GridSearchCV(search, others, cv=5, refit=False, scoring="accuracy")
    with pytest.warns(FitFailedWarning, match="BudgetExhausted"):
        outer.fit(*rows(100), **VAL)
    ledger = ledger_in(fast_path, mu=1.5)
    scores = [outer.cv_results_[f"split{k}_test_score"] for k in range(5)]
    assert np.isfinite(scores).sum() == 2  # of twenty fits: three would cost 1.73
    assert len({charge.scope for charge in ledger.charges()}) == 2
    assert ledger.spent() == pytest.approx(2**0.5)


# ---- what is searched -----------------------------------------------------------------------------------


def test_pipelines_are_searched_by_the_names_of_their_steps(fast_path):
    pipeline = make_pipeline(StandardScaler(), SVC())
    space = {"svc__C": loguniform(0.1, 10), "svc__gamma": loguniform(0.01, 1)}
    search = search_in(fast_path, "centred", pipeline, param_distributions=space, loss="hinge")
    with pytest.warns(
        UserWarning, match=r"\(svc__gamma='scale'\): .*the middle of the space.* parameters within"
    ) as told:
        search.fit(*PUBLIC, **VAL)
    assert [Path(one.filename).name for one in told] == [Path(__file__).name]
    assert search.best_params_["svc__C"] == search.best_estimator_["svc"].C
    assert search.best_params_.defaults == pytest.approx({"svc__C": 1.0, "svc__gamma": 0.1})  # the centre


def test_with_another_searcher_too_it_is_warned_that_nothing_is_compared_with(fast_path):
    space = {"gamma": loguniform(0.01, 1)}
    search = search_in(fast_path, optuna.samplers.RandomSampler(seed=0), SVC(), param_distributions=space, loss="hinge")
    with pytest.warns(UserWarning, match=r"\(gamma='scale'\): the answer is compared with nothing"):
        search.fit(*PUBLIC, **VAL)
    assert search.best_params_.improvement is None


@ALL
def test_a_search_says_once_what_it_spends_and_what_a_person_risks(fast_path, capsys, caplog, method):
    caplog.set_level("INFO", logger="dptune_sklearn")
    search = search_in(fast_path, method).fit(*PUBLIC, **VAL)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "dptune_sklearn"]
    assert capsys.readouterr().out == ""
    assert f"{search.name_!r} makes " in said
    assert "Spends: all of the ledger's mu=4. " in said
    assert "picks the right one of two records at most 98 times in 100" in said
    assert ("Shows: an improvement over the default of" in said) == (method != "selection")
    again = clone(search).set_params(verbose=1).fit(*PUBLIC, **VAL)  # of the same name
    assert (again.name_, again.ledger.spent()) == (search.name_, search.ledger.spent())
    assert capsys.readouterr().out == f"{said}\n"
    assert len([record for record in caplog.records if record.name == "dptune_sklearn"]) == 1


@pytest.mark.filterwarnings("ignore:.*will learn little")
def test_the_risk_that_is_said_before_the_first_charge_covers_every_division(fast_path, caplog):
    """This choice takes little of the budget. Another run may charge first, and take all of it for a choice."""
    caplog.set_level("INFO", logger="dptune_sklearn")
    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", dptune.Budget.approximate_dp(1.0, 1e-5))
    before = risk_in_words(dptune.LossPrivatizer(ledger, n=60, clip=(0.0, 2.0)))
    assert "at most 74 times" in before
    settings = {"mu": 0.05, "default": {"C": 1.0}}
    search = search_in(fast_path, "selection", ledger=ledger, **settings).fit(*PUBLIC, **VAL)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "dptune_sklearn"]
    assert before in said
    assert "at most 56 times" in risk_in_words(dptune.LossPrivatizer(search.ledger, n=60, clip=(0.0, 2.0)))
    assert "of the ledger's epsilon=1 at delta=1e-05" in said


def test_the_clip_that_was_chosen_is_said_too(fast_path, capsys):
    search_in(fast_path, "centred", clip="auto", verbose=1).fit(*PUBLIC, **VAL)
    assert capsys.readouterr().out.startswith("The clip is (0, ")


def test_kinds_of_models_are_searched_with_their_own_parameters(fast_path):
    """A step of a pipeline, with conditions: scikit-learn's list of spaces."""
    spaces = [
        {"model": [LogisticRegression()], "model__C": loguniform(1e-3, 1e3)},
        {"model": [SVC()], "model__C": loguniform(0.1, 10), "model__kernel": ["rbf", "linear"]},
    ]
    pipeline = Pipeline([("scaler", StandardScaler()), ("model", LogisticRegression())])
    settings = {"param_distributions": spaces, "loss": "zero_one", "clip": (0, 1), "n_trials": 16}
    search = search_in(fast_path, "centred", pipeline, **settings).fit(*PUBLIC, **VAL)
    assert set(search.best_params_) in ({"model", "model__C"}, {"model", "model__C", "model__kernel"})
    assert (search.predict(PRIVATE[0]) == PRIVATE[1]).mean() > 0.6


def test_the_estimators_own_parameters_are_tried_and_compared_with(fast_path):
    search = search_in(fast_path, "centred", LogisticRegression(C=7.0)).fit(*PUBLIC, **VAL)
    assert search.best_params_.defaults == {"C": 7.0}
    found_another = search.best_params_ != search.best_params_.defaults  # the noise decides, in this unseeded run
    assert (search.best_loss_.improvement is not None) == found_another


@pytest.mark.parametrize("method", ["dp-gibo", optuna.samplers.RandomSampler(seed=0)])
def test_a_summary_has_the_improvement_that_the_final_estimate_released(fast_path, method):
    search = search_in(fast_path, method, default={"C": 1.0}).fit(*PUBLIC, **VAL)
    assert search.best_params_.improvement == search.best_loss_.improvement
    assert "is not made yet" not in search.summary()


def test_an_optuna_sampler_is_told_noisy_values(fast_path):
    search = search_in(fast_path, optuna.samplers.TPESampler(seed=0)).fit(*PUBLIC, **VAL)
    released = search.released_
    assert [key.split("/")[0] for key in released["release"]] == ["value"] * 8 + ["final"]
    assert released["params"][-1] == search.best_params_
    for charge, sigma, at in zip(search.ledger.charges(), released["sigma"], released["params"], strict=True):
        assert at == charge.note["parameters"]
        assert sigma == charge.description["sigma"]
        both = len(charge.value) ** 0.5  # two levels in one release
        assert sigma == pytest.approx(both * search.clip[1] / (len(PRIVATE[1]) * charge.mu), rel=1e-5)


class Watching(optuna.samplers.RandomSampler):
    """Writes down what it can see of the trials before; a search uses a copy of it."""

    def __init__(self, file):
        super().__init__(seed=0)
        self.file = str(file)

    def sample_relative(self, study, trial, search_space):
        before = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
        Path(self.file).write_text(repr([(each.value, each.user_attrs) for each in before]))
        return super().sample_relative(study, trial, search_space)


def test_an_optuna_sampler_sees_the_noise_of_each_value_and_nothing_else_after_a_kill_too(fast_path):
    forget_fits()
    seen = fast_path / "seen"
    with pytest.raises(KeyboardInterrupt):
        search_in(fast_path, Watching(seen), Stopped()).fit(*PUBLIC, **VAL)
    killed = seen.read_text()
    search = search_in(fast_path, Watching(seen), Stopped()).fit(*PUBLIC, **VAL)
    paid = [(charge.value[0], charge.description["sigma"]) for charge in search.ledger.charges(prefix="value/")]
    told = [(value, {"dptune:sigma": sigma}) for value, sigma in paid]
    assert (killed, seen.read_text()) == (repr(told[:5]), repr(told[:7]))


def test_a_method_of_ones_own_searches(fast_path):
    search = search_in(fast_path, dptune.CENTRED, settings={"final_share": 0.0}).fit(*PUBLIC, **VAL)
    assert search.best_loss_ is None
    assert 1e-3 <= search.best_params_["C"] <= 1e3
