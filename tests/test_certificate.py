"""A certificate fits on a page, states what its ledger holds, and is compared with it later."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dptune
from cli_tools import invoke
from dptune.cli import app, main
from dptune.ledger import PlanLedger, Risk, SubsampledGaussian
from dptune.ledger.certificate import certificate, page
from dptune.ledger.events import SelectionRelease, SubsampledGaussianRelease
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.local import LocalRandomizer, UserLedger
from dptune.privacy.noise import SeededNoise
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from ledger_tools import gaussian

pytestmark = pytest.mark.usefixtures("own_folder")
LEDGER = "ledger.db"


def release(*trials: int, study: str = "svm", ledger: str = LEDGER, **options: Any) -> dptune.PrivacyLedger:
    held = dptune.PrivacyLedger(ledger, dptune.Budget.approximate_dp(3.0, 1e-6), dataset="wards", unit="one patient")
    privatizer = dptune.LossPrivatizer(held, n=50, clip=(0.0, 1.0), **options)
    for trial in trials:
        privatizer.observe(f"{study}{trial}", np.full(50, 0.25))
        privatizer.release(privatizer.mean_query(f"{study}{trial}", mu=0.1), scope=study, key=f"value/{trial}")
    return held


def users() -> UserLedger:
    ledger = UserLedger(LEDGER, cap=2.0)
    for user in ("ann", "bob"):
        ledger.reply(LocalRandomizer(0.75, (-1.0, 3.0)), 0.3, user=user, key="1")
    return ledger


def trained() -> TrainingLedger:
    ledger = TrainingLedger(LEDGER, TrainingPlan(2.0, 0.1, 20, trainings=3), n=900, unit="one ward")
    ledger.begin(secure=False)
    return ledger


def federation() -> PlanLedger:
    return PlanLedger(LEDGER, SubsampledGaussian(q=0.35, z=1.0, steps=60), n=29, unit="one hospital")


KINDS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "budget": (lambda: release(0, 1), "one patient in 'wards', n = 50", "svm: mean clipped loss of one evaluated"),
    "users": (users, "one user and all their replies", "interval [-1, 3], epsilon = 0.75 a reply (2 releases)"),
    "trainings": (trained, "one ward in 'training data', n = 900", "trainings: DP-SGD: "),
    "rounds": (federation, 'one hospital in "agents\' observations", n = 29', "nothing so far"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_each_kind_of_ledger_says_what_a_signer_asks(kind: str) -> None:
    make, protects, question = KINDS[kind]
    ledger = make()
    stated = ledger.statement() if kind == "users" else ledger.statement(delta=1e-6)
    printed = invoke("certificate", LEDGER, *(() if kind == "users" else ("--delta", "1e-6")))
    paper, annex = printed.split("Annex for the accountant")
    assert len(paper.splitlines()) <= 60
    assert max(map(len, printed.splitlines())) <= 98
    words = " ".join(paper.split())
    mark = ledger.mark()
    said = (f"Ledger {mark['ledger']}", f"Last row {mark['seq']}", str(mark["hash"]), protects, question, "Signed")
    for each in (*said, stated.adjacency, stated.trust_model, str(Risk.of_statement(stated)), *stated.not_covered):
        assert " ".join(each.split()) in words
    assert re.match(r"Privacy certificate of \d{4}-\d\d-\d\d\n", paper)
    accountants = ("Accountant", "Mechanisms", "Guarantee", "Noise")
    assert all(each in annex and each not in paper for each in accountants)
    assert {unit for unit in ("person", "patient", "user", "ward", "hospital", "agent")
            if f"in the records of one {unit}" in words} == {stated.unit.split()[1]}  # fmt: skip
    assert "ann" not in words.split()


def test_the_values_are_on_the_page_on_request_only() -> None:
    value = release(0).charges()[0].value
    assert value is not None
    assert f"value/0 = {value[0]:.6g}" in " ".join(invoke("certificate", LEDGER, "--values").split())
    assert "value/0" not in invoke("certificate", LEDGER)
    assert str(value[0]) not in write()
    assert str(value[0]) in write("--values")


def test_seeded_noise_leaves_nothing_of_budget_and_spent() -> None:
    release(2, noise=SeededNoise(0))
    paper = json.loads(write())
    assert paper["budget"] == paper["spent"] == "NONE (epsilon = infinity)"
    assert re.search(r"!! +NOT PRIVATE", invoke("certificate", LEDGER))


def test_a_ledger_without_values_shows_none() -> None:
    """A selection may have no score, and a round may be lost."""
    selection = TrainingLedger(LEDGER, SelectionPlan(Repeats.geometric(7), TrainingPlan(8.0, 0.5, 5), 0.3), n=50)
    charge = selection.begin_selection("d", secure=True)
    assert "; selection/best = lost" in " ".join(invoke("certificate", LEDGER, "--values").split())
    selection.record_selection(charge, [])
    assert "; selection/best = none" in " ".join(invoke("certificate", LEDGER, "--values").split())
    Path(LEDGER).unlink()
    rounds = federation()
    for t in (0, 1):
        charge_round(rounds, t)
    rounds.record(rounds.charges()[0], [0.5, -2.0])
    assert "; round/0 = 0.5, -2; round/1 = lost" in " ".join(invoke("certificate", LEDGER, "--values").split())


def test_a_page_with_many_questions_stays_a_page() -> None:
    for study in range(20):
        release(0, study=f"study {study}")
    assert "8 more questions" in invoke("certificate", LEDGER)
    assert len(json.loads(write())["released"]) == 20


# ---- a paper and its ledger ------------------------------------------------------------------------------


def write(*options: str) -> str:
    printed = invoke("certificate", LEDGER, "--format", "json", *options)
    Path("paper.json").write_text(printed)
    return printed


def verified(ledger: str = LEDGER) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["certificate", "--verify", "paper.json", ledger])
    return done.exit_code, done.output


def edit(change: Callable[[Any], None]) -> None:
    paper = json.loads(Path("paper.json").read_text())
    change(paper)
    Path("paper.json").write_text(json.dumps(paper))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", ["1e-4", "1e-6"])
def test_an_untouched_paper_matches_its_ledger(kind: str, delta: str) -> None:
    KINDS[kind][0]()
    write(*(() if kind == "users" else ("--delta", delta)))
    code, said = verified()
    assert code == 0, said
    assert "paper.json matches the ledger" in said


def test_a_ledger_that_has_grown_still_matches_and_says_by_what() -> None:
    release(0, 1)
    write("--values")
    release(2, study="forest")
    release(2, 3)
    code, said = verified()
    assert code == 0, said
    assert "matches the first 2 rows" in said
    assert "forest: mean clipped loss of one evaluated point (1)" in said
    assert "svm: mean clipped loss of one evaluated point (2)" in said
    edit(lambda paper: paper.update(spent="epsilon = 0.1 at delta = 1e-06, in 2 releases"))
    assert verified()[0] == 1, "spent is that of the paper's rows"


def charge_round(ledger: PlanLedger, t: int) -> None:
    ledger.charge(t, SubsampledGaussianRelease(0.35, 1.0, 1.0, 1.1, 2, "messages"), digest="d")


@pytest.mark.parametrize("grown", [False, True])
def test_a_released_value_that_was_changed_is_named(grown: bool) -> None:
    release(0, 1)
    write("--values")
    if grown:
        release(2)
    edit(lambda data: data["released"][0]["values"].update({"value/1": [0.5]}))
    code, said = verified()
    assert (code, "\n  released: the paper has" in said, said.count("the paper has")) == (1, True, 1)


def test_an_older_copy_and_another_history_do_not_match() -> None:
    release(0, 1)
    shutil.copy(LEDGER, "older.db")
    release(2)
    write()
    assert "does not hold its row 3" in verified("older.db")[1]
    edit(lambda paper: paper["ledger"].update(hash="0" * 64))
    assert verified()[0] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_paper_of_another_kind_of_ledger_is_of_another_ledger(kind: str, other: str) -> None:
    KINDS[kind][0]()
    identity = json.loads(write())["ledger"]["ledger"]
    Path(LEDGER).rename("first.db")
    KINDS[other][0]()
    code, said = verified()
    assert (code, f"\n  the paper is of the ledger {identity}; this ledger is " in said) == (1, True)
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"ledger": 1}', '{"ledger": {}, "released": [], "annex": []}', "ledger.db", None]
)
def test_what_is_no_paper_is_refused_in_one_line(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    release(0)
    if text is not None:
        Path("paper.json").write_text(text)
    monkeypatch.setattr(sys, "argv", ["dptune", "certificate", "--verify", "paper.json", LEDGER])
    with pytest.raises(SystemExit, match=r"^dptune: paper.json is not a certificate. Write one by .*$"):
        main()


# ---- word by word ----------------------------------------------------------------------------------------


PAGE = """\
Privacy certificate of 2026-01-02

  !!             NOT PRIVATE: a first warning.
  !!             A second one.
  Ledger         f00d
  Last row       7  abc
  Protects       one patient
  Neighbours     replace all records of one unit, whose number is public, so that a line of a page
                 is filled
  Trust model    trusted curator
  Budget         epsilon = 2
  Spent          epsilon = 1
  Released       - svm: a mean (2 releases, 2026-01-01 to 2026-01-02); a = 0.123457, -3; b = lost
                 - a reply (1 release, 2026-01-01)
                 - net: a choice (3 releases)
  Risk           small
  Not covered    timing


  Signed         ______________________________   ______________________________   ____________
                 name                             role                             date


