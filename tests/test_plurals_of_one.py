"""Every command prints "1 release", and not "1 releases", of a ledger that has one of everything."""

import re
from pathlib import Path

import pytest

from cli_tools import invoke
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.local import LocalRandomizer, UserLedger
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from ledger_tools import ROUND

pytestmark = pytest.mark.usefixtures("own_folder")
LEDGERS = ("ledger.db", "pair.db", "rounds.db", "users.db", "one.db", "two.db", "selection.db")
COMMANDS = [
    *(f"{command} {ledger}" for ledger in LEDGERS for command in ("statement", "show", "certificate")),
    "show ledger.db --releases",
    "statement ledger.db pair.db",
    "statement ledger.db one.db selection.db",
    "certificate ledger.db --verify paper.json",
    "certificate later.db --verify later.json",
    "plan --n 1 --loss hinge",
    "plan --n 2 --report --prevalence .5 --groups 2",
    "convert --dp-sgd 1 .1 1",
    "raise-budget ledger.db --mu 2",
]
THINGS = (
    "accusations agents answers charges choices ledgers losses numbers people questions releases repeats replies rows "
    "runs scores selections steps studies times trainings users years"
)
OF_ONE = re.compile(rf"(?<![\d.e-])\b(?:1|one) (?:\w+ )?(?:{THINGS.replace(' ', '|')})\b")


def one_of_everything() -> None:
    def release(privatizer: LossPrivatizer, key: str) -> None:
        privatizer.observe(key, [0.3])
        privatizer.release(privatizer.mean_query(key, mu=0.1), scope="svm", key=f"value/{key}")

    budgets = {"ledger": Budget.gdp(1.0), "pair": Budget.approximate_dp(1.0, 1e-5), "later": Budget.gdp(1.0)}
    for name, budget in budgets.items():
        privatizer = LossPrivatizer(PrivacyLedger(f"{name}.db", budget), n=1, clip=(0, 1))
        release(privatizer, "0")
    for paper in ("paper", "later"):
        ledger = "ledger" if paper == "paper" else paper
        Path(f"{paper}.json").write_text(invoke("certificate", f"{ledger}.db", "--format", "json"))
    release(privatizer, "1")
    PrivacyLedger("pair.db").raise_budget(Budget.approximate_dp(2.0, 1e-5))
    PlanLedger("rounds.db", SubsampledGaussian(q=0.35, z=1.0, steps=1), n=1).charge(0, ROUND, digest="d")
    UserLedger("users.db", cap=2.0).reply(LocalRandomizer(0.75, (-1.0, 3.0)), 0.3, user="ann", key="1")
    for name, trainings in (("one", 1), ("two", 2)):
        TrainingLedger(f"{name}.db", TrainingPlan(1.0, 0.1, 1, trainings), n=1).begin(secure=False)
    plan = SelectionPlan(Repeats.geometric(3), TrainingPlan(1.0, 0.1, 1), score_mu=0.1)
    TrainingLedger("selection.db", plan, n=1).begin_selection("d", secure=False)


def test_nothing_that_is_printed_has_a_plural_of_one() -> None:
    one_of_everything()
    printed = {command: " ".join(invoke(*command.split()).split()) for command in COMMANDS}
    assert {command: found[0] for command, said in printed.items() if (found := OF_ONE.search(said))} == {}
    assert "matches the first row of" in printed["certificate later.db --verify later.json"]


def test_a_paper_of_one_insecure_training_still_matches_after_the_second() -> None:
    ledger = TrainingLedger("two.db", TrainingPlan(1.0, 0.1, 10, 2), n=10)
    ledger.begin(secure=False)
    Path("paper.json").write_text(invoke("certificate", "two.db", "--format", "json"))
    ledger.begin(secure=False)
    assert "paper.json matches the first row of" in invoke("certificate", "two.db", "--verify", "paper.json")
