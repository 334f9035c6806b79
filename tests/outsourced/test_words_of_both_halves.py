"""Curator and modeler say, show and assume by default what is true, to the letter."""

import copy
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dptune import Budget, PrivacyLedger
from dptune.errors import DptuneError
from dptune.outsourced import OutsourcedCurator, formats
from dptune.outsourced.curator import bounded_rows, cells_of
from dptune.outsourced.formats import Exchange
from dptune.outsourced.modeler import OutsourcedModeler
from dptune.outsourced.outputs import PublicOutputs
from dptune.search.gp import RBF
from outsourced_tools import PUBLIC, TABLE, MemoryLedger, R, curator, measure, released
from refusals import refused

WHY = "public: from what the features mean, never from the rows. Scaling by their deviation or range lets one row move"


def test_a_curators_refusals_quote_numbers_and_shapes(tmp_path: Path) -> None:
    limited, free = MemoryLedger(0.5), MemoryLedger()
    cases: list[tuple[Callable[[], object], str]] = [
        (
            lambda: curator(free, TABLE, tmp_path, max_change=0.5),
            f"the export protects {limited.adjacency!r}, but the ledger promises {free.adjacency!r}. Make the ledger "
            "and the curator with the same max_change, here 0.5.",
        ),
        (
            lambda: curator(MemoryLedger(1e-6), TABLE, tmp_path, max_change=1e-6),
            "max_change must be at least 0.001 of row_norm=5; got 1e-06.",
        ),
        (
            lambda: curator(free, TABLE, tmp_path, scale=[1.0, 2, 3]),
            f"scale must be one finite number or 2 of them, {WHY}",
        ),
        (
            lambda: curator(free, TABLE, tmp_path, scale=[1.0, 0]),
            "scale must be positive, in the units of the features.",
        ),
        (
            lambda: curator(free, TABLE, tmp_path, projection=np.eye(3)),
            "projection must be a public map W (2, k) of finite numbers; got a ndarray of shape (3, 3).",
        ),
        (
            lambda: cells_of([1.0, 2.0]),
            "the table must have rows and columns: an array or a data frame (n, d); got a list of length 2.",
        ),
        (
            lambda: cells_of(pd.DataFrame({"age": [1.0], "born": pd.Timestamp("2000-01-01")})),
            "the table has cells of the type datetime64; allowed: numbers. Turn dates into numbers of days.",
        ),
        (
            lambda: OutsourcedCurator("l.db", TABLE, scale=1.0, row_norm=R, outputs=PUBLIC, folder="own"),
            'the first argument must be a PrivacyLedger, e.g. PrivacyLedger("ledger.db", budget).',
        ),
        (
            lambda: copy.copy(curator(free, TABLE, tmp_path)),
            "a curator holds private rows: it is neither pickled nor copied. Make one where they are.",
        ),
        (lambda: PublicOutputs(lambda row: math.nan, because="x").answer(4), "measure(4) must return a finite number."),
        (
            lambda: PublicOutputs(measure, because=""),
            "say in words why everybody may know the outputs: PublicOutputs(measure, because=...).",
        ),
    ]
    for act, text in cases:
        refused(DptuneError, f"^{re.escape(text)}", act)


def test_a_limit_of_a_change_is_used_from_a_thousandth_to_the_diameter(tmp_path: Path) -> None:
    for limit, used in ((R / 1000, R / 1000), (3.0, 3.0), (20.0, 2 * R), (None, 2 * R)):
        assert curator(MemoryLedger(limit), TABLE, tmp_path, max_change=limit).change == used


def test_a_row_with_a_cell_that_is_no_number_becomes_the_middle() -> None:
    cells = np.array([[9.0, np.nan], [4.0, 7.0], [1e4, 1.0]])
    rows = bounded_rows(cells, np.array([1.0, 1.0]), np.array([1.0, 2.0]), 5.0)
    np.testing.assert_allclose(rows, [[0, 0], [3, 3], [5, 0]])