Annex for the accountant

  Accountant     exact
  Noise          discrete"""


def test_a_page_is_laid_out_as_it_is_here() -> None:
    values = {"a": [0.1234567, -3.0], "b": None}
    data = {
        "date": "2026-01-02", "ledger": {"ledger": "f00d", "seq": 7, "hash": "abc"},
        "warnings": ["NOT PRIVATE: a first warning.", "A second one."], "protects": "one patient",
        "adjacency": "replace all records of one unit, whose number is public, so that a line of a page is filled",
        "trust_model": "trusted curator", "budget": "epsilon = 2", "spent": "epsilon = 1", "risk": "small",
        "released": [
            {"study": "svm", "question": "a mean", "releases": 2, "first": "2026-01-01", "last": "2026-01-02",
             "values": values},
            {"study": "", "question": "a reply", "releases": 1, "first": "2026-01-01", "last": "2026-01-01"},
            {"study": "net", "question": "a choice", "releases": 3, "first": "", "last": ""},
        ],
        "not_covered": ["timing"], "annex": [["Accountant", "exact"], ["Noise", "discrete"]],
    }  # fmt: skip
    assert page(data) == PAGE
    data |= {"released": [], "ledger": {"ledger": "f00d", "seq": 0, "hash": ""}}
    lines = page(data).splitlines()
    assert ("  Last row       0" in lines, "  Released       nothing so far" in lines) == (True, True)


def test_the_data_of_a_page_are_those_of_its_ledger() -> None:
    held = release(0, study="net")
    held.declare_public("net", "log loss of 9 rows")
    release(1)
    event = SelectionRelease(0.2, bounded_range_from_mu(0.2), 1.0, 1.0, 9, "cross-validated means")
    held.charge("net", "choice", event, digest="d", note={"failed": 2})
    stated = held.statement(delta=1e-4)
    data, day = certificate(held, stated), held.asked(1)[0].day
    mean = "mean clipped loss of one evaluated point"
    rows = [("net", mean), ("svm", mean), ("net", "a choice by the cross-validated means")]
    assert data["released"] == [
        {"study": study, "question": question, "releases": 1, "first": day, "last": day} for study, question in rows
    ]
    assert data["ledger"] == held.mark()
    assert list(data) == [
        "date", "ledger", "delta", "warnings", "protects", "adjacency", "trust_model", "budget", "spent", "released",
        "risk", "not_covered", "annex",
    ]  # fmt: skip
    assert data["budget"].endswith(" at delta = 0.0001, for all releases of this ledger together, made or to come")
    assert data["spent"].endswith(" at delta = 0.0001, in 3 releases")
    trains = "the public rows and all rows that train, unless a training ledger protects them (docs/training.md)"
    public = "Public: by the user's word alone, shown by trials without a release: log loss of 9 rows (run 'net')"
    assert data["not_covered"] == [public, trains, *stated.not_covered], "failures grow, so they are in the annex only"
    said = dict(data["annex"])
    assert list(said) == [
        "Promised", "Guarantee", "Spent so far", "Failures", "Public", "Mechanisms", "Accountant", "Versions", "Noise",
    ]  # fmt: skip
    assert said["Failures"] == "2 evaluations failed, for everybody"


def test_more_failures_do_not_contradict_a_paper() -> None:
    held = release(0)
    held.charge("svm", "a", gaussian(0.1), digest="d", note={"failed": 2})
    write()
    edit(lambda paper: paper["not_covered"].append("rain"))
    held.charge("svm", "b", gaussian(0.1), digest="d", note={"failed": 1})
    code, said = verified()
    assert code == 1
    (line,) = [each for each in said.splitlines() if "the paper has" in each]
    assert line == '  not_covered: the paper has ["rain"]; the ledger has nothing'
