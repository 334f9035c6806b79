"""Each option of each command has two values and two outcomes; an option without a row in the table fails."""

import functools
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import typer
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import dptune
from cli_tools import AUDIT
from dptune.cli import app
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.local import LocalRandomizer, UserLedger
from dptune.search import VALUES

ABOUT = """
name = "{}"
curator = "a hospital"
curator_type = "Nonprofit"
description = "a model"
intended_use = "triage"
region = "Norway"
sector = "Healthcare"
publication_date = 2026-01-01
authors = ["A"]
preparation = "cut to a public range"
justification = "small"
"""
REPORT = "--n 650 --report --prevalence .1"
PLAN, DRAW = "--n 300 --loss hinge", "ledger.db a.svg --study one"
OWN_FORMAT = ("--format", "--registry", "--verify")
COMMANDS = {  # command -> option -> arguments with two values of it; a line stands for more words
    "": {"--version": ("--version", "--help")},
    "audit": {"file": ("audit.py", "other.py")},
    "convert": {
        "--mu": ("--mu 1", "--mu 2"),
        "--epsilon": ("--epsilon 1", "--epsilon 2"),
        "--delta": ("--mu 1 --delta 1e-5", "--mu 1 --delta 1e-6"),
        "--dp-sgd": ("--dp-sgd 1 .01 10", "--dp-sgd 1 .01 20"),
        "--choice-share": ("--mu 1 --choice-share .1", "--mu 1 --choice-share .2"),
    },
    "plan": {
        "--n": (PLAN, "--n 400 --loss hinge"),
        "--clip": ("--n 300 --clip 0 3", "--n 300 --clip 0 2"),
        "--loss": (PLAN, "--n 300 --loss log_loss"),
        "--mu": (f"{PLAN} --mu 1", f"{PLAN} --mu 2"),
        "--epsilon": (f"{PLAN} --epsilon 1", f"{PLAN} --epsilon 2"),
        "--delta": (f"{PLAN} --epsilon 4 --delta 1e-5", f"{PLAN} --epsilon 4 --delta 1e-6"),
        "--trials": (f"{PLAN} --trials 20", f"{PLAN} --trials 40"),
        "--dimensions": (f"{PLAN} --dimensions 2", f"{PLAN} --dimensions 3"),
        "--default": (PLAN, f"{PLAN} --default"),
        "--report": (PLAN, REPORT),
        "--prevalence": (REPORT, f"{REPORT}2"),
        "--groups": (REPORT, f"{REPORT} --groups 2"),
        "--auc": (REPORT, f"{REPORT} --auc .7"),
        "--format": (PLAN, f"{PLAN} --format json"),
    },
    "certificate": {
        "ledger": ("ledger.db", "other.db"),
        "--delta": ("ledger.db --delta 1e-5", "ledger.db --delta 1e-6"),
        "--format": ("ledger.db", "ledger.db --format json"),
        "--values": ("ledger.db", "ledger.db --values"),
        "--verify": ("ledger.db --verify paper.json", "ledger.db --verify other.json"),
        "--registry": ("ledger.db --registry about.toml", "ledger.db --registry other.toml"),
    },
    "statement": {
        "ledgers": ("ledger.db", "ledger.db other.db"),
        "--delta": ("ledger.db --delta 1e-5", "ledger.db --delta 1e-6"),
        "--format": ("ledger.db --format markdown", "ledger.db --format json"),
        "--disjoint": ("ledger.db other.db", "ledger.db other.db --disjoint"),
    },
    "show": {
        "ledger": ("users.db", "plan.db"),
        "--format": ("ledger.db", "ledger.db --format json"),
        "--releases": ("ledger.db", "ledger.db --releases"),
    },
    "compare": {
        "ledgers": ("choice.db", "choice.db other_choice.db"),
        "--format": ("choice.db", "choice.db --format json"),
    },
    "raise-budget": {
        "ledger": ("ledger.db --mu 5", "other.db --mu 5"),
        "--mu": ("ledger.db --mu 5", "ledger.db --mu 6"),
        "--epsilon": ("ledger.db --epsilon 50", "ledger.db --epsilon 60"),
        "--delta": ("ledger.db --epsilon 50 --delta 1e-5", "ledger.db --epsilon 50 --delta 1e-6"),
    },
    "plot": {
        "ledger": (DRAW, "other.db a.svg --study one"),
        "out": (DRAW, "ledger.db b.svg --study one"),
        "--study": (DRAW, "ledger.db a.svg --study two"),
        "--delta": (f"{DRAW} --delta 1e-5", f"{DRAW} --delta 1e-6"),
        "--dark": (DRAW, f"{DRAW} --dark"),
    },
    "report": {
        "ledger": ("ledger.db --name first", "other.db"),
        "--name": ("ledger.db --name first", "ledger.db --name second"),
        "--format": ("other.db --format markdown", "other.db --format json"),
        "--out": ("other.db --out a.svg", "other.db --out b.svg"),
        "--dark": ("other.db --out a.svg", "other.db --out a.svg --dark"),
    },
}


