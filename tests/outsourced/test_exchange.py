"""What crosses the shared folder: the table, queries and public answers, between threads and two processes."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from audit_tools import start_forked
from example_tools import EXAMPLES
from outsourced_tools import TABLE, curator, measure

from dptune import InputError, PrivacyLedger
from dptune.outsourced.formats import Exchange
from dptune.outsourced.outputs import PublicOutputs


def test_public_outputs_are_served_and_a_curator_that_starts_again_resumes(
    ledger: PrivacyLedger, tmp_path: Path
) -> None:
    exchange = Exchange(tmp_path / "shared", timeout=600)
    curator(ledger, TABLE, tmp_path).export(exchange, mu=0.5)
    for rows in ([3, 5], [3, 5, 3]):
        made = curator(ledger, TABLE, tmp_path)
        serving = threading.Thread(target=made.serve, args=(exchange,), kwargs={"rounds": len(rows)}, daemon=True)
        serving.start()
        for row in rows[len(exchange.history()) :]:
            assert exchange.evaluate(row) == measure(row)
        serving.join()
        assert exchange.history() == [(row, measure(row)) for row in rows]


def test_trials_at_the_same_time_get_numbers_of_their_own_and_the_first_answer_stands(tmp_path: Path) -> None:
    exchange = Exchange(tmp_path / "shared")
    threads = [threading.Thread(target=exchange.ask, args=(1,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.name for p in exchange.folder.iterdir()) == [f"query-{t:06d}.json" for t in range(1, 9)]
    exchange.answer(1, 1, 0.5)
    exchange.answer(1, 1, 0.7)
    assert exchange.answered(1) == (1, 0.5)


def test_what_does_not_fit_is_refused_by_name(ledger: PrivacyLedger, tmp_path: Path) -> None:
    shared, empty = (Exchange(tmp_path / name, timeout=0.05) for name in ("shared", "empty"))
    made = curator(ledger, TABLE, tmp_path)
    made.export(shared, mu=0.5)

    def wrote(name: str, content: bytes, read: Callable[[], object]) -> object:
        (shared.folder / name).write_bytes(content)
        return read()

    np.save(tmp_path / "other.npy", np.zeros((7, 2)))
    other = (tmp_path / "other.npy").read_bytes()
    refused: list[tuple[str, Callable[[], object]]] = [
        ("is the curator running", empty.table),
        ("is the modeler running", lambda: empty.query(1, 5)),
        ("in words", lambda: PublicOutputs(measure, because=" ")),
        ("finite number", lambda: PublicOutputs(lambda row: math.nan, because="known").answer(0)),
        ("not the file", lambda: wrote("table.npy", other, shared.table)),
        ("does not describe", lambda: wrote("table.json", json.dumps({"sigma": 1}).encode(), shared.table)),
    ]
    for query in (b'{"row": 7}', b'{"row": "1"}', b"no"):
        asked = partial(wrote, "query-000001.json", query, partial(made.serve, shared, rounds=1))
        refused.append(("query-000001", asked))
    for words, call in refused:
        with pytest.raises(InputError, match=words):
            call()


def test_curator_and_modeler_meet_in_a_folder(tmp_path: Path) -> None:
    scripts = ((EXAMPLES / f"outsourced_{half}.py").read_text() for half in ("curator", "modeler"))
    curator, modeler = (start_forked(script, str(tmp_path)) for script in scripts)
    halves = modeler.wait(), curator.wait()
    assert [half.returncode for half in halves] == [0, 0], halves
    told, statement = (half.stdout for half in halves)
    assert "NOT covered: a larger change" in told
    assert "epsilon = 3 at delta = 1e-05" in statement
    assert "declared public by the user" in statement
    assert "NOT PRIVATE" not in statement
    recommended = float(re.findall(r"posterior mean ([\d.]+)", told)[0])
    best, mean = (float(x) for x in re.findall(r"(?:yield|mean) ([\d.]+)", statement.splitlines()[-1]))
    assert recommended > (best + mean) / 2
