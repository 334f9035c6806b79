"""Rows, folds, options of ``fit`` and models in the forms that users give have scikit-learn's own answer.

Each row of the table is a search by ``PrivateSearch`` or a choice by ``choose`` at mu = 1e4. Its improvement and the
accuracy of its report are compared with what scikit-learn's predictions say of the private rows: 50 sigma or more.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
import optuna
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from xgboost import XGBClassifier

import dptune
import dptune_optuna
from dptune.losses.models import BoosterModel
from dptune_sklearn import PrivateSearch
from sklearn_tools import ledger_in

_rng = np.random.default_rng(5)
TABLE = _rng.normal(size=(220, 3)).round(1) * (_rng.random((220, 3)) > 0.3)
ANSWERS = (TABLE[:, 0] + 0.5 * _rng.normal(size=220) > 0).astype(int)
X, Y, X_STOP, Y_STOP, X_VAL, Y_VAL = (
    each[part].copy() for part in (slice(0, 60), slice(60, 100), slice(100, 220)) for each in (TABLE, ANSWERS)
)
C = {"C": [1.0, 1e-3]}
RATE = {"learning_rate": [0.3, 0.01]}
SPARSE = {name: getattr(sp, f"{name}_matrix") for name in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")}
SPARSE["coo_array"] = sp.coo_array
STOP = {"eval_set": [(X_STOP, Y_STOP)]}
LIGHT = lightgbm.LGBMClassifier(learning_rate=0.01, n_estimators=5, verbose=-1, n_jobs=1)
WEAK = LogisticRegression(C=1e-3)


class NoColumns(LogisticRegression):
    """Stands in for CatBoost: a deep copy of a fitted model says that it was fitted on 0 columns."""

    def __deepcopy__(self, memo: object) -> Any:
        copied = clone(self).fit(X, Y)
        copied.n_features_in_ = 0
        return copied


def cat_boost() -> tuple[Any, dict[str, list[float]]]:
    catboost = pytest.importorskip("catboost")
    return catboost.CatBoostClassifier(iterations=5, learning_rate=0.01, silent=True, allow_writing_files=False), RATE


def with_words(category: bool) -> dict[str, Any]:
    """Return rows with a column of words, one of which training lacks."""
    kind = "category" if category else object
    word = [np.where(rows[:, 0] > 0.2, "up", np.where(rows[:, 0] < -0.2, "down", "level")) for rows in (X, X_VAL)]
    word[1][:30] = "new"
    rows, private = (pd.DataFrame({"word": pd.Series(each, dtype=kind)}) for each in word)
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["word"]))
    space = {f"logisticregression__{name}": values for name, values in C.items()}
    return {"model": (make_pipeline(encoder, WEAK), space), "rows": rows, "private": private}


def flat(X: Any) -> Any:
    return X.reshape(len(X), -1)


def images() -> dict[str, Any]:
    """Return rows of shape (3, 1)."""
    space = {f"logisticregression__{name}": values for name, values in C.items()}
    model = make_pipeline(FunctionTransformer(flat), WEAK)
    return {"model": (model, space), "rows": X.reshape(-1, 3, 1), "private": X_VAL.reshape(-1, 3, 1)}


TABLE_OF_SEARCHES: dict[str, dict[str, Any]] = {
    "matrix": {"private": X_VAL.view(np.matrix)},  # which scikit-learn refuses
    **{name: {"form": form} for name, form in SPARSE.items()},
    "images": images(),
    "splitter": {"cv": KFold(3)},
    "folds": {"cv": list(KFold(3).split(X))},
    "generator": {"cv": lambda: KFold(3).split(X)},
    "words": with_words(category=False),
    "categories": with_words(category=True),
    "weights": {"fit": {"sample_weight": list(np.arange(1.0, 61.0))}},
    "lightgbm": {"model": (LIGHT, RATE), "fit": STOP},
    "apart": {"model": (LIGHT, RATE), "fit": {"eval_X": (X_STOP,), "eval_y": (Y_STOP,)}},
    "xgboost": {
        "model": (XGBClassifier(learning_rate=0.01, n_estimators=5, n_jobs=1, early_stopping_rounds=2), RATE),
        "fit": {**STOP, "verbose": False},
    },
    "no columns": {"model": (NoColumns(C=1e-3), C)},
    "catboost": {"model": cat_boost},
}


def agrees(gain: Any, default: Any, model: Any, private: Any) -> None:
    """Compare an improvement with scikit-learn's: the mean difference of log losses, cut like the estimate's."""
    p, q = (each.predict_proba(private)[np.arange(len(Y_VAL)), Y_VAL] for each in (default, model))
    cut = np.clip(np.log(q) - np.log(p), -gain.radius, gain.radius)
    assert gain.value == pytest.approx(cut.mean(), abs=1e-3)
    assert gain.sigma < 2e-5


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated", "ignore:Constructing a DIA matrix")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.torch if kind == "catboost" else ()) for kind in TABLE_OF_SEARCHES]
)
def test_a_search_has_scikit_learns_answer(fast_path: Path, kind: str) -> None:
    about = {"model": (WEAK, C), "rows": X, "private": X_VAL, "cv": 3, "fit": {}, **TABLE_OF_SEARCHES[kind]}
    model, space = about["model"]() if callable(about["model"]) else about["model"]
    form, cv, options = about.get("form", lambda rows: rows), about["cv"], about["fit"]
    rows, private = form(about["rows"]), form(about["private"])
    search = GridSearchCV(model, space, cv=cv() if kind == "generator" else cv)
    mine = PrivateSearch(search, ledger=ledger_in(fast_path, mu=1e4), loss="log_loss", clip=(0, 3), report_share=0.3)
    mine.fit(rows, Y, X_val=private, y_val=Y_VAL, **options)
    default, chosen = clone(model).fit(rows, Y, **options), mine.best_estimator_
    plain = np.asarray(private) if isinstance(private, np.matrix) else private
    assert mine.selection_.improvement is not None
    charges = mine.ledger.charges(mine.name_)
    for name, wanted in {"mu": "mu", "sigma": "sigma", "what": "statistic"}.items():
        assert mine.released_[name] == [charge.description[wanted] for charge in charges]
    assert mine.released_["value"] == [charge.value for charge in charges]
    agrees(mine.selection_.improvement, default, chosen, plain)
    if not options and kind != "categories":  # a report trains without them
        accuracy = mine.report(rows, Y, X_val=private, y_val=Y_VAL).accuracy_score
        assert accuracy.value == pytest.approx((chosen.predict(plain) == Y_VAL).mean(), abs=1e-3)


def fitted_booster(X: Any, y: Any, rate: float) -> Any:
    options = {"objective": "binary", "learning_rate": rate, "verbose": -1, "num_threads": 1}
    return lightgbm.train(options, lightgbm.Dataset(X, y), 5)


def fitted_module(outputs: int) -> Any:
    torch = pytest.importorskip("torch")

    def fit(X: Any, y: Any, rate: float) -> Any:
        torch.manual_seed(0)
        net = torch.nn.Linear(3, outputs).double()
        steps = torch.optim.SGD(net.parameters(), lr=rate)
        given, target = torch.as_tensor(X), torch.as_tensor(y)
        for _ in range(20):
            logits = net(given)
            two = logits if outputs == 2 else torch.cat([torch.zeros_like(logits), logits], dim=1)
            steps.zero_grad()
            torch.nn.functional.cross_entropy(two, target).backward()
            steps.step()
        return net

    return fit


class Probabilities:
    """Logits of a module as probabilities of two labels, computed here."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def predict_proba(self, X: Any) -> np.ndarray:
        logits = self._module(sys.modules["torch"].as_tensor(X)).detach().numpy()
        margin = logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)
        return np.column_stack([1 / (1 + np.exp(margin)), 1 / (1 + np.exp(-margin))])


