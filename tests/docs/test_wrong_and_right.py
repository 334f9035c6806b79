"""The wrong and the right blocks of docs/what-breaks-the-promise.md run unchanged, and pages split rows correctly."""

import contextlib
import copy
import io
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GroupShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_score,
    train_test_split,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from xgboost import XGBClassifier

import dptune
from dptune.losses.estimator import estimator_losses
from dptune.losses.functions import zero_one_loss
from dptune.losses.models import TorchModel
from dptune.losses.rows import Rows
from dptune_optuna import CentredSampler
from dptune_sklearn import StopsEarly
from page_tools import ROWS, X, Y, blocks, page, run

PAGE = "docs/what-breaks-the-promise.md"
(EARLY, KERAS, SCALERS, THRESHOLDS, FOLDS, PEOPLE, PRUNING, ASKED, MIXES, LOOKING, OUTSIDE, RANGES, DTYPES) = range(13)
FITTED = LogisticRegression().fit(ROWS["X_train"], ROWS["y_train"])
SPACE = {"C": optuna.distributions.FloatDistribution(1e-3, 1e3, log=True)}


def block(number: int, *names: Any, **known: Any) -> dict[str, Any]:
    """Run one block with the functions and classes of these names."""
    return run(PAGE, {**ROWS, **{one.__name__: one for one in names}, **known}, only=slice(number, number + 1))


def opened(folder: Path) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=1.0))


def searching(folder: Path) -> CentredSampler:
    privatizer = dptune.LossPrivatizer(opened(folder), n=400, clip=(0.0, 1.0))
    return CentredSampler(privatizer, SPACE, n_trials=8)


def test_early_stopping_prints_private_losses_unless_its_rows_are_public(capsys: Any) -> None:
    trial = optuna.trial.FixedTrial({"n_estimators": 10})
    block(EARLY, XGBClassifier, train_test_split, StopsEarly, trial=trial)
    printed = capsys.readouterr().out
    model = XGBClassifier(early_stopping_rounds=10).fit(ROWS["X_train"], ROWS["y_train"], eval_set=[(X[:400], Y[:400])])
    assert printed == capsys.readouterr().out  # of the wrong one alone
    assert f"{model.evals_result()['validation_0']['logloss'][0]:.5f}" in printed


def test_what_is_handed_to_libraries_that_are_not_installed(tmp_path: Path, capsys: Any) -> None:
    heard: list[Any] = []
    keras = SimpleNamespace(fit=lambda *rows, **options: heard.append((rows, options)))
    block(KERAS, model=keras, EarlyStopping=lambda watched: watched)
    (_, wrong), (rows, right) = heard
    assert wrong["validation_data"][0] is ROWS["X_val"]
    assert rows == (ROWS["X_train"], ROWS["y_train"])
    assert "validation_data" not in right
    sampler = searching(tmp_path)
    study = optuna.create_study(sampler=sampler)
    study.optimize(
        sampler.objective(lambda trial: np.full(400, trial.suggest_float("C", 1e-3, 1e3, log=True) / 1e3)), 8
    )
    capsys.readouterr()
    loggers = {name: SimpleNamespace(log=heard.append, log_metric=heard.append) for name in ("wandb", "mlflow")}
    reports = {name: SimpleNamespace(report=heard.append) for name in ("trial", "tune")}  # refused: tests of the fronts
    block(LOOKING, log_loss, model=FITTED, sampler=sampler, study=study, **loggers, **reports)
    assert float(capsys.readouterr().out) == log_loss(ROWS["y_val"], FITTED.predict_proba(ROWS["X_val"]))
    assert len(heard) == 6


def test_what_a_model_changes_outside_of_itself_runs() -> None:
    joblib = SimpleNamespace(Parallel=lambda n_jobs: list)
    parts = {"f": len, "parts": ["a", "bc"], "delayed": lambda f: f, "joblib": joblib}
    known = block(OUTSIDE, ProcessPoolExecutor, np=np, X=X, self=SimpleNamespace(seed=1), CALLS=0, **parts)
    known["POOL"].shutdown()
    assert known["CALLS"] == 1
    assert (known["answers"] == np.random.default_rng(1).random(len(X))).all()


def test_wrong_and_right_in_scikit_learn_run(tmp_path: Path) -> None:
    scaled = block(SCALERS, StandardScaler, make_pipeline, SVC, np=np, C=1.0)
    assert not np.allclose(scaled["scaler"].mean_, scaled["model"][0].mean_)
    trial = optuna.trial.FixedTrial({"threshold": 0.4})
    tuned = (f1_score, FixedThresholdClassifier, TunedThresholdClassifierCV)
    assert 0 < block(THRESHOLDS, *tuned, grid=[0.2, 0.5], trial=trial, model=FITTED)["threshold"] < 1
    sampler = searching(tmp_path)
    block(FOLDS, cross_val_score, model=FITTED, X_private=X[:60], y_private=Y[:60], sampler=sampler)


