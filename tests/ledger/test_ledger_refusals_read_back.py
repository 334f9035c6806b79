"""A ledger says word by word why it refuses, and what helps."""

import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dptune import Budget, DptuneError, PrivacyLedger, errors
from dptune._store import charged
from dptune.ledger import PlanLedger, Risk, SubsampledGaussian
from dptune.ledger.entries import Quota
from dptune.ledger.registry import About
from dptune.ledger.subsampled import noise_multiplier
from dptune.local import UserLedger
from ledger_tools import ROUND, edit, gaussian, pay

DELTA = 1e-5
ABOUT: Any = dict.fromkeys(
    ("name", "curator", "description", "intended_use", "region", "preparation", "justification"), "x"
)
ABOUT |= {"curator_type": "Industry", "sector": "Energy", "publication_date": "2026-01-02", "authors": ["Ann"]}
ALLOWED = "a file path, sqlite:///path or postgresql://user@host:port/database"
DAMAGED = "nothing was charged. Restore the newest intact copy. It lacks later charges: count them as spent."
MISMATCH = (
    "it is fixed when made or first charged. Open it as it was, or make a ledger of its own for other people's data. "
    "Nothing was charged"
)


def made(folder: Path, mu: float = 1.0) -> PrivacyLedger:
    return PrivacyLedger(folder / "x.db", Budget.gdp(mu))


def paid(folder: Path) -> PrivacyLedger:
    ledger = made(folder)
    ledger.record(pay(ledger, "a", 0.1), [0.5])
    return ledger


def planned(folder: Path) -> PlanLedger:
    return PlanLedger(folder / "x.db", SubsampledGaussian(0.35, 1.0, 3), n=29)


def round_after(folder: Path, done: int, t: int) -> object:
    ledger = planned(folder)
    for k in range(done):
        ledger.charge(k, ROUND, digest="d")
    return ledger.charge(t, ROUND, digest="d")


def moved(folder: Path) -> object:
    ledger = made(folder)
    (folder / "x.db").rename(folder / "y.db")
    return ledger.spent()


def replaced(folder: Path) -> object:
    ledger = made(folder)
    (folder / "x.db").rename(folder / "y.db")
    made(folder)
    return ledger.spent()


def behind(folder: Path) -> object:
    ledger = made(folder)
    shutil.copy(folder / "x.db", folder / "old")
    pay(ledger, "a", 0.1)
    shutil.copy(folder / "old", folder / "x.db")
    return ledger.spent()


def another_row(folder: Path) -> object:
    ledger = made(folder)
    shutil.copy(folder / "x.db", folder / "y.db")
    pay(ledger, "a", 0.1)
    copy = PrivacyLedger(folder / "y.db")
    pay(copy, "b", 0.1)
    return copy.check_mark(ledger.mark())


def edited(change: str) -> Callable[[Path], object]:
    def act(folder: Path) -> object:
        edit(paid(folder), change)
        return PrivacyLedger(folder / "x.db")

    return act


def linked(folder: Path) -> object:
    made(folder)
    os.link(folder / "x.db", folder / "y.db")
    return PrivacyLedger(folder / "x.db")


def overspent(folder: Path) -> object:
    ledger = made(folder, 0.5)
    ledger.charge("s", "k", gaussian(0.5), digest="d")
    ledger._row["mu"] = 0.25
    return ledger.statement(delta=DELTA)


