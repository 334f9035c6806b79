"""`dptune watch` of every kind of ledger and to the end of a run, `dptune report`, and the example of each help."""

import json
import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from cli_tools import invoke
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from dptune import Budget, LossPrivatizer, PrivacyLedger, SearchRun, report, select
from dptune.cli import app
from dptune.cli.watch import frame
from dptune.ledger import PlanLedger, SubsampledGaussianPlan
from dptune.local import UserLedger
from dptune.privacy.noise import SeededNoise
from dptune.search import VALUES


def shown(opened: Any, **settings: Any) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        console.print(frame(opened, {}, **settings))
    return captured.get()


pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run() -> SearchRun:
    ledger = PrivacyLedger("ledger.db", Budget.gdp(1.0), dataset="tumours [/x]")
    return SearchRun(VALUES, LossPrivatizer(ledger, n=50, clip=(0.0, 1.0)), scope="svm", space=None, trials=4)


def play(run: SearchRun, trials: int) -> None:
    for trial in range(trials):
        run.finish(str(trial), {"x": 0.1 * trial}, np.full(50, 0.5))


def test_a_run_half_way(run: SearchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    play(run, 2)
    text = shown(run.ledger)
    assert "tumours [/x], n = 50" in text
    assert "study svm" in text
    assert "2 made, noise" in text
    assert f"x = {run.so_far()['x']:.4g}" in text
    first = datetime.fromisoformat("2026-01-01T10:00:00+00:00")
    monkeypatch.setattr(PrivacyLedger, "span", lambda *_: ("2026-01-01T10:00:00+00:00", "2026-01-01T10:01:00+00:00"))
    share = (run.ledger.spent() / 1.0) ** 2
    left = timedelta(seconds=round(60 * (1 / share - 1) - 10))
    assert f"ends in about {left}" in shown(run.ledger, now=first + timedelta(seconds=70))
    assert "ends in about" not in shown(run.ledger, now=first + timedelta(days=1))


def test_a_run_at_its_end_shows_its_recommendation_and_whether_its_noise_is_seeded(run: SearchRun) -> None:
    play(run, 4)
    value, low, high = run.estimate({"x": 0.1}, np.full(50, 0.5)).shown()
    text = shown(run.ledger)
    for words in (f"x = 0.1: loss {value:.4g} (95%: {low:.4g} to {high:.4g})", "100%"):
        assert words in text
    seeded = LossPrivatizer(run.ledger, n=50, clip=(0.0, 1.0), noise=SeededNoise(1))
    run.ledger.raise_budget(Budget.gdp(2.0))
    seeded.observe("x", [0.5] * 50)
    seeded.release(seeded.mean_query("x", 0.1), scope="s", key="1")
    for words in ("NOT PRIVATE", "epsilon = infinity", "no plan"):
        assert words not in text
        assert words in shown(run.ledger)
    assert "ends in" not in text


def test_once_prints_one_frame_of_every_kind_of_ledger() -> None:
    ledger = PrivacyLedger("chosen.db", Budget.gdp(1.0))
    select([[0.1] * 9, [0.9] * 9], LossPrivatizer(ledger, n=9, clip=(0.0, 1.0)), mu=0.5, name="chosen")
    PrivacyLedger("new.db", Budget.gdp(1.0))
    PlanLedger("plan.db", SubsampledGaussianPlan(q=0.35, z=1.0, steps=60), n=29)
    UserLedger("users.db", cap=2.0)
    for name, words in {
        "new": "mu 0 of 1 is spent",
        "plan": "0 of 60 releases",
        "users": "cap of epsilon = 2",
        "chosen": "one of 2 candidates, by private selection",
    }.items():
        assert words in " ".join(invoke("watch", f"{name}.db", "--once").split())


def test_it_follows_the_run_until_it_is_stopped(run: SearchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt
        play(run, len(looks))

    monkeypatch.setattr("dptune.cli.watch.time.sleep", sleep)
    done = CliRunner().invoke(app, ["watch", "ledger.db"], env={"COLUMNS": "140"})
    assert looks == [2.0] * 3
    assert "2 made" in done.output


# ---- reports, and what every help shows ------------------------------------------------------------------------------

AUDIT = """
from dptune.audit import Audit
X, y = [[0.0], [1.0], [0.5], [0.2]], [0.0, 1.0, 1.0, 0.0]
audit = Audit(lambda X, y: abs(X[:, 0] - y), X, y, clip=(0.0, 1.0), people=1, answers=100)
"""


def test_reports_are_printed_and_each_command_s_help_has_an_example_that_runs() -> None:
    Path("my_audit.py").write_text(AUDIT)
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