def test_the_modeler_reads_the_facts_that_the_curator_states(tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path / "l.db", Budget.gdp(1.0))
    for maximise in (True, False):
        outputs, shared = PublicOutputs(measure, because="known", maximise=maximise), tmp_path / str(maximise)
        made = curator(ledger, TABLE, tmp_path, outputs=outputs)
        charge = made.export(shared, mu=0.5, key=str(maximise))
        table = Exchange(shared).table()
        assert not table.values.flags.writeable
        assert table.facts.sigma == made.event(0.5).sigma
        assert (table.facts.maximise, table.facts.promise) == (maximise, f"mu = 0.5 GDP: {ledger.adjacency}")
        assert table.facts.outputs == "NOT PROTECTED, declared public by the user: 'known'"
        assert charge.note == {"rows": 7}
    assert PublicOutputs(measure, because="known").maximise
    again = f"^{re.escape(repr(str(shared)))} holds another table; give every export a folder of its own"
    refused(DptuneError, again, lambda: made.export(shared, mu=0.5, key="another"))
    (kept,) = (path for path in (tmp_path / "own").iterdir() if path.stem == table.facts.digest)
    kept.unlink()
    text = (
        f"the table that was released under 'False' is not in the curator's folder as {kept.name}: put it back. It "
        "cannot be drawn again for the same charge; another key= pays for another table."
    )
    refused(DptuneError, f"^{re.escape(text)}$", lambda: made.export(shared, mu=0.5, key="False"))


def test_what_is_wrong_in_the_shared_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 10_000, 400))
    monkeypatch.setattr(formats, "time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None))
    exchange, where = Exchange(tmp_path), repr(str(tmp_path))
    late = "{} did not come within 600 s: is the {} running on " + where + "? timeout= says how long to wait."
    refused(DptuneError, f"^{re.escape(late.format('a table', 'curator'))}$", exchange.table)
    refused(DptuneError, f"^{re.escape(late.format('query 2', 'modeler'))}$", lambda: exchange.query(2, 7))
    said = late.format("an answer to query-000001.json", "curator")
    refused(DptuneError, f"^{re.escape(said)}$", lambda: exchange.evaluate(5))
    answered = "answer-000001.json must hold a row and a finite number y."
    outside = "query-000001.json asks for no row of the table: rows are numbered 0 to 6."
    files: list[tuple[str, str, str]] = [
        ("query", json.dumps({"row": 7}), outside),
        ("query", json.dumps({"row": -1}), outside),
        ("query", "[1]", f"query-000001.json in {where} is not a JSON object."),
        ("answer", json.dumps({"row": 1}), answered),
        ("answer", json.dumps({"row": 1, "y": "0.5"}), answered),
        ("answer", json.dumps({"y": 0.5}), answered),
    ]
    for kind, content, text in files:
        (tmp_path / f"{kind}-000001.json").write_text(content)
        act = (lambda: exchange.query(1, 7)) if kind == "query" else exchange.history
        refused(DptuneError, f"^{re.escape(text)}$", act)
    (tmp_path / "query-000001.json").write_text('{"row": 6}')
    assert exchange.query(1, 7) == 6


# ---- the modeler -------------------------------------------------------------------------------------------


def test_a_modeler_asks_where_mean_and_root_of_beta_deviations_are_largest() -> None:
    """With the theorem's beta at delta = 0.1, unless another delta or exploration is given."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(30, 2))
    for options, multiplier, delta in (({}, 1.0, 0.1), ({"exploration": 0.01, "delta": 0.3}, 0.01, 0.3)):
        modeler = OutsourcedModeler(released(Z, 0.1), RBF(1.0), noise_variance=0.05, **options)
        differing = 0
        for t in range(1, 13):
            beta = multiplier * 2 * math.log(30 * t**2 * math.pi**2 / (6 * delta))
            assert modeler.beta == pytest.approx(beta)
            deviation = np.sqrt(modeler.variance)
            row = int(np.argmax(modeler.mean + math.sqrt(beta) * deviation))
            assert modeler.ask() == row
            differing += row != int(np.argmax(modeler.mean + beta * deviation))
            modeler.tell(row, float(Z[row, 0] + rng.normal(scale=0.2)))
        assert differing, "the case does not tell beta from its root"
        assert modeler.recommend() == max(modeler.rows, key=lambda j, mean=modeler.mean: mean[j])
        assert modeler.ask(skip=[j for j in range(30) if j != 17]) == 17


def test_a_modelers_refusals() -> None:
    modeler = OutsourcedModeler(released(np.eye(3), 0.3), RBF(1.0), noise_variance=0.5)
    hidden = "noise of 1000 hides every length-scale: nothing can be learned from this table."
    cases: list[tuple[Callable[[], object], str]] = [
        (modeler.recommend, "no row was evaluated yet; there is nothing to recommend."),
        (lambda: OutsourcedModeler(released(np.zeros((4, 300)), 1e3), RBF(1.0), noise_variance=0.1), hidden),
        (
            lambda: OutsourcedModeler(released(np.eye(3), 0.3), RBF(1.0), noise_variance=0),
            "noise_variance must be a number",
        ),
        (
            lambda: OutsourcedModeler(released(np.eye(3), 0.3), 1.0, noise_variance=1),
            "kernel must be an RBF: its mean un",
        ),
    ]
    for act, text in cases:
        refused(DptuneError, f"^{re.escape(text)}", act)
