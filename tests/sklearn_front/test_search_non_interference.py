"""With canned answers, nothing that a search shows depends on the private rows: attributes, pickles, repr, logs.

Neighbours differ in one person: another one, NaN, infinity, an unknown label. Odd cells of every other kind, in
everything that holds rows, are in test_neighbouring_tables.py.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import loguniform

from dptune.privacy.seal.private import reveal
from dptune_sklearn import PrivateSearch
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
        X[WHO, 1] = ODD[kind]
    return CONTAINERS[container](X), y


def search_of(method: str, folder: Path) -> Any:
    settings = {"param_distributions": {"C": loguniform(1e-2, 1e2)}, "ledger": ledger_in(folder)}
    method, _, clip = method.partition(", clip ")
    return search_in(folder, method, **settings, **({"clip": clip} if clip else {}))


def transcript(folder: Path, container: str, method: str, kind: str) -> list[str]:
    X, y = PUBLIC
    X_val, y_val = neighbour(container, kind)
    fit = {"X": CONTAINERS[container](X), "y": y, "X_val": X_val, "y_val": y_val}
    return left_behind(folder, lambda folder: search_of(method, folder), fit, SECRET)


@pytest.fixture
def canned(monkeypatch) -> None:
    can_answers(monkeypatch)


def assert_nothing_interferes(
    folder: Path, container: str, method: str, kind: str, mine: list[str] | None = None
) -> None:
    mine = mine or transcript(folder / "a", container, method, "same")
    theirs = transcript(folder / "b", container, method, kind)
    assert [pair for pair in itertools.zip_longest(mine, theirs) if pair[0] != pair[1]] == []


CASES = [
    *(("array", method, kind) for method in ("centred", "selection") for kind in (*ODD, "label", "missing label")),
    *(("array", method, kind) for method in ("dp-gibo", "sampler") for kind in ("other", "nan", "label")),
    *(("array", "centred, clip auto", kind) for kind in (*ODD, "label")),
    *((container, "selection", kind) for container in ("float32", "sparse") for kind in ("other", "nan", "inf")),
]
FAST = {  # each container, method and kind; their other pairs are audits
    *(("array", "centred", kind) for kind in ("other", "nan", "missing label")),
    *(("array", "selection", kind) for kind in ("secret", "label")),
    *(("array", "dp-gibo", "label"), ("array", "sampler", "nan"), ("array", "centred, clip auto", "inf")),
    *(("float32", "selection", "nan"), ("sparse", "selection", "other")),
}


@pytest.fixture(scope="module")
def unchanged() -> dict[tuple[str, str], list[str]]:
    """Transcripts of the rows as they are: one for all neighbours of a container and a method."""
    return {}


@pytest.mark.parametrize(
    ("container", "method", "kind"),
    [pytest.param(*case, marks=() if case in FAST else pytest.mark.slow) for case in CASES],
)
def test_neighbours_leave_the_same_search(fast_path, canned, unchanged, container, method, kind):
    if (container, method) not in unchanged:
        unchanged[container, method] = transcript(fast_path / "a", container, method, "same")
    assert_nothing_interferes(fast_path, container, method, kind, unchanged[container, method])


def leak_attribute(monkeypatch) -> None:
    fitted = PrivateSearch.fit

    def fit(self, X, y=None, **options):
        fitted(self, X, y, **options)
        self.margins_ = self.decision_function(options["X_val"]).sum()
        return self

    monkeypatch.setattr(PrivateSearch, "fit", fit)


def leak_private_rows(monkeypatch) -> None:
    fitted = PrivateSearch.fit

    def fit(self, X, y=None, **options):
        self._private = options["X_val"]
        return fitted(self, X, y, **options)

    monkeypatch.setattr(PrivateSearch, "fit", fit)


def leak_name(monkeypatch) -> None:
    leak_private_rows(monkeypatch)
    monkeypatch.setattr(PrivateSearch, "_public", lambda self: vars(self).pop("_private"))


def leak_log(monkeypatch) -> None:
    losses = Models.losses

    def logged(self, model):
        found = losses(self, model)
        logging.getLogger("dptune.search").debug("%.17g", reveal(found).sum())
        return found

    monkeypatch.setattr(Models, "losses", logged)


@pytest.mark.parametrize("leak", [leak_attribute, leak_private_rows, leak_name, leak_log])
@pytest.mark.parametrize("method", ["centred", pytest.param("selection", marks=pytest.mark.slow)])
def test_the_audit_fails_on_a_planted_leak(fast_path, canned, monkeypatch, leak, method):
    leak(monkeypatch)
    with pytest.raises(AssertionError):
        assert_nothing_interferes(fast_path, "array", method, "other")


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
