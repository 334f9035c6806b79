"""A certificate of an empty ledger of every kind covers charges, and no raise, no seeded noise and no edited line."""

import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

import dptune
from cli_tools import invoke
from dptune._statement import Statement
from dptune.cli import app
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.ledger.certificate import certificate, compare
from dptune.ledger.events import SubsampledGaussianRelease
from dptune.local import InsecureRandomizer, LocalRandomizer, UserLedger
from dptune.training import TrainingLedger, TrainingPlan
from ledger_tools import gaussian

pytestmark = pytest.mark.usefixtures("own_folder")
LEDGER, PAPER = "ledger.db", Path("paper.json")
ENDS = (-1.0, 3.0)
GROWING = ("Spent so far", "Mechanisms", "Failures")  # rows of the annex that say nothing else


class Kind(NamedTuple):
    """A kind of ledger: how to create it, and how to charge it under a key from "0"."""

    make: Callable[[], Any]
    charge: Callable[[Any, str], Any]
    charge_seeded: Callable[[Any, str], Any]
    larger: dptune.Budget | None = None


def of_budget(budget: dptune.Budget, larger: dptune.Budget) -> Kind:
    def charge(held: dptune.PrivacyLedger, key: str, *, private: bool = True) -> None:
        held.charge("svm", key, gaussian(0.01), digest="d", people=50, private=private)

    make = partial(dptune.PrivacyLedger, LEDGER, budget, dataset="wards", unit="one patient")
    return Kind(make, charge, partial(charge, private=False), larger)


def reply(randomizer: LocalRandomizer, held: UserLedger, key: str) -> None:
    held.reply(randomizer, 0.3, user=key, key=key)


def begin(held: TrainingLedger, key: str, *, private: bool = True) -> None:
    held.begin(secure=True, private=private)


def charge_round(held: PlanLedger, key: str, *, private: bool = True) -> None:
    event = SubsampledGaussianRelease(0.35, 1.0, 1.0, 1.1, 2, "messages")
    held.charge(int(key), event, digest="d", private=private)


pair, gdp = dptune.Budget.approximate_dp, dptune.Budget.gdp
KINDS = {
    "gdp": of_budget(gdp(1.0), gdp(9.0)),
    "large pair": of_budget(pair(3.0, 1e-6), pair(9.0, 1e-6)),
    "small pair": of_budget(pair(1.0, 1e-5), pair(9.0, 1e-5)),
    "users": Kind(
        partial(UserLedger, LEDGER, cap=2.0),
        partial(reply, LocalRandomizer(0.75, ENDS)),
        lambda held, key: reply(InsecureRandomizer(0.75, ENDS, insecure_seed=0), held, key),
    ),
    "trainings": Kind(
        partial(TrainingLedger, LEDGER, TrainingPlan(2.0, 0.1, 20, trainings=3), n=900),
        begin,
        partial(begin, private=False),
    ),
    "rounds": Kind(
        partial(PlanLedger, LEDGER, SubsampledGaussian(q=0.35, z=1.0, steps=60), n=29),
        charge_round,
        partial(charge_round, private=False),
    ),
}
RAISED = [name for name, kind in KINDS.items() if kind.larger is not None]


def stated_at(held: Any) -> Callable[[float], Statement]:
    return lambda delta: held.statement() if isinstance(held, UserLedger) else held.statement(delta=delta)


def sign() -> None:
    PAPER.write_text(invoke("certificate", LEDGER, "--format", "json"))


def verified() -> tuple[int, str]:
    done = CliRunner().invoke(app, ["certificate", "--verify", str(PAPER), LEDGER])
    return done.exit_code, done.output


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_paper_of_an_empty_ledger_covers_a_charge(kind: Kind) -> None:
    """The first charge fixes n, and divides a budget in (epsilon, delta): the paper covers both."""
    held = kind.make()
    sign()
    assert verified()[0] == 0
    kind.charge(held, "0")
    code, said = verified()
    assert (code, "matches the first 0 rows" in said, said.count("(1)")) == (0, True, 1), said


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("charged", [False, True])
def test_a_paper_of_an_empty_ledger_covers_no_raise(name: str, charged: bool) -> None:
    kind = KINDS[name]
    held = kind.make()
    sign()
    held.raise_budget(kind.larger)
    if charged:
        kind.charge(held, "0")
    code, said = verified()
    assert code == 1, said
    for line in ("budget", "risk", "not_covered", "annex, Raised", "annex, Guarantee"):
        assert f"\n  {line}: the paper has " in said


@pytest.mark.parametrize("name", RAISED)
def test_a_paper_of_a_raised_empty_ledger_covers_a_charge(name: str) -> None:
    kind = KINDS[name]
    held = kind.make()
    held.raise_budget(kind.larger)
    sign()
    kind.charge(held, "0")
    code, said = verified()
    assert code == 0, said


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_paper_of_an_empty_ledger_covers_no_seeded_noise(kind: Kind) -> None:
    held = kind.make()
    sign()
    kind.charge_seeded(held, "0")
    code, said = verified()
    assert code == 1, said
    assert '\n  warnings: the paper has nothing; the ledger has ["NOT PRIVATE' in said
    assert "\n  budget: the paper has " in said


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("rows", [0, 1])
def test_each_edited_line_of_a_paper_is_named_also_if_outgrown(kind: Kind, rows: int) -> None:
    """Also each row of the annex, but for those that only count."""
    held = kind.make()
    state = stated_at(held)
    for row in range(rows):
        kind.charge(held, str(row))
    paper = json.loads(json.dumps(certificate(held, state(1e-5))))
    lines = [name for name, said in paper.items() if isinstance(said, str) and name != "date"]
    assert {"protects", "adjacency", "trust_model", "budget", "spent", "risk"} <= {*lines}
    edits = [(name, {name: "epsilon = 0.01"}, '"epsilon = 0.01"') for name in lines]
    edits += [(name, {name: [*paper[name], "x"]}, '["x"]') for name in ("warnings", "not_covered")]
    for name, _ in paper["annex"]:
        edited = [[row, "epsilon = 0.01" if row == name else said] for row, said in paper["annex"]]
        edits += [(f"annex, {name}", {"annex": edited}, '"epsilon = 0.01"')] * (name not in GROWING)
    for grow in (0, 1) if kind.larger else (1,):  # a plan is accounted for anew by each comparison
        for row in range(rows, rows + grow):
            kind.charge(held, str(row))
        assert compare(paper, held, state)[0] == []
        for name, edit, found in edits:
            (difference,), _ = compare({**paper, **edit}, held, state)
            assert difference.startswith(f"{name}: the paper has {found}; the ledger has ")


@pytest.mark.parametrize(
    ("name", "delta"), [("gdp", 0.0), ("users", 1e-6), *itertools.product(("trainings", "rounds"), (0.0, 1e-300))]
)
def test_an_edited_delta_at_which_nothing_is_stated_is_named(name: str, delta: float) -> None:
    held = KINDS[name].make()
    state = stated_at(held)
    paper = json.loads(json.dumps(certificate(held, state(1e-5))))
    (difference,), _ = compare({**paper, "delta": delta}, held, state)
    assert difference.startswith(f"delta: the paper has {delta}; the ledger has ")
