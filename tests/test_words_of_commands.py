"""Each line that a command prints is the documented one, and so are its defaults and its refusals."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dptune
from cli_tools import invoke
from dptune._numbers import finite, rounded_up
from dptune.choice.outlook import choice_forecast
from dptune.cli import app, main
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.local import LocalRandomizer, UserLedger
from dptune.search import VALUES
from dptune.search.outlook import forecast
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from dptune.training.profiles import epsilon_of
from report_tools import report

pytestmark = pytest.mark.usefixtures("own_folder")
NO_BRIDGE = (
    "The (epsilon, delta) of a DP-SGD training is not a mu, as its epsilon at smaller deltas is larger than that of "
    "the mu through one: plan it in a TrainingLedger, and join ledgers with `dptune statement train.db val.db`."
)
OF_TUNING = f"This mu is a budget for tuning, which promises that epsilon. {NO_BRIDGE}"
PARTS = "Gaussian releases of mu = {} and a choice of bounded range {}, fixed in advance: epsilon = {}"


def test_a_conversion_prints_what_it_is_about() -> None:
    """The numbers are read back elsewhere; here they are those of a run whose lines were read."""
    trained = rounded_up(epsilon_of([TrainingPlan(1.0, 0.01, 100)], 1e-6), 6)
    said = {
        "--mu 2 --choice-share 0.3": [
            "mu = 2  epsilon = 9.99726  delta = 1e-05",
            f"A plan of mu = 2, {PARTS.format(1.674, 1.772, 9.17124)}",
        ],
        "--epsilon 3": ["mu = 0.719117  epsilon = 3  delta = 1e-05", OF_TUNING],
        "--epsilon 3 --choice-share 0.4": [
            "mu = 0.719117  epsilon = 3  delta = 1e-05",
            OF_TUNING,
            f"A plan of mu = 0.793322, {PARTS.format(0.6146, 0.803, 3)}",
        ],
        "--dp-sgd 1 .01 100 --delta 1e-6": [
            f"epsilon = {trained}  delta = 1e-06",
            "Neighbours: add or remove one training row; rows are sampled at random in each step. Against replacing a "
            "row the training costs more.",
            NO_BRIDGE,
        ],
    }
    for options, lines in said.items():
        assert invoke("convert", *options.split()).splitlines() == lines
    assert (finite(2.5), finite(float("inf"))) == (2.5, "infinity")
    assert invoke("--version") == f"dptune {dptune.__version__}\n"


def rows_of(printed: str) -> list[list[str]]:
    """The cells of a printed table, its head first."""
    return [[c.strip() for c in re.split("[│┃]", line)[1:-1]] for line in printed.splitlines() if line[:1] in "│┃"]


def test_a_plan_has_its_title_its_rows_and_its_defaults() -> None:
    options = "plan --n 300 --clip 1 3 --mu 0.5 --trials 30 --dimensions 2 --default"
    printed = invoke(*options.split())
    assert printed.splitlines()[:2] == [
        "300 people, clip 1 to 3; private searches: 30 trials, with default=",
        "sigma: standard deviation of the noise. shows: an improvement that shows in 95% of runs.",
    ]
    rows = forecast(300, (1.0, 3.0), 2, mu=0.5, trials=30, default=True)
    chosen = [{"budget": f"mu={mu:g}", **choice_forecast(300, 2.0, dptune.Budget.gdp(mu))} for mu in (0.25, 0.5, 1.0)]
    here = [row for row in rows if row["mu"] == 0.5 and (row["method"] != "values" or 15 < row["trials"] <= 30)]
    head = ["method", "budget", "trials", "sigma", "shows", "warning"]
    wanted = [
        [row["method"], row.get("budget", "mu=0.5"), str(row["trials"]), rounded_up(row["sigma"]),
         "" if row["shows"] is None else rounded_up(row["shows"]), "too noisy" if row["warning"] else ""]
        for row in [*chosen, *here]
    ]  # fmt: skip
    assert rows_of(printed) == [head, *wanted]
    warned = [row for row in rows if row["warning"] and row["mu"] == 0.5 and 15 < row["trials"] <= 30]
    assert warned
    assert printed.splitlines()[-len(warned) :] == [f"{row['method']}: {row['warning']}" for row in warned]
    assert json.loads(invoke(*options.split(), "--format", "json")) == [*chosen, *rows]
    few = invoke(*["plan", "--n", "2", "--clip", "0", "3"])
    assert "one private choice on public rows: no improvement shows. Plan more people, or a larger budget." in few
    assert {row[5] for row in rows_of(few)[1:]} == {"too noisy"}
    usual = ("plan", "--n", "90", "--clip", "0", "3")
    assert invoke(*usual) == invoke(*usual, "--mu", "1", "--dimensions", "3", "--trials", "80")
    for loss, high in {"log_loss": 4, "hinge": 3, "brier": 2, "zero_one": 1}.items():
        title = f"90 people, clip 0 to {high}; private searches: 80 trials, without default="
        assert invoke("plan", "--n", "90", "--loss", loss).splitlines()[0] == title
    titles = {
        "--mu 0.18": "A report of 650 people, 0.09 of them positive, at mu = 0.18, if the AUC is 0.8.",
        "--auc 0.7 --groups 1": "A report of 650 people, 0.09 of them positive, at mu = 1, if the AUC is 0.7.",
    }
    for options, title in titles.items():
        printed = invoke(*f"plan --n 650 --report --prevalence .09 {options}".split())
        assert printed.splitlines()[:2] == [
            title, "Half-widths of 95% intervals; hidden: the noise probably hides the metric.",
        ]  # fmt: skip
        assert rows_of(printed)[0] == ["metric", "noise", "noise and sampling"]
        assert {row[0] for row in rows_of(printed) if "hidden" in row} == {"precision_score"}


def filled() -> dptune.PrivacyLedger:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(2.0), dataset="people")
    people = dptune.LossPrivatizer(ledger, n=50, clip=(0.0, 1.0))
    for scope, trials in (("b", 3), ("a", 2)):
        run = dptune.SearchRun(VALUES, people, scope=scope, space=None, trials=trials, mu=0.5)
        for trial in range(trials):
            run.finish(str(trial), {"x": trial}, np.full(50, 0.5))
    UserLedger("users.db", cap=2.0).reply(LocalRandomizer(0.75, 1.0), 0.3, user="ann", key="1")
    return ledger


def test_a_list_has_the_title_and_the_rows_of_its_kind() -> None:
    ledger = filled()
    spent, left = ledger.spent(), ledger.remaining()
    PlanLedger("plan.db", SubsampledGaussian(q=0.35, z=1.5, steps=60), n=29, dataset="wards")
    training = TrainingPlan(8.0, 0.5, steps=5)
    TrainingLedger("train.db", TrainingPlan(1.0, 0.01, steps=10, trainings=3), n=50).begin(secure=False)
    TrainingLedger("best.db", SelectionPlan(Repeats.geometric(7), training, 0.3), n=50)
    of_all = f"mu {rounded_up(spent)} of 2 spent, {int(left * 1e3) / 1e3:g} left (squares add up)"
    best = "the best of a geometric number of repeats of mean 7; one training of 5 steps, noise multiplier 8"
    titles = {
        "ledger": f"people: {of_all}",
        "users": "local privacy: a cap of epsilon = 2 for the only user",
        "plan": "wards: 0 of 60 releases of the plan q=0.35, z=1.5 made",
        "train": "training data: 1 of 3 made: 3 trainings of 10 steps, noise multiplier 1, sampling rate 0.01 each",
        "best": f"training data: 0 of 1 made: {best}, sampling rate 0.5; a score of mu = 0.3 each",
    }
    keys = {
        "ledger": ["dataset", "private", "budget", "spent", "studies"],
        "users": ["private", "cap", "users"],
        "plan": ["dataset", "private", "plan", "made", "releases"],
        "train": ["dataset", "private", "plan", "made", "charges"],
        "best": ["dataset", "private", "plan", "made", "charges"],
    }
    for kind, title in titles.items():
        assert invoke("show", f"{kind}.db").splitlines()[0].removeprefix("NOT PRIVATE (seeded noise): ") == title
        assert list(json.loads(invoke("show", f"{kind}.db", "--format", "json"))) == keys[kind]
    table = rows_of(invoke("show", "ledger.db"))
    assert table[0] == ["study", "releases", "mu_in_gdp", "private"]
    assert [row[:2] + row[3:] for row in table[1:]] == [["a", "2", "yes"], ["b", "3", "yes"]]
    for row, scope in zip(table[1:], ("a", "b"), strict=True):
        assert row[2] == rounded_up(float(np.sqrt(sum(charge.mu**2 for charge in ledger.charges(scope)))))
    assert invoke("raise-budget", "ledger.db", "--mu", "3").startswith("the budget of 'people' in all: mu ")


OF_USERS = "this ledger belongs to users' own devices: it has no"
STATES = "the page states its guarantee and its risk in words."
NO_EPSILON = (
    "no finite epsilon is known at delta = {}. The accountant of plans counts in delta what it cuts off and rounds: "
    "1.5e-15, and 2e-16 for each step. Give a larger delta: 1e-14 has one."
)
REFUSED: dict[str, str] = {
    "plan --n 9": "give one of --clip low high and --loss NAME.",
    "plan --n 9 --clip 0 1 --loss hinge": "give one of --clip low high and --loss NAME.",
    "plan --n 9 --loss r2": (
        "--loss must be one of log_loss, hinge, brier, zero_one; got 'r2'. For others give --clip low high."
    ),
    "plan --n 9 --mu 1 --epsilon 2 --loss hinge": "give one of --mu and --epsilon.",
    "plan --n 9 --report": "a report needs --prevalence, the expected share of the positive label, such as 0.09.",
    "plan --n 9 --report --prevalence .3 --clip 0 1 --trials 3": (
        "--clip and --trials would do nothing with --report. Leave out --clip and --trials."
    ),
    "plan --n 9 --loss hinge --auc .7": "--auc would do nothing without --report. Leave out --auc.",
    "plan --n 9 --loss hinge --delta 1e-6": "--delta would do nothing without --epsilon. Leave out --delta.",
    "convert --dp-sgd 1 .01 9 --choice-share .1": (
        "--choice-share would do nothing with --dp-sgd. Leave out --choice-share."
    ),
    "report ledger.db --dark": "--dark would do nothing without --out. Leave out --dark.",
    "report ledger.db": "the ledger has no report: release one with dptune.report, or report() of a search.",
    "certificate ledger.db --verify a.json --registry b.toml": (
        "--registry would do nothing with --verify. Leave out --registry."
    ),
    "certificate ledger.db --registry b.toml --values": (
        "--values would do nothing with --registry. Leave out --values."
    ),
    "certificate users.db --values": f"{OF_USERS} values to show. Leave out --values: {STATES}",
    "certificate users.db --registry b.toml": f"{OF_USERS} registry record. Leave out --registry: {STATES}",
    "certificate train.db --values": (
        "a ledger of trainings stores no values: a training returns its model. Leave out --values."
    ),
    "certificate train.db --delta 1e-30 --registry b.toml": NO_EPSILON.format("1e-30"),
    "statement train.db --delta 1e-15": NO_EPSILON.format("1e-15"),
    "convert --dp-sgd 1 .01 10 --delta 1e-15": NO_EPSILON.format("1e-15"),
    "compare ledger.db ./ledger.db": (
        "give each ledger once (a copy of a ledger, or another path to it, is the same ledger): its choices are about "
        "the same people."
    ),
    "statement users.db --delta 1e-5": (
        "--delta would do nothing for users' own devices: their epsilon is pure. Leave out --delta."
    ),
    "show users.db --releases": (
        "--releases lists those of a PrivacyLedger; this ledger has another kind. Leave it out."
    ),
    "audit my.py": "my.py must set audit = dptune.audit.Audit(losses, X, y, clip=...).",
    **{
        f"audit {file}": f"{file} {why}. Give a script that sets audit = dptune.audit.Audit(losses, X, y, clip=...)."
        for file, why in {
            "ledger.db": "is not a Python file (.py)",
            "folder": "is not a Python file (.py)",
            "missing.py": "does not exist",
        }.items()
    },
    "show none.db": "no ledger exists at /",
    "certificate my.py --verify ledger.db": (
        "ledger.db is a ledger: give `dptune certificate ledger.db --verify paper.json`."
    ),
    "certificate users.db --delta 1e-6": (
        "--delta would do nothing for users' own devices: their epsilon is pure. Leave out --delta."
    ),
    "report report.db --out a.xyz": "a.xyz must end in one of",
    "report report.db --out none/a.png": "cannot write none/a.png: No such file or directory.",
    "plan --n 0 --clip 0 3": "n must be a whole number >= 1; got 0.",
    "plan --n 400 --loss hinge --mu 1e9": "--mu must lie in [2e-09, 5e+08]; got 1000000000.0.",
    "plan --n 400 --loss hinge --mu 1e-9": "--mu must lie in [2e-09, 5e+08]; got 1e-09.",
    "convert --mu 1 --choice-share 1.5": "--choice-share must lie in [0, 1]; got 1.5.",
    "convert --epsilon 4 --choice-share -0.1": "--choice-share must lie in [0, 1]; got -0.1.",
    "convert --mu 1 --choice-share nan": "--choice-share must lie in [0, 1]; got nan.",
    "convert --epsilon 0": "epsilon must be a number, positive and finite; got 0.0.",
    "convert --dp-sgd 1 1.5 10": "the sampling rate (q, or sample_rate) must lie in (0, 1]; got 1.5.",
}
IDLE = {  # command -> its options that would do nothing
    "plan --n 9 --report --prevalence .5": [
        "--clip 0 3", "--loss hinge", "--trials 5", "--dimensions 2", "--default", "--delta 1e-6",
    ],
    "plan --n 9 --loss hinge": ["--prevalence .5", "--groups 1", "--auc .7", "--delta 1e-6"],
    "certificate ledger.db --verify paper.json": [
        "--delta 1e-6", "--format json", "--values", "--registry about.toml",
    ],
    "certificate ledger.db --registry about.toml": ["--format json", "--values"],
    "raise-budget ledger.db --mu 5": ["--delta 1e-6"],
}  # fmt: skip
USAGE: dict[str, str] = {
    "convert": f"give one of --mu, --epsilon and --dp-sgd. {NO_BRIDGE}",
    "convert --mu 1 --epsilon 1": f"give one of --mu, --epsilon and --dp-sgd. {NO_BRIDGE}",
    "raise-budget ledger.db": "give one of --mu and --epsilon.",
    "raise-budget ledger.db --mu 3 --epsilon 3": "give one of --mu and --epsilon.",
    "statement ledger.db users.db": "a ledger of users' own devices has a statement of its own; leave it out.",
}


def test_a_refused_command_says_in_full_what_to_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, before it prints anything."""
    filled()
    TrainingLedger("train.db", TrainingPlan(1.0, 0.01, steps=10), n=50).begin(secure=True)
    report(dptune.LossPrivatizer(dptune.PrivacyLedger("report.db", dptune.Budget.gdp(1.0)), n=400, clip=(0, 1)))
    Path("my.py").write_text("audit = 3\n")
    Path("folder").mkdir()
    idle = {f"{command} {each}": f"{each.split()[0]} would do nothing" for command in IDLE for each in IDLE[command]}
    capsys.readouterr()
    for command, message in {**REFUSED, **idle}.items():
        monkeypatch.setattr(sys, "argv", ["dptune", *command.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        (line,) = str(ended.value.code).splitlines()
        assert (line if message.endswith(".") else line[: len(message) + 8]) == f"dptune: {message}", command
        assert capsys.readouterr().out == "", command
    for command, message in USAGE.items():
        done = CliRunner().invoke(app, command.split(), env={"COLUMNS": "140"})
        assert done.exit_code == 2
        assert message in " ".join(done.output.replace("│", " ").split()), command


def test_a_paper_is_compared_in_words() -> None:
    ledger = filled()
    paper = invoke("certificate", "ledger.db", "--format", "json")
    Path("paper.json").write_text(paper)

    def verify() -> tuple[int, list[str]]:
        done = CliRunner().invoke(app, ["certificate", "--verify", "paper.json", "ledger.db"])
        return done.exit_code, done.output.splitlines()

    rows = json.loads(paper)["ledger"]["seq"]
    named: Any = f"the ledger {ledger.identity}"
    assert verify() == (0, [f"paper.json matches {named}: each line, and all of its {rows} rows."])
    people = dptune.LossPrivatizer(ledger, n=50, clip=(0.0, 1.0))
    people.observe("x", [0.5] * 50)
    people.release(people.mean_query("x", 0.1), scope="c", key="1")
    code, (first, question, last) = verify()
    assert (code, first) == (
        0, f"paper.json matches the first {rows} rows of {named}. It was charged since then:",
    )  # fmt: skip
    assert re.fullmatch(r"  c: .* \(1\)", question)
    assert last == "The certificate covers these only in its budget. Print and sign a new one."
    Path("paper.json").write_text(paper.replace('"delta": 1e-05', '"delta": 1e-04'))
    code, lines = verify()
    assert (code, lines[0]) == (1, f"paper.json does NOT match {named}:")
    assert len(lines) > 1
    assert all(line.startswith("  ") for line in lines[1:])