def study_of(values: list[float]) -> optuna.Study:
    study = optuna.create_study(study_name="s")
    space = {"rate": optuna.distributions.FloatDistribution(0, 1)}
    for place, value in enumerate(values):
        study.add_trial(optuna.trial.create_trial(params={"rate": value}, distributions=space, value=float(place)))
    return study


@pytest.mark.parametrize("held_out", [False, True], ids=["trained", "held out"])
@pytest.mark.parametrize(
    "kind", ["booster", *(pytest.param(outputs, marks=pytest.mark.torch, id=f"module{outputs}") for outputs in (1, 2))]
)
def test_a_native_model_has_the_labels_of_public_rows(fast_path: Path, kind: Any, held_out: bool) -> None:
    """The labels are words where the training codes them itself, and 0, 1 elsewhere."""
    fit = fitted_booster if kind == "booster" else fitted_module(kind)
    plain = BoosterModel if kind == "booster" else Probabilities
    about: dict[str, Any] = {"ledger": ledger_in(fast_path, mu=1e4), "loss": "log_loss", "progress": False}
    words = np.array(["no", "yes"])

    def objective(trial: Any) -> None:
        model = fit(X, Y, trial.suggest_float("rate", 0, 1))
        dptune_optuna.candidate(trial, model, held_out=(X_STOP, words[Y_STOP]))

    def train(trial: Any, X: Any, y: Any) -> Any:
        return fit(X, (y == "yes").astype(int), trial.params["rate"])

    if not held_out:
        about["public"] = (X, words[Y])
    choice = dptune_optuna.choose(
        study_of([0.3, 0.01]),
        objective if held_out else train,
        data=(X_VAL, words[Y_VAL]),
        default={"rate": 0.01},
        **about,
    )
    default, chosen = (plain(fit(X, Y, rate)) for rate in (0.01, choice.params["rate"]))
    if kind == "booster":
        default, chosen = (SimpleNamespace(predict_proba=lambda X, m=m: two(m.predict(X))) for m in (default, chosen))
    assert choice.model.classes_.tolist() == ["no", "yes"]
    agrees(choice.selection.improvement, default, chosen, X_VAL)


