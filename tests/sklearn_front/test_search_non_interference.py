"""With canned answers, no attribute, pickle, repr or log of a search depends on the private rows.

Neighbours differ in one person: another one, NaN, infinity or an unknown label. They also differ in one odd cell or
answer, in every container of rows. tests/losses/test_one_cell_one_row.py has many more readers and cells.
"""

import io
import itertools
import logging
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import _search, _validation
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import dptune
from audit_tools import dump
from dptune.choice import places, proposals
from dptune.losses.named import NamedLoss
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.seal.private import reveal
from dptune_sklearn import PrivateSearch, private_search
from every_logger import every_logger, without_clocks
from sklearn_tools import PUBLIC, grid, ledger_in, rows, search_in

N, WHO, SECRET = 30, 7, 1234.56789
CONTAINERS: dict[str, Any] = {"array": lambda X: X, "float32": lambda X: X.astype(np.float32), "sparse": csr_array}
ODD = {"other": -3.0, "nan": np.nan, "inf": np.inf, "secret": SECRET}


def neighbour(container: str, kind: str) -> tuple[Any, Any]:
    """The private rows with one person replaced."""
    X, y = rows(N, seed=5)
    if kind == "label":
        y = y.astype(object)
        y[WHO] = f"unknown {SECRET}"
    elif kind == "missing label":
        y = y.astype(float)
        y[WHO] = np.nan
    elif kind in ODD:
        X[WHO] = ODD[kind]
    return CONTAINERS[container](X), y


def search_of(which: str, folder: Path) -> PrivateSearch:
    if which == "a model that counts":
        inner = grid(KNeighborsClassifier(2, algorithm="kd_tree"), {"n_neighbors": [1, 3, 5]})
    else:
        inner = grid(LogisticRegression(C=0.01), {"C": [0.1, 10.0]})
    return search_in(folder, inner, loss="log_loss" if which == "unbounded" else "zero_one")


@pytest.fixture
def canned(monkeypatch) -> None:
    """Answers are constants, and so is the clock, which cv_results_ shows of public training."""
    monkeypatch.setattr(OpenDPNoise, "add_gaussian", lambda self, statistic, sigma: np.full(len(statistic), 0.25))
    monkeypatch.setattr(OpenDPNoise, "noisy_argmin", lambda self, statistic, scale: 1)
    for module in (_validation, _search):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 0.0, perf_counter=lambda: 0.0))


def left_behind(folder: Path, search_in: Callable[[Path], PrivateSearch], fit: dict[str, Any]) -> list[str]:
    """Lines of logs, warnings, attributes, the ledger and the pickle; the secret is in none of them, nor in files."""
    folder.mkdir()
    with every_logger() as lines, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        search = search_in(folder).fit(**fit)
    shown = {name: value for name, value in vars(search).items() if name.endswith("_")}
    told = [repr(search), repr(shown), search.summary(), str(search.statement(delta=1e-3))]
    told += [repr(sorted(vars(search))), *(f"{one.category.__name__}: {one.message}" for one in warned)]
    pickled = pickle.dumps(search)
    everything = [*lines, *told, *map(repr, dump(search.ledger)), pickled.decode("latin-1")]
    assert len(lines) > 50
    files = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for text in ("\n".join(everything).encode(), files, pickled):
        assert str(SECRET).encode() not in text
        assert np.float64(SECRET).tobytes() not in text
    return without_clocks(everything, folder)


def assert_alike(folder: Path, search_in: Callable[[Path], PrivateSearch], *fits: dict[str, Any]) -> None:
    mine, *others = (left_behind(folder / str(number), search_in, fit) for number, fit in enumerate(fits))
    for theirs in others:
        assert [pair for pair in itertools.zip_longest(mine, theirs) if pair[0] != pair[1]] == []


def assert_nothing_interferes(
    folder: Path, container: str, which: str, *kinds: str, searched: type[PrivateSearch] = PrivateSearch
) -> None:
    X, y = PUBLIC
    people = [neighbour(container, kind) for kind in ("same", *kinds)]
    fits = [{"X": CONTAINERS[container](X), "y": y, "X_val": X_val, "y_val": y_val} for X_val, y_val in people]
    assert_alike(folder, lambda folder: searched(**search_of(which, folder).get_params(deep=False)), *fits)


@pytest.mark.parametrize(
    ("container", "which", "kinds"),
    [
        ("array", "usual", ["other", "label"]),
        ("array", "unbounded", ["inf", "missing label"]),
        ("array", "a model that counts", ["nan", "secret"]),
        ("float32", "unbounded", ["nan"]),
        ("sparse", "usual", ["other"]),
        pytest.param("array", "usual", [*ODD, "label", "missing label"], marks=pytest.mark.slow),
    ],
)
def test_neighbours_leave_the_same_search(fast_path, canned, container, which, kinds):
    assert_nothing_interferes(fast_path, container, which, *kinds)