def test_a_visit_is_not_a_patient(tmp_path: Path) -> None:
    patients, made = np.arange(60) // 3, []

    def privatizer(folder: Path, **options: Any) -> None:
        folder = folder / str(len(made))  # one ledger would refuse the second
        folder.mkdir()
        made.append(dptune.LossPrivatizer(opened(folder), **options))

    names = {"visits": np.zeros((60, 2)), "patients": patients, "LossPrivatizer": privatizer}
    block(PEOPLE, train_test_split, GroupShuffleSplit, ledger=tmp_path, **names)
    assert [one.n for one in made] == [60, 20]


def test_a_public_report_shows_whatever_it_is_given(tmp_path: Path) -> None:
    sampler = searching(tmp_path)
    X_stop, y_stop = X[400:450], Y[400:450]
    network = MLPClassifier(4, max_iter=2).partial_fit(X[450:], Y[450:], classes=[0, 1])

    @sampler.objective(loss="log_loss", data=lambda: (X[:400].copy(), Y[:400].copy()), public="what the page reports")
    def trained(trial: Any) -> Any:
        trial.suggest_float("C", 1e-3, 1e3, log=True)
        for epoch, line in enumerate(blocks(page(PAGE), "python")[PRUNING][1].splitlines()):
            known = {"log_loss": log_loss, "model": network, "epoch": epoch, "epoch_took_long": True, "trial": trial}
            exec(line, {**known, **rows, "X_stop": X_stop, "y_stop": y_stop})
        return network

    rows = {"X_val": X_stop, "y_val": y_stop}  # in place of private rows
    study = optuna.create_study(sampler=sampler)
    study.optimize(trained, n_trials=1)
    assert sorted(study.trials[0].intermediate_values) == [0, 1, 2, 3]


def test_a_model_that_is_asked_counts_and_one_whose_copy_is_asked_does_not() -> None:
    lines = [line for line in blocks(page(PAGE), "python")[ASKED][1].splitlines() if line]
    known = {"copy": copy, "zero_one_loss": zero_one_loss, "estimator_losses": estimator_losses, **ROWS}
    found = []
    for line in lines:
        model = KNeighborsClassifier(algorithm="kd_tree").fit(ROWS["X_train"], ROWS["y_train"])
        ran: dict[str, Any] = {**known, "model": model}
        exec(line, ran)
        found.append(ran["losses"].tolist())
        assert (model._tree.get_n_calls() > 0) is ("# wrong" in line)
    assert found == found[:1] * 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_that_mixes_rows_is_refused() -> None:
    made: list[Any] = []
    network = SimpleNamespace(train=lambda: made.append("training mode"))
    known = {each.__name__: each for each in (FunctionTransformer, StandardScaler, IterativeImputer, TorchModel)}
    known["make_pipeline"] = lambda *steps: made.append(make_pipeline(*steps))
    block(MIXES, **known, net=network, model=LogisticRegression())
    few = X[:, :5]
    gaps = np.where(np.random.default_rng(0).random(few.shape) < 0.1, np.nan, few)
    for place, pipeline in enumerate(made[:4]):
        rows = gaps if place > 1 else few
        pipeline.fit(rows[400:], Y[400:])
        if place % 2:
            assert np.isfinite(estimator_losses("log_loss", pipeline, rows[:400], Y[:400])).all()
        else:
            with pytest.raises(dptune.InputError, match="answers a public row differently"):
                estimator_losses("log_loss", pipeline, rows[:400], Y[:400])
    assert made[4:] == ["training mode"]


def test_ranges_and_representations_run(tmp_path: Path) -> None:
    trial = SimpleNamespace(suggest_float=lambda name, low, high, log=False: (low, high))
    known = {"np": np, "losses": np.linspace(0, 9, 50), "bounds_that_worked_on": lambda rows: (0.5, 2.0)}
    assert block(RANGES, trial=trial, **known)["C"] == (1e-3, 1e3)
    (tmp_path / "val.csv").write_text("zip,x\n00707,1\n")
    cells = [f"{age},{'a' if age % 2 else 'b'}\n" for age in range(20, 60)]
    halves = {}
    for cell in ("42", "?"):  # of one private person
        rows = [line.replace("42,", f"{cell},") for line in cells]
        (tmp_path / "all.csv").write_text("".join(["x,town\n", *rows]))
        with contextlib.chdir(tmp_path):
            halves[cell] = block(DTYPES, Rows, train_test_split, pd=pd, io=io, X=X, y=Y, y_val=np.zeros(10))
        assert any(line.startswith(cell) for line in halves[cell]["val"])
    assert str(halves["42"]["X_train"].dtypes["x"]) != str(halves["?"]["X_train"].dtypes["x"])
    assert len(blocks(page(PAGE), "python")) == DTYPES + 1  # each runs in this file
    pd.testing.assert_frame_equal(*(half["frame_train"] for half in halves.values()))