def two(p: np.ndarray) -> np.ndarray:
    return np.column_stack([1 - p, p])


def test_a_training_without_a_seed_is_refused_before_the_charge(fast_path: Path) -> None:
    ledger = ledger_in(fast_path)

    def chosen(seed: int | None, **options: Any) -> Any:
        def train(trial: Any, X: Any, y: Any) -> Any:
            depth = round(10 * trial.params["rate"])
            return ExtraTreesClassifier(3, max_depth=depth, random_state=seed).fit(X, y)

        about: dict[str, Any] = {"data": (X_VAL, Y_VAL), "public": (X, Y), "loss": "brier", "progress": False}
        return dptune_optuna.choose(study_of([0.3, 0.5]), train, ledger=ledger, **about, **options)

    for options in ({}, {"dry_run": True}, {"default": {"rate": 0.2}}):
        # the chance that two trainings of 15 random trees give 60 rows the same losses is below 1e-9
        with pytest.raises(dptune.InputError, match=r"has no seed.*random_state=.*Nothing was charged\.$"):
            chosen(None, **options)
    assert ledger.spent() == 0
    first = chosen(0, mu=0.5)
    assert chosen(0, mu=0.5).params == first.params
    losses = np.random.default_rng(0).random((2, 60))
    assert chosen(None, mu=0.5, name="given", public_losses=losses).params in ({"rate": 0.3}, {"rate": 0.5})


TAILED = np.exp(4 * X[:, 0] + 2 * X[:, 1])
ON_LOGARITHMS = TransformedTargetRegressor(Ridge(alpha=1e-3), func=np.log, inverse_func=np.exp)


@pytest.mark.parametrize(
    ("model", "loss", "answers", "says"),
    [
        (Ridge(), "squared_error", TAILED, True),
        (Ridge(), "absolute_error", np.log(TAILED), False),
        (Ridge(), "squared_error", np.log(TAILED), False),
        (ON_LOGARITHMS, "squared_error", TAILED, True),
        (LogisticRegression(), "log_loss", Y, False),
    ],
    ids=["squares", "absolute", "logarithms", "predicted logarithms", "labels"],
)
def test_a_plan_says_what_helps_against_heavy_tails(
    fast_path: Path, model: Any, loss: str, answers: Any, says: bool
) -> None:
    """The shares in the line are those of scikit-learn's cross-validated predictions."""
    name = "regressor__alpha" if model is ON_LOGARITHMS else "C" if loss == "log_loss" else "alpha"
    search = GridSearchCV(model, {name: [1e-3, 1e-2]}, cv=KFold(5))
    plan = PrivateSearch(search, ledger=ledger_in(fast_path), loss=loss, even_if_hopeless=True).plan(X, answers, n=120)
    assert ("Heavy tails: 1 of 60 public rows have" in str(plan)) == says
    if says:
        tried = [model, *(clone(model).set_params(**{name: alpha}) for alpha in (1e-3, 1e-2))]
        losses = [np.sort((answers - cross_val_predict(each, X, answers, cv=5)) ** 2) for each in tried]
        best = min(losses, key=np.mean)
        assert f"have {best[-1] / best.sum():.0%} of the {loss}" in str(plan)
        assert f"or clip=(0, {best[-2]:.3g})" in str(plan)


def test_a_kept_default_claims_no_preference(fast_path: Path) -> None:
    """No private label is known to the models, so no answer of a person says anything about them."""
    search = PrivateSearch(GridSearchCV(WEAK, C, cv=3), ledger=ledger_in(fast_path), loss="zero_one")
    search.fit(X, Y, X_val=X_VAL, y_val=np.where(Y_VAL == 1, "ill", "well"))
    words = search.summary()
    assert "prefer" not in words.replace("show no preference", "")
    assert "Keep the default" not in words or "compare their spelling" in words


def test_a_generator_of_folds_is_read_once(fast_path: Path) -> None:
    search = GridSearchCV(LogisticRegression(), C, cv=KFold(3).split(X))
    mine = PrivateSearch(search, ledger=ledger_in(fast_path), loss="zero_one")
    assert "Plan: 120 private people" in str(mine.plan(X, Y, n=120))
    mine.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    search.cv = iter(())
    with pytest.raises(dptune.InputError, match="has yielded its folds already"):
        mine.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    study = study_of([0.1, 0.5, 0.9])

    def objective(trial: Any) -> None:
        dptune_optuna.candidate(trial, LogisticRegression(C=trial.params["rate"]), rows=(X, Y))

    about: dict[str, Any] = {"loss": "zero_one", "data": (X_VAL, Y_VAL), "progress": False, "mu": 0.1}
    choice = dptune_optuna.choose(study, objective, ledger=mine.ledger, cv=KFold(3).split(X), **about, dry_run=True)
    assert "3 finalists" in str(choice)
