"""`dptune report` prints reports, and the example of each command's help runs."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from cli_tools import AUDIT, invoke
from dptune import Budget, LossPrivatizer, PrivacyLedger, SearchRun, report, select
from dptune.cli import app
from dptune.search import VALUES

pytestmark = pytest.mark.usefixtures("own_folder")


def test_reports_are_printed_and_the_examples_of_each_help_text_run() -> None:
    Path("my_audit.py").write_text(AUDIT.format("abs(X[:, 0] - y)"))
    rng, n = np.random.default_rng(0), 100
    y = rng.integers(2, size=2 * n)
    X = rng.normal(size=(2 * n, 2)) + y[:, None]
    privatizer = LossPrivatizer(PrivacyLedger("ledger.db", Budget.gdp(mu=1.0)), n=n, clip=(0.0, 1.0))
    run = SearchRun(VALUES, privatizer, scope="svm", space=None, trials=2, mu=0.5)
    for trial in range(2):
        run.finish(str(trial), {"C": 0.5 * trial}, np.linspace(0.0, 1.0, n))
    about: dict[str, Any] = {"data": (X[n:].copy(), y[n:].copy()), "public": (X[:n].copy(), y[:n].copy()), "mu": 0.5}
    model = LogisticRegression().fit(*about["public"])
    found = report(model, privatizer, **about)
    assert invoke("report", "ledger.db") == f"{found}\n"
    assert invoke("report", "ledger.db", "--format", "markdown") == f"{found.to_markdown()}\n"
    assert json.loads(invoke("report", "ledger.db", "--format", "json")) == found.to_dict()
    assert "table of true class and score bin of a final model (1)" in invoke("certificate", "ledger.db")
    for quarter in ("q1.db", "q2.db"):  # of the example of `compare`
        select(rng.random((3, n)), PrivacyLedger(quarter, Budget.gdp(mu=1.0)), clip=(0, 1))
    for name in typer.main.get_command(app).commands:
        shown = " ".join(invoke(name, "--help").replace("│", " ").split())
        example = re.search(rf"Example: dptune ({name}\b.*?)(?= ╭| Options|$)", shown)
        assert example is not None, shown
        dark = ("--dark",) if name == "report" else ()
        assert invoke(*shlex.split(example[1].replace("report.png", "report.svg")), *dark).strip()
    assert "#1e2129" in Path("report.svg").read_text()
    report(model, privatizer, name="2nd", **about)
    unnamed = CliRunner().invoke(app, ["report", "ledger.db"])
    assert "Give the name of one of them: ['2nd', 'report']" in str(unnamed.exception)
    assert invoke("report", "ledger.db", "--name", "report") == f"{found}\n"