def charged(name: str, mu: float, reports: tuple[str, ...], studies: tuple[str, ...]) -> None:
    rng = np.random.default_rng(len(reports))
    X = rng.normal(size=(160, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=160) > 0).astype(int)
    public, data = (X[:80].copy(), y[:80].copy()), (X[80:].copy(), y[80:].copy())
    ledger = dptune.PrivacyLedger(name, dptune.Budget.gdp(mu), dataset=name)
    privatizer = dptune.LossPrivatizer(ledger, n=80, clip=(0, 1))
    for study in studies:
        run = dptune.SearchRun(VALUES, privatizer, scope=study, space=None, trials=2, mu=0.2)
        for trial in range(2):
            run.finish(str(trial), {"C": trial}, np.full(80, 0.2 + 0.3 * trial))
    for report in reports:
        dptune.report(LogisticRegression().fit(*public), privatizer, data=data, public=public, mu=0.3, name=report)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ledgers of each kind, papers and files."""
    folder = tmp_path_factory.mktemp("ledgers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        charged("ledger.db", 1.0, ("first", "second"), ("one", "two"))
        charged("other.db", 2.0, ("first",), ("one",))
        for name, mu in (("choice", 1.0), ("other_choice", 2.0)):
            people = dptune.LossPrivatizer(dptune.PrivacyLedger(f"{name}.db", dptune.Budget.gdp(mu)), n=60)
            losses = np.random.default_rng(0).uniform(size=(3, 100))
            dptune.select(losses[:, 40:], people, name="svc", public_losses=losses[:, :40])
        UserLedger("users.db", cap=2.0).reply(LocalRandomizer(0.75, (-1.0, 3.0)), 0.3, user="ann", key="1")
        PlanLedger("plan.db", SubsampledGaussian(q=0.35, z=1.0, steps=60), n=29)
        for name, ledger in (("paper", "ledger"), ("other", "other")):
            Path(f"{name}.json").write_text(run(f"certificate {ledger}.db --format json")[1])
        for name, loss in (("audit", "abs(X[:, 0]) - y"), ("other", "X[:, 0].mean() - y")):
            Path(f"{name}.py").write_text(AUDIT.format(loss))
        for name in ("about", "other"):
            Path(f"{name}.toml").write_text(ABOUT.format(name))
    return folder


def run(command: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, command.split(), env={"COLUMNS": "140"})
    assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
    return done.exit_code, done.output


@pytest.fixture
def outcome(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function: a command -> all that it prints, draws and stores, beginning with the same ledgers."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    monkeypatch.setitem(mpl.rcParams, "svg.hashsalt", "")

    @functools.cache
    def of(command: str, again: bool = False) -> tuple[object, ...]:
        folder = tmp_path / "work"
        shutil.copytree(filled, folder)
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            code, said = run(command)
            drawn = {path.name: path.read_text() for path in folder.glob("*.svg")}
            budget = dptune.PrivacyLedger("ledger.db").budget
        shutil.rmtree(folder)
        return code, re.sub(r"\d{4}-\d\d-\d\d|(?<=proves mu >= )[\d.]+", "", said), drawn, budget  # days, draws

    return of


def test_each_option_has_a_row() -> None:
    group: Any = typer.main.get_command(app)
    known = {
        name: {each.opts[0] if each.param_type_name == "option" else each.name for each in command.params}
        for name, command in (("", group), *group.commands.items())
    }
    known[""] -= {"--install-completion", "--show-completion"}  # Typer's
    assert {name: set(rows) for name, rows in COMMANDS.items()} == known


@pytest.mark.parametrize("command", list(COMMANDS))
def test_two_values_of_an_option_have_two_outcomes(outcome: Any, command: str) -> None:
    for option, (one, other) in COMMANDS[command].items():
        first, second = (outcome(f"{command} {each}") for each in (one, other))
        assert first != second, option
        if "--format" in COMMANDS[command] and option not in OWN_FORMAT:  # not the title alone
            assert outcome(f"{command} {one} --format json") != outcome(f"{command} {other} --format json"), option
        if option == next(iter(COMMANDS[command])):
            assert first == outcome(f"{command} {one}", again=True)  # nothing but the option differs
        allowed = {0, 1} if option in ("file", "--verify") else {0}
        assert {first[0], second[0]} <= allowed, (option, first[1], second[1])