# ---- one odd cell or answer: NumPy, pandas and CSV choose a type by all cells ----------------------------------------

Table = dict[str, list[Any]]


def table(n: int, seed: int) -> Table:
    """Return columns as plain lists: whole numbers, numbers, text; and answers."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, n)
    columns = {"age": age.tolist(), "dose": rng.normal(size=n).tolist()}
    return columns | {
        "city": np.where(age > 50, "Bern", "Basel").tolist(),
        "sick": (age + rng.normal(0, 20, n) > 55).astype(int).tolist(),
    }


def rows_of(*names: str) -> Callable[[Table], list[Any]]:
    return lambda table: [list(row) for row in zip(*(table[name] for name in names), strict=True)]


def frame(table: Table) -> pd.DataFrame:
    return pd.DataFrame({name: table[name] for name in ("age", "dose", "city")})


def read_again(table: Any) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(table.to_csv(index=False)))


def beside_text(table: Table) -> Any:
    """Whole floats beside text: NumPy makes text of all, and objects where one city is None."""
    return np.array([[float(age // 10), city] for age, city in zip(table["age"], table["city"], strict=True)])


def array(table: Table) -> Any:
    return np.array(numbers(table))


numbers, mixed = rows_of("age", "dose"), rows_of("age", "dose", "city")
ENCODER = OneHotEncoder(handle_unknown="ignore")
BY_TYPE = make_column_transformer(
    (SimpleImputer(), make_column_selector(dtype_include="number")),
    (ENCODER, make_column_selector(dtype_exclude="number")),
)
BY_PLACE = make_column_transformer((SimpleImputer(), [0, 1]), (OneHotEncoder(), [2]))
PLAIN = SimpleImputer()
LONG = f"a longer text {SECRET}"

# how rows are held -> what transforms them, rows, answers, the column of the odd cell, and that cell
HELD: dict[str, tuple[Any, Callable[[Table], Any], Callable[[list[Any]], Any], str, Any]] = {
    "frame": (BY_TYPE, frame, list, "age", "?"),
    "csv": (BY_TYPE, lambda table: read_again(frame(table)), list, "age", "n/a"),
    "whole floats beside text": (ENCODER, beside_text, list, "city", None),
    "category": (BY_TYPE, lambda table: frame(table).astype({"city": "category"}), list, "city", np.nan),
    "nullable": (BY_TYPE, lambda table: frame(table).convert_dtypes(), list, "age", 3.5),
    "array": (PLAIN, array, list, "age", LONG),
    "objects": (BY_PLACE, lambda table: np.array(mixed(table), dtype=object), list, "city", "?"),
    "list": (PLAIN, numbers, list, "age", "n/a"),
    "series": (CountVectorizer(), lambda table: pd.Series(table["city"]), list, "city", None),
    "answer, array": (PLAIN, array, np.array, "sick", LONG),
    "answer, objects": (PLAIN, array, lambda y: np.array(y, dtype=object), "sick", 3.5),
    "answer, category of texts": (PLAIN, array, lambda y: pd.Series(map(str, y), dtype="category"), "sick", LONG),
    "answer, csv": (PLAIN, array, lambda y: read_again(pd.DataFrame({"y": y}))["y"], "sick", "?"),
    "answer, list of numbers": (PLAIN, array, list, "dose", "n/a"),
    "answer, a list": (PLAIN, array, list, "sick", [0, 1]),
    "answer, a huge number": (PLAIN, array, list, "dose", 10**400),
    "answer, own loss": (PLAIN, array, list, "dose", None),
}


def fails_for_the_odd_one(y: Any, prediction: Any) -> Any:
    if np.isnan(y).any():
        raise ValueError(f"{SECRET} is the answer of {y}")
    return np.abs(y - prediction)


def assert_an_odd_cell_is_silent(folder: Path, held: str, searched: type[PrivateSearch] = PrivateSearch) -> None:
    transformer, hold, answers, column, odd = HELD[held]
    target = "dose" if column == "dose" else "sick"
    public, private = table(40, 1), table(12, 2)
    other = private | {column: [odd if i == WHO else cell for i, cell in enumerate(private[column])]}
    y = list(answers(public[target])) if column == target else public[target]
    fits = [{"X": hold(public), "y": y, "X_val": hold(one), "y_val": answers(one[target])} for one in (private, other)]
    model, C, loss = (Ridge(), "alpha", "mse") if target == "dose" else (LogisticRegression(), "C", "log_loss")
    pipeline = make_pipeline(transformer, model)
    inner = grid(pipeline, {f"{pipeline.steps[-1][0]}__{C}": [0.1, 10.0]})
    loss = NamedLoss("own", fails_for_the_odd_one) if held == "answer, own loss" else loss
    settings = {"loss": loss, "clip": (0.0, 2.0), "even_if_hopeless": True}
    assert_alike(folder, lambda folder: searched(inner, ledger=ledger_in(folder), **settings), *fits)


@pytest.mark.parametrize("held", HELD)
def test_one_odd_private_cell_leaves_the_same_search(fast_path, canned, held):
    assert_an_odd_cell_is_silent(fast_path, held)


class Refuses(PrivateSearch):
    """Text beside numbers is a mistake that one person can make for everybody: it must not be what is refused."""

    def fit(self, X: Any, y: Any, **options: Any) -> PrivateSearch:
        if np.asarray(options["y_val"]).dtype.kind != np.asarray(y).dtype.kind:
            raise dptune.InputError("y_val holds text, and y numbers")
        return super().fit(X, y, **options)


def test_a_refusal_by_the_kind_of_private_answers_is_seen(fast_path, canned):
    with pytest.raises(dptune.InputError):
        assert_an_odd_cell_is_silent(fast_path, "answer, array", searched=Refuses)


# ---- planted bugs ----------------------------------------------------------------------------------------------------


class LeaksAttribute(PrivateSearch):
    def fit(self, X, y=None, **options):
        super().fit(X, y, **options)
        self.margins_ = self.decision_function(options["X_val"]).sum()
        return self


class LeaksRows(PrivateSearch):
    def fit(self, X, y=None, **options):
        self._private = options["X_val"]
        return super().fit(X, y, **options)


def leak_log(monkeypatch) -> None:
    asked = places.private_losses

    def logged(*how):
        found = asked(*how)
        logging.getLogger("dptune").debug("%.17g", reveal(found).sum())
        return found

    monkeypatch.setattr(places, "private_losses", logged)


def private_means(options: Any, models: Any, candidates: Any) -> list[float]:
    X, y = (np.asarray(each) for each in (options.data.X, options.data.y))
    found = [model.predict(np.nan_to_num(X.astype(float))) != y for model in models.models(candidates)]
    return [float(np.mean(each)) for each in found]


def leak_of_proposals(monkeypatch, leak) -> None:
    choose = proposals.choose_among

    def leaking(proposed, models, options, *how):
        return choose(*leak(proposed, models, options), options, *how)

    monkeypatch.setattr(private_search, "choose_among", leaking)


def votes_read_private_rows(monkeypatch) -> None:
    def leak(proposed, models, options):
        true = models.losses
        models.losses = lambda tried: [
            np.concatenate([[mean], losses[1:]])
            for mean, losses in zip(private_means(options, models, tried), true(tried), strict=True)
        ]
        return proposed, models

    leak_of_proposals(monkeypatch, leak)


def candidates_ordered_by_a_person(monkeypatch) -> None:
    def leak(proposed, models, options):
        order = 1 if options.data.X[WHO, 0] > -2.0 else -1
        return replace(proposed, candidates=proposed.candidates[::order]), models

    leak_of_proposals(monkeypatch, leak)


def best_estimator_was_asked(monkeypatch) -> None:
    choose = proposals.choose_among

    def leaking(proposed, models, options, *how):
        choice = choose(proposed, models, options, *how)
        choice.model.seen_ = private_means(options, models, proposed.candidates)
        return choice

    monkeypatch.setattr(private_search, "choose_among", leaking)


@pytest.mark.parametrize(
    ("bug", "which", "kind"),
    [
        *((leaking, "usual", "other") for leaking in (LeaksAttribute, LeaksRows)),
        (leak_log, "usual", "other"),
        (votes_read_private_rows, "usual", "label"),
        (candidates_ordered_by_a_person, "usual", "other"),
        (best_estimator_was_asked, "usual", "label"),
    ],
)
def test_the_audit_fails_on_a_planted_leak(fast_path, canned, monkeypatch, bug, which, kind):
    searched = bug if isinstance(bug, type) else PrivateSearch
    if searched is PrivateSearch:
        bug(monkeypatch)
    with pytest.raises(AssertionError):
        assert_nothing_interferes(fast_path, "array", which, kind, searched=searched)


def test_no_loss_is_in_the_ledger_or_the_pickle_of_a_real_search(fast_path, monkeypatch):
    seen, asked = [], places.private_losses

    def kept(*how):
        seen.append(asked(*how))
        return seen[-1]

    monkeypatch.setattr(places, "private_losses", kept)
    search = search_of("unbounded", fast_path)
    search.fit(*PUBLIC, X_val=rows(N, seed=5)[0], y_val=rows(N, seed=5)[1])
    written = b"".join([*(path.read_bytes() for path in fast_path.rglob("*") if path.is_file()), pickle.dumps(search)])
    assert len(seen) == 3  # two candidates, and what you have
    for loss in itertools.chain.from_iterable((*reveal(each), reveal(each).mean()) for each in seen):
        assert np.float64(loss).tobytes() not in written
        assert repr(float(loss)).encode() not in written
