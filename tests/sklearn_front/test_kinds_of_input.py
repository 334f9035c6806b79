"""Rows, folds and options of ``fit`` in the forms that users of scikit-learn give have the answer of plain arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import scipy.sparse as sp
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from xgboost import XGBClassifier

import dptune
import dptune_optuna
from dptune_sklearn import PrivateSearch
from sklearn_tools import ledger_in

_rng = np.random.default_rng(5)
TABLE = _rng.normal(size=(220, 3)).round(1) * (_rng.random((220, 3)) > 0.3)
ANSWERS = (TABLE[:, 0] + 0.5 * _rng.normal(size=220) > 0).astype(int)
X, Y, X_STOP, Y_STOP, X_VAL, Y_VAL = (
    each[part].copy() for part in (slice(0, 60), slice(60, 100), slice(100, 220)) for each in (TABLE, ANSWERS)
)
GRID = {"C": [1e-3, 1.0]}
SPARSE = {name: getattr(sp, f"{name}_matrix") for name in ("csr", "csc", "coo", "lil", "dok", "bsr")}
SPARSE["coo_array"] = sp.coo_array


def improvement(folder: Path, cv: Any = 3, rows: Any = X, private: Any = X_VAL) -> Any:
    """What a search and its report find; the noise is small."""
    search = GridSearchCV(LogisticRegression(C=1e-3), GRID, cv=cv)
    mine = PrivateSearch(search, ledger=ledger_in(folder, mu=1e4), loss="log_loss", clip=(0, 3), report_share=0.3)
    mine.fit(rows, Y, X_val=private, y_val=Y_VAL)
    mine.report(rows, Y, X_val=private, y_val=Y_VAL).plot(folder / "report.png")
    return mine.selection_.improvement


@pytest.mark.parametrize(
    "about",
    [
        {"private": X_VAL.view(np.matrix)},  # which scikit-learn refuses
        *({"rows": form(X), "private": form(X_VAL)} for form in SPARSE.values()),
        {"cv": KFold(3)},
        {"cv": list(KFold(3).split(X))},
        {"cv": "generator"},
    ],
    ids=["matrix", *SPARSE, "splitter", "list", "generator"],
)
def test_forms_of_rows_and_folds_have_the_answer_of_arrays(fast_path: Path, about: dict[str, Any]) -> None:
    if about.get("cv") == "generator":
        about = {"cv": KFold(3).split(X)}
    folders = fast_path / "plain", fast_path / "given"
    for folder in folders:
        folder.mkdir()
    plain = improvement(folders[0], KFold(3) if "cv" in about else 3)
    assert improvement(folders[1], **about).value == pytest.approx(plain.value, abs=1e-3)  # 70 sigma
    assert plain.sigma < 1e-5


STOP = {"eval_set": [(X_STOP, Y_STOP)]}
BOOSTERS = {
    "lightgbm": (LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1), STOP),
    "apart": (LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1), {"eval_X": (X_STOP,), "eval_y": (Y_STOP,)}),
    "xgboost": (XGBClassifier(n_estimators=5, n_jobs=1, early_stopping_rounds=2), {**STOP, "verbose": False}),
    "weights": (LogisticRegression(), {"sample_weight": list(np.ones(60))}),
}


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
@pytest.mark.parametrize("kind", BOOSTERS)
def test_options_of_fit_go_to_each_fold(fast_path: Path, kind: str) -> None:
    model, options = BOOSTERS[kind]
    space = GRID if kind == "weights" else {"learning_rate": [0.01, 0.3]}
    search = PrivateSearch(GridSearchCV(model, space, cv=2), ledger=ledger_in(fast_path), loss="log_loss", clip=(0, 3))
    assert search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL, **options).predict(X_VAL).shape == (120,)


def test_a_generator_of_folds_is_read_once(fast_path: Path) -> None:
    search = GridSearchCV(LogisticRegression(), GRID, cv=KFold(3).split(X))
    mine = PrivateSearch(search, ledger=ledger_in(fast_path), loss="zero_one")
    assert "Plan: 120 private people" in str(mine.plan(X, Y, n=120))
    mine.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    search.cv = iter(())
    with pytest.raises(dptune.InputError, match="has yielded its folds already"):
        mine.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    study = optuna.create_study(study_name="folds")
    study.optimize(lambda trial: trial.suggest_float("C", 1e-3, 1.0), n_trials=3)

    def objective(trial: Any) -> None:
        dptune_optuna.candidate(trial, LogisticRegression(C=trial.params["C"]), rows=(X, Y))

    about: dict[str, Any] = {"loss": "zero_one", "data": (X_VAL, Y_VAL), "progress": False, "mu": 0.1}
    choice = dptune_optuna.choose(study, objective, ledger=mine.ledger, cv=KFold(3).split(X), **about, dry_run=True)
    assert "3 finalists" in str(choice)
