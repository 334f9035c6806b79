"""Each command's help ends with an example, and the example runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import dptune
from dptune.cli import app

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
PEOPLE, SEED = 40, 0
AUDIT = """
from dptune.audit import Audit
X, y = [[0.0], [1.0], [0.5], [0.2]], [0.0, 1.0, 1.0, 0.0]
audit = Audit(lambda X, y: abs(X[:, 0] - y), X, y, clip=(0.0, 1.0), people=1, answers=100)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples name: an audit, and a ledger with a run and a report."""
    monkeypatch.chdir(tmp_path)
    Path("my_audit.py").write_text(AUDIT)
    privatizer = dptune.LossPrivatizer(
        dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(1.0)), n=PEOPLE, clip=(0.0, 1.0)
    )
    run = dptune.SearchRun(dptune.search.VALUES, privatizer, scope="svm", space=None, trials=2, mu=0.5)
    for trial in range(2):
        run.finish(str(trial), {"C": 0.5 * trial}, np.linspace(0.0, 1.0, PEOPLE))
    rng = np.random.default_rng(SEED)
    X, y = rng.normal(size=(2 * PEOPLE, 2)), rng.integers(0, 2, 2 * PEOPLE)
    public, private = (X[:PEOPLE], y[:PEOPLE]), (X[PEOPLE:], y[PEOPLE:])
    dptune.report(LogisticRegression().fit(*public), privatizer, data=private, public=public, mu=0.5)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_s_help_has_an_example_that_runs(name: str, folder: Path) -> None:
    shown = " ".join(CliRunner().invoke(app, [name, "--help"]).output.replace("│", " ").split())
    example = re.search(rf"Example: dptune ({name}\b.*?)(?= ╭| Options|$)", shown)
    assert example is not None, shown
    done = CliRunner().invoke(app, shlex.split(example[1]))
    assert done.exit_code == 0, done.output
    assert done.output.strip()
