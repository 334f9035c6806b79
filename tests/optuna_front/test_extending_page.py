"""Resumed and extended studies, docs/resume.md: blocks run in order, and the table is what the stored runs say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.optuna import extending
from benchmarks.optuna.extending import METHODS, TASKS, TRIALS, WAYS, Cell

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/resume.md").read_text()
RESEARCH = (ROOT / "docs/research/optuna.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    here: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, here)
    assert "'x'" in capsys.readouterr().out
    study = here["study"]
    assert len(study.trials) == 24
    run = here["sampler"].run_of(study)
    assert run.scope == "first, extended"
    assert run.complete
    assert run.ledger.spent() <= 1.0


def test_the_table_is_what_the_stored_runs_say() -> None:
    stored = [json.loads(line) for line in (ROOT / "docs/results/extending.jsonl").read_text().splitlines()]
    seeds = sorted({result["seed"] for result in stored})
    cells = [Cell(t, m, k, w, s) for s in seeds for t in TASKS for m in METHODS for k in TRIALS for w in WAYS]
    assert len(seeds) >= 20
    assert extending.table(stored, cells) in RESEARCH
