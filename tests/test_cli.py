"""The command line and the figures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import dptune
from dptune.cli import app, main
from dptune.figures import save_figure


@pytest.fixture
def path(tmp_path):
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    run = dptune.ValueRun(dptune.LossPrivatizer(ledger, n=50, clip=(0.0, 1.0)), scope="study", trials=4)
    for trial in range(4):
        run.finish(str(trial), {"x": 0.1 * trial}, np.full(50, 0.5))
    run.estimate({"x": 0.1}, np.full(50, 0.5))
    return str(tmp_path / "ledger.db")


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_statement_in_three_formats(path):
    assert "epsilon = 4.377" in invoke("statement", path)
    assert invoke("statement", path, "--format", "markdown").startswith("## Privacy statement")
    assert json.loads(invoke("statement", path, "--format", "json", "--delta", "1e-6"))["delta"] == 1e-6


def test_the_statement_of_a_plan(tmp_path, monkeypatch):
    plan = str(tmp_path / "plan.db")
    dptune.PlanLedger(plan, dptune.SubsampledGaussianPlan(q=0.35, z=1.0, steps=60), n=29)
    assert "epsilon = 10.38 at delta = 0.0246" in invoke("statement", plan, "--delta", "0.0246242")
    monkeypatch.setattr("sys.argv", ["dptune", "show", plan])
    with pytest.raises(SystemExit, match="dptune statement"):
        main()


def test_show_lists_what_each_study_spent(path):
    assert "study" in invoke("show", path)
    assert "5" in invoke("show", path)


def test_show_says_first_that_a_ledger_is_not_private(path, tmp_path):
    assert "NOT PRIVATE" not in invoke("show", path)
    ledger = dptune.PrivacyLedger(tmp_path / "seeded.db", dptune.Budget.gdp(mu=1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=5, clip=(0.0, 1.0), insecure_seed=1)
    dptune.ValueRun(privatizer, scope="s", trials=1).finish("0", {}, np.zeros(5))
    shown = invoke("show", str(tmp_path / "seeded.db"))
    assert shown.index("NOT PRIVATE") < shown.index("study")


def test_plot_writes_a_figure(path, tmp_path):
    for name in ("figure.png", "figure.pdf"):
        invoke("plot", path, str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 5000


def test_convert_both_ways():
    assert "epsilon = 4.37718" in invoke("convert", "--mu", "1")
    assert "mu = 1 " in invoke("convert", "--epsilon", "4.377178095681228")
    assert CliRunner().invoke(app, ["convert"]).exit_code == 2


def test_an_error_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["dptune", "show", str(tmp_path / "none.db")])
    with pytest.raises(SystemExit, match="there is no ledger"):
        main()


def test_a_figure_of_an_unknown_study_is_refused(path, tmp_path):
    with pytest.raises(dptune.InputError, match="study"):
        save_figure(dptune.PrivacyLedger(path), tmp_path / "f.png", scope="other")


def test_a_seeded_figure_says_so(tmp_path):
    ledger = dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(mu=1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=5, clip=(0.0, 1.0), insecure_seed=1)
    dptune.ValueRun(privatizer, scope="s", trials=1).finish("0", {}, np.zeros(5))
    save_figure(ledger, tmp_path / "f.svg")
    from matplotlib import rcParams

    rcParams["svg.fonttype"] = "none"
    save_figure(ledger, tmp_path / "f.svg")
    text = (tmp_path / "f.svg").read_text()
    assert "NOT PRIVATE" in text
    assert "eps =" not in text


def test_a_study_s_name_is_no_markup(tmp_path):
    ledger = dptune.PrivacyLedger(tmp_path / "odd.db", dptune.Budget.gdp(1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=2, clip=(0.0, 1.0))
    privatizer.observe("x", [0.5, 0.5])
    privatizer.release(privatizer.mean_query("x", 0.1), scope="run [/x] 1", key="1")
    assert "run [/x] 1" in invoke("show", str(tmp_path / "odd.db"))
