"""With canned answers, nothing that a search shows depends on the private rows: attributes, pickles, repr, logs.

Neighbours differ in one person: another one, NaN, infinity, an unknown label. Odd cells of every other kind, in
everything that holds rows, are in test_neighbouring_tables.py.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, _search, _validation
from sklearn.neighbors import KNeighborsClassifier

from dptune.privacy.seal.private import reveal
from dptune_sklearn import PrivateSearch, decide, public_search
from dptune_sklearn.models import Models
from search_transcripts import can_answers, left_behind
from sklearn_tools import PUBLIC, ledger_in, rows, search_in

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
    ledger = ledger_in(folder)
    if which == "public":
        return PrivateSearch(LogisticRegression(C=0.01), {"C": [0.1, 10.0]}, cv=3, ledger=ledger, loss="zero_one")
    if which == "public, wrapped":
        inner = GridSearchCV(KNeighborsClassifier(2, algorithm="kd_tree"), {"n_neighbors": [1, 3, 5]}, cv=3)
        return PrivateSearch(inner, ledger=ledger, loss="zero_one")
    method, _, clip = which.partition(", clip ")
    settings = {"param_distributions": {"C": loguniform(1e-2, 1e2)}, "n_trials": 2 if method == "selection" else 8}
    return search_in(folder, method, ledger=ledger, **settings, **({"clip": clip} if clip else {}))


def transcript(folder: Path, container: str, which: str, kind: str, searched: type[PrivateSearch]) -> list[str]:
    X, y = PUBLIC
    X_val, y_val = neighbour(container, kind)
    fit = {"X": CONTAINERS[container](X), "y": y, "X_val": X_val, "y_val": y_val}
    return left_behind(folder, lambda folder: searched(**search_of(which, folder).get_params(deep=False)), fit, SECRET)


@pytest.fixture
def canned(monkeypatch) -> None:
    """Answers are constants, and so is the clock, which cv_results_ shows of public training."""
    can_answers(monkeypatch)
    for module in (_validation, _search, public_search):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: 0.0, perf_counter=lambda: 0.0))


def assert_nothing_interferes(
    folder: Path, container: str, which: str, *kinds: str, searched: type[PrivateSearch] = PrivateSearch
) -> None:
    mine = transcript(folder / "0", container, which, "same", searched)
    for number, kind in enumerate(kinds, 1):
        theirs = transcript(folder / str(number), container, which, kind, searched)
        assert [pair for pair in itertools.zip_longest(mine, theirs) if pair[0] != pair[1]] == []


@pytest.mark.parametrize(
    ("container", "which", "kinds"),
    [
        ("array", "centred", ["nan", "missing label"]),
        ("array", "selection", ["secret", "label"]),
        ("array", "dp-gibo", ["label"]),
        ("array", "sampler", ["nan"]),
        ("array", "centred, clip auto", ["inf"]),
        ("float32", "selection", ["nan"]),
        ("sparse", "selection", ["other"]),
        ("array", "public", ["other", "label"]),
        ("array", "public, wrapped", ["nan", "secret"]),
        *(
            pytest.param("array", which, [*ODD, "label", "missing label"], marks=pytest.mark.slow)
            for which in ("centred", "dp-gibo", "centred, clip auto", "public")
        ),
    ],
)
def test_neighbours_leave_the_same_search(fast_path, canned, container, which, kinds):
    assert_nothing_interferes(fast_path, container, which, *kinds)


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


class LeaksName(LeaksRows):
    def _public(self):
        return vars(self).pop("_private")


def leak_log(monkeypatch) -> None:
    losses = Models.losses

    def logged(self, model):
        found = losses(self, model)
        logging.getLogger("dptune.search").debug("%.17g", reveal(found).sum())
        return found

    monkeypatch.setattr(Models, "losses", logged)


def private_means(models: Models, candidates: Any) -> list[float]:
    found = [reveal(models.losses(models.fitted(each))) for each in candidates]
    return [float(np.nan_to_num(each, nan=1.0).mean()) for each in found]


def leaks_of_proposals(monkeypatch, leak) -> None:
    proposed = decide._proposed
    monkeypatch.setattr(decide, "_proposed", lambda search, models: leak(models, proposed(search, models)))


def votes_read_private_rows(monkeypatch) -> None:
    def leak(models, found):
        found.losses[:, 0] = private_means(models, found.parameters)
        return found

    leaks_of_proposals(monkeypatch, leak)


def finalists_ordered_by_private_losses(monkeypatch) -> None:
    def leak(models, found):
        return replace(found, scores=private_means(models, found.parameters))

    leaks_of_proposals(monkeypatch, leak)


def best_estimator_was_asked(monkeypatch) -> None:
    fitted = Models.fitted

    def leaking(self, parameters):
        model = fitted(self, parameters)
        model.seen_ = self._losses(model).sum()
        return model

    monkeypatch.setattr(Models, "fitted", leaking)


@pytest.mark.parametrize(
    ("bug", "which", "kind"),
    [
        *((leaking, "selection", "other") for leaking in (LeaksAttribute, LeaksRows, LeaksName)),
        (leak_log, "selection", "other"),
        (votes_read_private_rows, "public", "label"),
        (finalists_ordered_by_private_losses, "public", "label"),
        (best_estimator_was_asked, "public", "label"),
    ],
)
def test_the_audit_fails_on_a_planted_leak(fast_path, canned, monkeypatch, bug, which, kind):
    searched = bug if isinstance(bug, type) else PrivateSearch
    if searched is PrivateSearch:
        bug(monkeypatch)
    with pytest.raises(AssertionError):
        assert_nothing_interferes(fast_path, "array", which, kind, searched=searched)


def test_no_loss_is_in_the_ledger_or_the_pickle_of_a_real_search(fast_path, monkeypatch):
    seen, losses = [], Models.losses

    def kept(self, model):
        seen.append(losses(self, model))
        return seen[-1]

    monkeypatch.setattr(Models, "losses", kept)
    search = search_of("centred", fast_path)
    search.fit(*PUBLIC, X_val=rows(N, seed=5)[0], y_val=rows(N, seed=5)[1])
    written = b"".join([*(path.read_bytes() for path in fast_path.iterdir()), pickle.dumps(search)])
    assert len(seen) in (8, 10)  # trials; two more for the estimate, if the noise did not lead to a choice that is held
    for loss in itertools.chain.from_iterable((*reveal(each), reveal(each).mean()) for each in seen):
        assert np.float64(loss).tobytes() not in written
        assert repr(float(loss)).encode() not in written