def foreign(folder: Path) -> object:
    with sqlite3.connect(folder / "x.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    return PrivacyLedger(folder / "x.db")


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (
        lambda folder: made(folder / "none"),
        "the folder of the ledger {}/none/x.db does not exist; create it first.",
    ),
    "nothing": (
        lambda folder: PrivacyLedger(folder / "x.db"),
        "no ledger exists at {at}: check the path. In Python, budget= or plan= creates it.",
    ),
    "another database": (
        foreign,
        "no ledger exists at {at}: what lies there holds none; check the path. In Python, budget= or plan= creates it.",
    ),
    "no database": (
        lambda folder: ((folder / "x.db").write_text("a,b\n" * 400), PrivacyLedger(folder / "x.db")),
        "the ledger {at} cannot be used: file is not a database. Another file lies there: check the path",
    ),
    "a directory": (
        lambda folder: ((folder / "x.db").mkdir(), PrivacyLedger(folder / "x.db")),
        "the ledger {at} is a directory. Give the path of a file. Nothing was charged.",
    ),
    "users": (
        lambda folder: (UserLedger(folder / "x.db", cap=1.0), PrivacyLedger(folder / "x.db")),
        "{at} is a ledger of users: open it with dptune.local.UserLedger(path).",
    ),
    "rounds": (
        lambda folder: (planned(folder), PrivacyLedger(folder / "x.db")),
        "the ledger {at} holds a plan of subsampled releases: open it with PlanLedger. What is charged to one kind of "
        "ledger cannot be charged to another.",
    ),
    "a budget": (
        lambda folder: (made(folder), planned(folder)),
        "the ledger {at} holds a budget in GDP: open it with PrivacyLedger. What is charged to one kind of ledger "
        "cannot be charged to another.",
    ),
    "moved": (
        moved,
        "the ledger {at} was moved or deleted since it was opened. What was spent is in it: put it back.",
    ),
    "replaced": (
        replaced,
        "the ledger {at} was replaced by another one since it was opened. What was spent is in the old one: put it "
        "back.",
    ),
    "behind": (
        behind,
        "the ledger {at} is behind: it does not hold its row 1, which was seen before. An older copy was restored, or "
        "a part of the file was lost. Restore the newest file: it has all charges.",
    ),
    "another row": (
        another_row,
        "the ledger {}/y.db holds another row 1 than the one that was seen before. Either two copies of the "
        "ledger were charged apart: their prices add up, and neither file has all of them. Or the record of that row "
        "was altered. `dptune show --releases` lists what each copy has released.",
    ),
    "another ledger's mark": (
        lambda folder: made(folder).check_mark({"ledger": "x", "seq": 0, "hash": ""}),
        "{at} is another ledger than the one that this study started with, so its budget does not hold here. Open the "
        "ledger of the study (check the path and the working directory), or start a new study.",
    ),
    "no mark": (
        lambda folder: made(folder).check_mark("x"),
        "a mark is what ledger.mark() returned, with ledger, seq and hash; got 'x'.",
    ),
    "an answer without a charge": (
        edited("UPDATE dptune_releases SET charge = 4"),
        "the ledger {at} is damaged (it holds the answer to charge 4, but not the charge); " + DAMAGED,
    ),
    "a changed charge": (
        edited("UPDATE dptune_charges SET mu = 0.01"),
        "the ledger {at} is damaged (charge 1 does not follow from those before it); " + DAMAGED,
    ),
    "two names": (
        linked,
        "the ledger {at} has 2 names (hard links). SQLite keeps one journal for each name, so a crash could lose a "
        "charge or publish two draws. Nothing was charged. Find them with `find <folder> -samefile <file>` and delete "
        "all but one; if one has a -journal file beside it, that is the one to keep.",
    ),
    "an older format": (
        edited("UPDATE dptune_ledger SET version = 3"),
        "the ledger {at} has format 3; this dptune reads format 4. Open it with the dptune that made it.",
    ),
    "more than the budget": (
        overspent,
        "the ledger of 'validation data' was changed from outside: its charges are mu = 0.5 in all, more than its "
        "budget of mu = 0.25. No guarantee holds.",
    ),
    "inside a transaction": (
        lambda folder: (ledger := made(folder)).fix_plan("s", lambda rest: pay(ledger, "a")),
        "the ledger {at} is in the middle of another transaction of this thread (a signal handler, or a plan that "
        "releases): nothing was charged. Release outside of it.",
    ),
    "another budget": (
        lambda folder: (made(folder), made(folder, 0.5)),
        f"this ledger has budget=mu=1, not mu=0.5; {MISMATCH} to it yet: if it was made by mistake, delete it. To "
        "allow more: ledger.raise_budget, or `dptune raise-budget` on the command line.",
    ),
    "another unit": (
        lambda folder: (paid(folder), PrivacyLedger(folder / "x.db", unit="one ward")),
        f"this ledger has unit='one person', not 'one ward'; {MISMATCH}.",
    ),
    "a raise in another unit": (
        lambda folder: PrivacyLedger(folder / "x.db", Budget.approximate_dp(1.0, DELTA)).raise_budget(Budget.gdp(3.0)),
        "this budget is kept in (epsilon, delta): raise it with Budget.approximate_dp, or on the command line with "
        "--epsilon and --delta.",
    ),
    "no budget": (lambda folder: made(folder).raise_budget(1.0), "budget must be a Budget, e.g. Budget.gdp(mu=1.0)."),
    "a statement without delta": (
        lambda folder: made(folder).statement(),
        "the budget was stated in GDP: say at which delta to give epsilon, e.g. delta=1e-5.",
    ),
    "a delta of 0": (
        lambda folder: made(folder).statement(delta=0),
        "delta must lie strictly between 0 and 1; got 0. For pure differential privacy give 1e-12 and an epsilon of at "
        "most 2. Let one choice with public losses have all of it: PrivateSearch, choose, or select with "
        "public_losses=. The choice and its estimate are then pure: the statement's row Divided has their epsilon at "
        "delta = 0.",
    ),
    "a delta of 1": (
        lambda folder: made(folder).statement(delta=1),
        "delta must lie strictly between 0 and 1; got 1.0.",
    ),
    "too much": (
        lambda folder: pay(paid(folder), "b", 1.0),
        "asked for a release with mu=1, but only mu=0.994987 of the budget mu=1 is left. Nothing was read or spent. "
        "Ask for less, or stop here and report what was spent; a new ledger on the same people adds to what they have "
        "already paid.",
    ),
    "nothing left": (
        lambda folder: (pay(paid(folder), "b", 0.99**0.5), pay(made(folder), "c", 0.25)),
        "asked for a release with mu=0.25, but only mu=0 of the budget mu=1 is left. Nothing was read or spent. A "
        "finished run is read again at no cost, under its own name and with its settings. Else raise the budget, or "
        "stop here and report what was spent; a new ledger on the same people adds to what they have already paid.",
    ),
    "another question": (
        lambda folder: pay(paid(folder), "a", 0.1, digest="other"),
        "the ledger already holds a release 'a' of study 'study' that answers another question. A study's name is its "
        "scope in the ledger: give a new study a new name.",
    ),
    "a full quota": (
        lambda folder: pay(paid(folder), "a/2", 0.1, quota=Quota("a/", 0)),
        "the run 'study' has made all of the releases of this kind that it planned: 0.",
    ),
    "a round too early": (
        lambda folder: round_after(folder, 1, 2),
        "rounds are released in order; the next is 1, not 2.",
    ),
    "a round too many": (
        lambda folder: round_after(folder, 3, 5),
        "the last round of the plan is 2, fixed for good; round 5 is refused and nothing was read.",
    ),
    "a round below 0": (
        lambda folder: planned(folder).charge(-1, ROUND, digest="d"),
        "a round is a whole number from 0.",
    ),
    "a price in rounds": (
        lambda folder: planned(folder).charge(0, gaussian(1.0), digest="d"),
        "this ledger holds a plan of subsampled Gaussian releases; nothing else can be charged.",
    ),
    "an object that is no plan": (
        lambda folder: PlanLedger(folder / "x.db", 3, n=29),
        "plan must be a SubsampledGaussian(q, z, steps).",
    ),
    "no agents": (
        lambda folder: PlanLedger(folder / "x.db", SubsampledGaussian(0.35, 1.0, 3), n=0),
        "n must be the number of agents, a whole number >= 1; got 0.",
    ),
    "a q above 1": (
        lambda folder: SubsampledGaussian(1.5, 1.0, 3),
        "the sampling rate (q, or sample_rate) must lie in (0, 1]; got 1.5.",
    ),
    "a z too small": (
        lambda folder: SubsampledGaussian(0.5, 0.09, 3),
        "the noise multiplier (z, or noise_multiplier) must be finite and at least 0.1; got 0.09. Less noise protects "
        "nobody.",
    ),
    "no steps": (lambda folder: SubsampledGaussian(0.5, 1.0, 0), "steps must be a whole number >= 1; got 0."),
    "no epsilon": (
        lambda folder: noise_multiplier(q=0.5, steps=3, epsilon=0.0, delta=DELTA),
        "epsilon=0.0 must be positive and finite",
    ),
    "a risk below 0": (lambda folder: Risk.of_mu(-1.0), "mu must be a number >= 0; got -1.0."),
    "an address of another form": (
        lambda folder: PrivacyLedger("postgresql://host:port/db"),
        f"the ledger's URL cannot be read; give {ALLOWED}.",
    ),
    "another server": (
        lambda folder: PrivacyLedger("mysql://host/db"),
        f"a ledger is kept in SQLite or PostgreSQL, not in mysql; give {ALLOWED}.",
    ),
    "a port too large": (
        lambda folder: PrivacyLedger("postgresql://host:65536/db"),
        "the port in the ledger's URL must lie in [0, 65535]; got 65536.",
    ),
    "in memory": (
        lambda folder: PrivacyLedger("sqlite://"),
        "a ledger must outlive its process; give a file path instead of an in-memory URL.",
    ),
    "a setting of SQLite": (
        lambda folder: PrivacyLedger(f"sqlite:///{folder}/x.db?timeout=3"),
        "the URL of a ledger in SQLite has no settings; got timeout.",
    ),
    "a sector": (
        lambda folder: About(**{**ABOUT, "sector": "Banking"}),
        "sector must be one of Technology, Healthcare, Education, Government, Energy, Finance; got 'Banking'.",
    ),
    "a type of curator": (
        lambda folder: About(**{**ABOUT, "curator_type": "Church"}),
        "curator_type must be one of Government, Industry, Nonprofit; got 'Church'.",
    ),
    "a type of product": (
        lambda folder: About(**ABOUT, product_type="Tea"),
        "product_type must be one of Summary statistics, Machine learning model, Dataset, Synthetic data, Interactive "
        "API, SQL queries; got 'Tea'.",
    ),
    "one author": (
        lambda folder: About(**{**ABOUT, "authors": "Ann"}),
        "authors must be a list of names, e.g. [\"Ann Lee\"]; got 'Ann'.",
    ),
    "a day": (
        lambda folder: About(**{**ABOUT, "publication_date": "May"}),
        "publication_date must be a date, e.g. 2026-11-22; got 'May'.",
    ),
    "entries": (
        lambda folder: ((folder / "a").write_text("z = 1\nname = 'x'\ny = 2"), About.read(folder / "a")),
        "{}/a does not say what the registry asks: it lacks authors; it lacks curator; it lacks curator_type; it lacks "
        "description; it lacks intended_use; it lacks justification; it lacks preparation; it lacks publication_date; "
        "it lacks region; it lacks sector; it has an unknown entry y; it has an unknown entry z.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_ledger_refuses_in_these_words(case: str, fast_path: Path) -> None:
    act, message = CASES[case]
    with pytest.raises(DptuneError) as told:
        act(fast_path)
    assert str(told.value) == message.replace("{at}", f"{fast_path}/x.db").replace("{}", str(fast_path))


ALREADY = "a new ledger on the same people adds to what they have already paid."


@pytest.mark.parametrize(("runs", "names"), [("a", "'a'"), ("edcba", "'e', 'd', 'c', 'b', 'a'"),
                                             ("fedcba", "'f', 'e', 'd', 'c', 'b', ...")])  # fmt: skip
def test_a_run_that_would_have_too_little_is_told_who_has_the_rest(runs: str, names: str) -> None:
    error = pickle.loads(pickle.dumps(errors.BudgetPlanned(0.4, 2.0, tuple(runs))))
    assert (error.asked, error.left, error.budget, error.runs) == (2.0, 0.4, 2.0, tuple(runs))
    assert str(error) == (
        f"a new run would have too little of the budget mu=2: what is not spent, mu=0.4, is planned by {names}. "
        "Nothing was read or spent. Resume a run that is not complete by its name; or give the new run mu=, to take "
        "what the others have not spent, their final estimates included. Next time share the budget out beforehand, "
        f"with mu= for each run; {ALREADY}"
    )


def test_a_reply_past_the_cap_is_told_what_is_left() -> None:
    error = pickle.loads(pickle.dumps(errors.CapReached(0.5, 0.1234567, 2.0)))
    assert (error.asked, error.left, error.cap) == (0.5, 0.1234567, 2.0)
    assert str(error) == (
        "asked for a reply with epsilon=0.5, but only epsilon=0.123456 of this user's cap 2 is left. Nothing was "
        "measured or sent. Ask another user."
    )


@pytest.mark.parametrize("between", ["; ", ": ", ". "])
def test_an_answer_that_was_not_recorded_is_said_to_be_charged(between: str) -> None:
    n = "N" if between == ". " else "n"
    error = errors.LedgerError(f"the ledger is locked{between}{n}othing was charged. See who has it.")
    assert str(charged(error, "The release 'a' of 's'")) == (
        "the ledger is locked. See who has it. The release 'a' of 's' is charged, and its answer was not recorded. Run "
        "it again when the ledger can be used: it is answered at no further cost."
    )
