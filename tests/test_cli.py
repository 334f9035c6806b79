"""The command line and the figures."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure
from typer.testing import CliRunner

import dptune
from dptune._numbers import rounded_up
from dptune.cli import app, main
from dptune.figures import draw_budget, save_figure, style
from dptune.local import InsecureRandomizer
from dptune.privacy.noise import SeededNoise
from dptune.search import VALUES
from dptune.search.outlook import left_in_words

approx = pytest.approx


def values(privatizer, scope, trials):
    return dptune.SearchRun(VALUES, privatizer, scope=scope, space=None, trials=trials)


@pytest.fixture
def path(tmp_path):
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    run = values(dptune.LossPrivatizer(ledger, n=50, clip=(0.0, 1.0)), "study", 4)
    for trial in range(4):
        run.finish(str(trial), {"x": 0.1 * trial}, np.full(50, 0.5))
    run.estimate({"x": 0.1}, np.full(50, 0.5))
    return str(tmp_path / "ledger.db")


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def one_line(monkeypatch, *arguments):
    """Return the error of a command that must be one line."""
    monkeypatch.setattr("sys.argv", ["dptune", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, str)
    assert len(ended.value.code.splitlines()) == 1
    return ended.value.code


def test_statement_in_three_formats(path):
    assert "epsilon = 4.378 at" in invoke("statement", path)
    assert "replace all records of one unit, with n public" in invoke("statement", path)
    assert invoke("statement", path, "--format", "markdown").startswith("## Privacy statement")
    assert json.loads(invoke("statement", path, "--format", "json", "--delta", "1e-6"))["delta"] == 1e-6


def test_the_statement_of_a_plan(tmp_path, monkeypatch):
    plan = str(tmp_path / "plan.db")
    dptune.ledger.PlanLedger(plan, dptune.ledger.SubsampledGaussianPlan(q=0.35, z=1.0, steps=60), n=29)
    assert "epsilon = 10.39 at delta = 0.0246" in invoke("statement", plan, "--delta", "0.0246242")
    assert "0 of 60 releases of the plan q=0.35, z=1 made" in invoke("show", plan)
    assert json.loads(invoke("show", plan, "--format", "json"))["plan"] == {"q": 0.35, "z": 1.0, "steps": 60}
    assert "PlanLedger" in one_line(monkeypatch, "plot", plan, str(tmp_path / "f.png"))


@pytest.fixture
def users(tmp_path):
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=2.0)
    for key in ("1", "2"):
        ledger.reply(dptune.local.LocalRandomizer(0.75, (-1.0, 3.0)), 0.3, user="ann", key=key)
    ledger.reply(dptune.local.LocalRandomizer(0.5, 1.0), 0.3, user="bob [/x]", key="1")
    return str(tmp_path / "users.db")


def test_a_ledger_of_users_has_a_local_statement(users, monkeypatch, tmp_path):
    text = invoke("statement", users)
    assert text.startswith("Local privacy statement")
    assert "at most epsilon = 1.5 (delta = 0) by any one user, in 3 replies of 2 users" in text
    assert "ann" not in text
    assert json.loads(invoke("statement", users, "--format", "json"))["cap"] == {"epsilon": 2.0}
    assert invoke("statement", users, "--format", "markdown").startswith("## Local privacy statement")
    assert "bob [/x]" in invoke("show", users)
    ann = {"user": "ann", "replies": 2, "epsilon": 1.5, "private": True}
    assert json.loads(invoke("show", users, "--format", "json"))["users"][0] == ann
    assert "UserLedger" in one_line(monkeypatch, "plot", users, str(tmp_path / "f.png"))


def test_show_rounds_up_and_says_what_each_study_spent(path, tmp_path):
    shown = json.loads(invoke("show", path, "--format", "json"))
    assert shown["private"] is True
    assert shown["spent"] == {"mu": approx(1.0), "eta": 0.0, "pure_epsilon": 0.0, "mu_in_gdp": approx(1.0)}
    assert shown["studies"] == [{"study": "study", "releases": 5, "mu_in_gdp": approx(1.0), "private": True}]
    assert "NOT PRIVATE" not in invoke("show", path)
    dptune.local.UserLedger(tmp_path / "users.db", cap=1.0000012)
    assert "a cap of epsilon = 1.00001 for" in invoke("show", str(tmp_path / "users.db"))
    dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(mu=0.71723))
    assert "mu 0 of 0.7173 spent" in invoke("show", str(tmp_path / "l.db"))


def choice_in(folder):
    """A choice on public rows that spends all of epsilon = 2, and its selection."""
    rng = np.random.default_rng(0)
    public, private = (np.abs(rng.normal(0.5 + 0.1 * np.arange(4)[:, None], 0.1, (4, n))) for n in (60, 200))
    ledger = dptune.PrivacyLedger(folder / "choice.db", dptune.Budget.approximate_dp(2, 1e-5))
    privatizer = dptune.LossPrivatizer(ledger, n=200)
    return ledger, dptune.select(private, privatizer, name="svc", public=public, default=3)


def test_the_limits_of_a_pair_are_open_until_the_first_charge_and_none_is_shown_as_overspent(tmp_path):
    path = str(tmp_path / "choice.db")
    dptune.PrivacyLedger(path, dptune.Budget.approximate_dp(2, 1e-5))
    budget = json.loads(invoke("show", path, "--format", "json"))["budget"]
    assert [budget[name] for name in ("epsilon", "mu", "eta", "pure_epsilon")] == [2.0, None, None, None]
    assert json.loads(invoke("statement", path, "--format", "json"))["delta"] == 1e-5  # the stated one, unless given
    assert "epsilon = 2 at delta = 1e-05" in invoke("statement", path, "--delta", "1e-3")
    ledger, _ = choice_in(tmp_path)
    shown = json.loads(invoke("show", path, "--format", "json"))
    budget, spent = shown["budget"], shown["spent"]
    pair = {"epsilon": 2.0, "delta": 1e-5, "mu": 0.0, "eta": 0.0, "pure_epsilon": 2.0}
    assert budget == {**pair, "mu_in_gdp": ledger.mu}
    for name, most in spent.items():
        assert budget[name] * (1 - 1e-6) <= most <= budget[name] * (1 + 1e-12)
    gdp = rounded_up(ledger.mu)
    assert f"epsilon 2 at delta 1e-05; in GDP mu {gdp} of {gdp} spent" in invoke("show", path)
    assert left_in_words(ledger) == "Budget left: 0 of epsilon = 2 (delta = 1e-05)."
    axes = Figure().subplots()
    draw_budget(axes, ledger.charges("svc"), ledger, 1e-5)
    assert axes.lines[1].get_label() == f"budget: mu = {gdp} (eps = 2 at delta = 1e-05)"
    assert axes.lines[1].get_ydata()[0] == ledger.mu


def test_releases_are_listed_with_what_a_record_needs(tmp_path):
    ledger, found = choice_in(tmp_path)
    shown = json.loads(invoke("show", str(tmp_path / "choice.db"), "--releases", "--format", "json"))
    index, improvement = shown["releases"]
    plan, gain = ledger.fact("svc", "plan"), found.improvement
    assert shown["people"] == 200
    sensitivity = 2 * plan["radius"] / 200
    for name, value in {
        **{"study": "svc", "release": "index", "candidate": found.index, "mu": None, "intervals": None},
        **{"cut": plan["radius"], "epsilon": approx((1 - plan["share"]) * 2.0), "sensitivity": approx(sensitivity)},
        **{"sigma": approx(2 * sensitivity / index["epsilon"], rel=1e-5)},
    }.items():
        assert index[name] == value, name
    half = math.log(20) * gain.sigma / math.sqrt(2)  # Laplace noise
    low, high = gain.interval()
    assert [low, high] == approx([gain.value - half, gain.value + half], rel=1e-6)
    for name, value in {
        **{"release": "improvement", "candidate": None, "eta": None, "value": [gain.value], "sigma": gain.sigma},
        **{"cut": plan["estimate_radius"], "mu": ledger.charges("svc")[1].mu, "intervals": [[low, high]]},
        **{"epsilon": approx(plan["share"] * 2.0)},
    }.items():
        assert improvement[name] == value, name
    text = invoke("show", str(tmp_path / "choice.db"), "--releases")
    assert f"{low:.4g} to {high:.4g}" in text
    assert "None" not in text


def test_releases_without_a_choice_are_listed(path, users, monkeypatch):
    shown = json.loads(invoke("show", path, "--releases", "--format", "json"))["releases"]
    charges = dptune.PrivacyLedger(path).charges()
    assert [(row["value"], row["mu"]) for row in shown] == [(list(charge.value), charge.mu) for charge in charges]
    assert {(row["cut"], row["candidate"], row["eta"]) for row in shown} == {(None, None, None)}
    assert "--releases" in one_line(monkeypatch, "show", users, "--releases")


def test_names_are_no_markup_and_are_not_cut(path):
    privatizer = dptune.LossPrivatizer(dptune.PrivacyLedger(path), n=50, clip=(0.0, 1.0))
    privatizer.ledger.raise_budget(dptune.Budget.gdp(2.0))
    privatizer.observe("x", [0.5] * 50)
    names = ("run [/x] 1", ":smile:", "a\\", "[bold]b", "long" * 60)
    for name in names:
        privatizer.release(privatizer.mean_query("x", 0.1), scope=name, key="1")
    shown = invoke("show", path)
    assert [name for name in names if f" {name} " not in shown] == []


def test_seeded_noise_is_named_first_in_lists_and_in_figures(users, tmp_path, monkeypatch):
    dptune.local.UserLedger(users).reply(InsecureRandomizer(0.1, 1.0, insecure_seed=1), 0.3, user="carl", key="1")
    assert invoke("show", users).startswith("NOT PRIVATE (seeded noise): local privacy")
    ledger = dptune.PrivacyLedger(tmp_path / "l.db", dptune.Budget.gdp(mu=1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=5, clip=(0.0, 1.0), noise=SeededNoise(1))
    values(privatizer, "s", 1).finish("0", {}, np.zeros(5))
    assert invoke("show", str(tmp_path / "l.db")).startswith("NOT PRIVATE (seeded noise)")
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")
    text = save_figure(ledger, tmp_path / "f.svg").read_text()
    assert "NOT PRIVATE" in text
    assert "eps =" not in text


def test_an_error_is_one_line(path, tmp_path, monkeypatch):
    assert "there is no ledger" in one_line(monkeypatch, "show", str(tmp_path / "none.db"))
    for name in ("x.xyz", "x", "x.p n g"):
        assert ".pdf, " in one_line(monkeypatch, "plot", path, str(tmp_path / name))
    assert "cannot be written" in one_line(monkeypatch, "plot", path, str(tmp_path / "none" / "x.png"))
    assert "study" in one_line(monkeypatch, "plot", path, str(tmp_path / "f.png"), "--study", "other")
    with contextlib.closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        connection.execute("CREATE TABLE trials (number INTEGER)")
    assert "what lies there holds none" in one_line(monkeypatch, "show", str(tmp_path / "study.db"))


def test_convert_both_ways():
    assert invoke("--version") == f"dptune {dptune.__version__}\n"
    assert "epsilon = 4.37718" in invoke("convert", "--mu", "1")
    assert "mu = 1 " in invoke("convert", "--epsilon", "4.377178095681228")
    assert CliRunner().invoke(app, ["convert"]).exit_code == 2
    assert "epsilon = 3.31262" in invoke("convert", "--mu", "1", "--choice-share", "0.665")
    assert "bounded range 1.006, fixed" in invoke("convert", "--epsilon", "1", "--choice-share", "1")


def test_figures_are_drawn_on_white_and_on_dark_paper_and_read_without_colour(tmp_path):
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=50, clip=(0.0, 1.0))
    privatizer.observe("0", np.linspace(0.0, 1.0, 50))
    privatizer.release(privatizer.mean_query("0", mu=0.5), scope="svm", key="value/0")
    assert invoke("plot", str(tmp_path / "ledger.db"), str(tmp_path / "white.svg")).endswith("white.svg\n")
    invoke("plot", str(tmp_path / "ledger.db"), str(tmp_path / "dark.svg"), "--dark")
    drawn = [(tmp_path / name).read_text() for name in ("white.svg", "dark.svg")]
    assert ["#1e2129" in text for text in drawn] == [False, True]
    lines = list(style()["axes.prop_cycle"])
    assert len({str(line["linestyle"]) for line in lines}) == len({line["color"] for line in lines}) == len(lines)