# ---- a file of public and private rows, split as docs/sklearn.md does: one odd private cell costs its own row -----

N = 200
RECIPE = next(code for _, code in blocks(page("docs/sklearn.md"), "python") if "patients.csv" in code)
MODEL = make_pipeline(
    make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    ),
    LogisticRegression(),
)


def losses(folder: Path, recipe: str, places: dict[int, Any], column: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    score, age = rng.integers(0, 10, N) / 2, rng.integers(20, 90, N)
    table = pd.DataFrame(
        {"score": score, "age": age, "sick": (score + age / 30 + rng.normal(0, 1, N) > 4.2).astype(int)}
    )
    table = table.astype(object)
    for line, cell in places.items():
        table.loc[line - 1, column] = cell
    (folder / "patients.csv").write_text(table.to_csv(index=False))
    made: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec(recipe, made)
    MODEL.fit(made["X_train"], made["y_train"].astype(int))
    return estimator_losses("log_loss", MODEL, made["X_val"], made["y_val"], like=made["X_train"])


@pytest.mark.parametrize(("public", "cell", "column"), [("?", "?", "score"), (1.5, "Bern", "score"), (1.5, "", "sick")])
def test_one_odd_private_cell(tmp_path: Path, public: Any, cell: str, column: str) -> None:
    train, val = train_test_split(range(1, N + 1), test_size=0.6, random_state=0)
    odd = {train[3]: public} if column == "score" else {}
    a, b = (losses(tmp_path, RECIPE, odd | each, column) for each in ({}, {val[5]: cell}))
    assert np.isfinite(a).all()
    assert np.delete(a, 5).tobytes() == np.delete(b, 5).tobytes()


# ---- shown scripts: no private row scales or selects public rows ----------------------------------------

RAW, LABELS = load_breast_cancer(return_X_y=True)
MARKS = re.compile(r"^X.*train_test_split|^X_val|^X, X_val|^X_train, X_val|^X_val, X_train", re.MULTILINE)


def preparation(name: str) -> str:
    """The lines of a page's first script that load, split and scale."""
    code = next(code for _, code in blocks(page(name), "python") if "train_test_split(" in code)
    last = list(MARKS.finditer(code))[-1]
    return code[: code.index("\n", last.start()) + 1]


def ran(code: str, X: Any, y: Any) -> dict[str, Any]:
    """The names that the code makes of these rows instead of scikit-learn's."""
    names: dict[str, Any] = {"rows": lambda **_: (X.copy(), y.copy())}
    exec(code.replace("load_breast_cancer(", "rows("), names)
    return names


def public_rows(code: str, X: Any, y: Any) -> tuple[bytes, bytes]:
    names = ran(code, X, y)
    return tuple(names.get(f"{each}_train", names[each]).tobytes() for each in ("X", "y"))


def with_another_private_row(code: str) -> np.ndarray:
    """The rows, the largest private one of the script's split three times as large: most scales would show it."""
    unscaled = re.sub(r"^X_val.*/.*$|^X, X_val = .*$|^X_train, X_val = .*/.*$", "", code, flags=re.MULTILINE)
    places = ran(unscaled, np.arange(1.0, len(RAW) + 1)[:, None], LABELS)["X_val"].ravel().astype(int) - 1
    other = RAW.copy()
    other[places[RAW[places, 0].argmax()]] *= 3
    return other


SPLITTING = [
    "README.md",
    "docs/public.md",
    "docs/optuna.md",
    *(f"docs/tutorial_{one}.md" for one in ("optuna", "ray", "sklearn")),
]


@pytest.mark.parametrize("name", SPLITTING)
def test_public_rows_are_the_same_whatever_a_private_row_is(name: str) -> None:
    code = preparation(name)
    assert public_rows(code, RAW, LABELS) == public_rows(code, with_another_private_row(code), LABELS)


def test_scaling_before_the_split_is_found() -> None:
    code = preparation("README.md")
    bad = re.sub(r"^X, X_val = .*$", "", code, flags=re.MULTILINE).replace("split(X,", "split(X / X.max(axis=0),")
    assert public_rows(bad, RAW, LABELS) != public_rows(bad, with_another_private_row(code), LABELS)
