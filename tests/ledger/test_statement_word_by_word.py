"""Statements, and what the registry gets of them, are read back in full, as a reader would see them."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dptune import Budget, PrivacyLedger
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.ledger.events import FlipRelease, SelectionRelease
from dptune.ledger.filter import PURE
from dptune.ledger.gdp import bounded_range_from_mu, mu_from_pure
from dptune.ledger.registry import About, record
from ledger_tools import pay

DELTA = 1e-5
CURATOR = "trusted curator: one process reads the losses; everybody else sees noisy releases only"
REPLACE = "replace all records of one unit, with n public"
CONDITION = (
    "The guarantee is that of the present budget, for all releases, if no released value could have led to a larger one"
)
PLACES = (
    "the people are at 3 places, of which each added over its own; the trusted process read these sums without noise, "
    "and no rows. Assumed: nobody is at two of them (who is at k places has k times mu)"
)
TRAINED = (
    "private, in the runs 'forest', 'tree'. The people who are trained on are NOT protected by this ledger but by a "
    "plan of trainings, under removing one person (add-or-remove) and not replace-one: join both, as `dptune statement "
    "train.db val.db` does, with --disjoint if nobody is in both. What a training raises is sealed. Assumed: how long "
    "it takes, which front ends record, says nothing about one person"
)
PUBLIC = (
    "by the user's word alone, shown by trials without a release: log loss of 9 rows (run 'net'); AUC of 30 rows (run "
    "'svm')"
)
GDP = (
    "Gaussian differential privacy (Dong, Roth, Su 2022); adaptive composition mu^2 = sum of mu_t^2 with a filter {} "
    "(Smith & Thakurta, arXiv 2210.17520)"
)
FIXED, GREW = GDP.format("fixed in advance"), GDP.format("that was raised after it was fixed")
CHOICES = (
    "the Gaussian releases as one Gaussian, the choices as one of the summed bounded range, composed exactly for the "
    "worst adaptive order (Dong, Durfee & Rogers 2020; docs/privacy.md)"
)
PURES = (
    "the pure releases of one run by their summed epsilon (basic composition, Dwork, McSherry, Nissim & Smith 2006), "
    "also where they are chosen adaptively within that sum (Rogers, Roth, Ullman & Vadhan 2016)"
)
UNCOVERED = [
    "a function that lets one record change another person's loss, the number of losses, or whether it raises",
    "a person with several rows, unless groups= was given",
    "a search space, clip or settings that were chosen by looking at the data",
    "timing, memory use and other side channels",
    "releases about the same people that this ledger did not see",
]
UNCOVERED_IN_ROUNDS = [
    "the agent's own queries and trials: where it evaluates depends on its data, and whoever sees them or its study "
    "sees more than this mechanism protects",
    "people inside an agent's data towards the agent itself, or towards those who see its trials",
    "a person whose data several agents hold: epsilon is for the messages of one agent",
    "the server: it reads every message; and whoever learns which agents were sampled",
    "whether and when an agent sends: timing, addresses and time-outs; how long the server computes",
    "the choice of the search space, features, regions and settings, if made by looking at the agents' data",
    "other releases about the same agents that this ledger did not see: a ledger that was deleted or copied counts "
    "anew, and so does an older copy put back where nobody kept a mark of the newer one",
]
MAY_TRAIN = "{}public rows and all rows that train, unless a training ledger protects them (docs/training.md)"


def busy(folder: Path) -> PrivacyLedger:
    """A ledger with everything that a statement may remark."""
    ledger = PrivacyLedger(folder / "x.db", Budget.gdp(0.9), dataset="wards", unit="one patient")
    ledger.bind_people(400)
    pay(ledger, "a", 0.3, scope="net", note={"failed": 2, "places": ["x", "y", "z"], "public_rows": 70})
    pay(ledger, "b", 0.6, scope="elm", note={"failed": 3, "places": ["x"]})
    ledger.raise_budget(Budget.approximate_dp(5.0, DELTA))
    pay(ledger, "c", 0.4, scope="elm")
    ledger.raise_budget(Budget.gdp(2.5))
    for run, quantity in (("svm", "AUC of 30 rows"), ("net", "log loss of 9 rows")):
        ledger.declare_public(run, quantity)
    for run in ("tree", "forest"):
        ledger.declare_private_training(run)
    return ledger


def pair(folder: Path) -> PrivacyLedger:
    return PrivacyLedger(folder / "x.db", Budget.approximate_dp(1.0, DELTA))


def pure(folder: Path) -> PrivacyLedger:
    """Another run may not have what the first one has planned."""
    ledger = pair(folder)
    ledger.fix_plan("svc", lambda rest: {"mu": mu_from_pure(1.0), PURE: 1.0})
    ledger.charge("svc", "c", FlipRelease(mu_from_pure(0.8), 0.8, 1.0, 1.0, 9, "means"), digest="d")
    return ledger


def raised(folder: Path) -> PrivacyLedger:
    ledger = pure(folder)
    ledger.raise_budget(Budget.approximate_dp(2.0, DELTA))
    return ledger


def chosen(folder: Path) -> PrivacyLedger:
    ledger, mu = pair(folder), 0.3 * math.sqrt(0.7)
    ledger.fix_plan("svc", lambda rest: {"mu": 0.3, "shares": {"choice": 0.7}})
    event = SelectionRelease(mu, bounded_range_from_mu(mu), 1.0, 1.0, 9, "means")
    ledger.charge("svc", "c", event, digest="d")
    return ledger


def rounds(folder: Path) -> PlanLedger:
    return PlanLedger(folder / "x.db", SubsampledGaussian(0.25, 1.5, 7), n=30)


def of_a_pair(spent: str, promised: int = 1) -> list[tuple[str, str]]:
    words = f"epsilon = {promised} at delta = 1e-05, as the budget was stated; spent so far: epsilon = {spent} at that "
    return [
        ("Protects", "one person in 'validation data'"), ("Adjacency", REPLACE), ("Trust model", CURATOR),
        ("Not protected", f"the {MAY_TRAIN.format('')}"), ("Promised", f"{words}delta"),
    ]  # fmt: skip


SHARPER = "mu = {} GDP, and, more sharply, epsilon = {} at delta = 1e-05"
FLIPPED = ("Mechanisms", "permute-and-flip on the means (1)")
STATED: dict[str, tuple[Callable[[Path], Any], float, list[tuple[str, str]]]] = {
    "busy": (busy, 1e-4, [
        ("Protects", "one patient in 'wards', n = 400"), ("Adjacency", REPLACE), ("Trust model", CURATOR),
        ("Not protected", f"the {MAY_TRAIN.format('70 ')}"),
        ("Guarantee", "mu = 2.5 GDP, that is epsilon = 11.82 at delta = 0.0001"),
        ("Spent so far", "mu = 0.7811 GDP, that is epsilon = 2.844 at delta = 0.0001 in 3 releases"),
        ("Raised", "from mu = 0.9 at <time>, after 2 releases; from epsilon = 5 at delta = 1e-05 at <time>, after 3 "
                   f"releases. {CONDITION}"),
        ("Failures", "5 evaluations failed, for everybody"), ("Places", PLACES),
        ("Training", TRAINED), ("Public", PUBLIC), ("Mechanisms", "Gaussian mechanism on the mean (3)"),
        ("Accountant", GREW),
    ]),
    "undivided": (pair, DELTA, [
        *of_a_pair("0"),
        ("Guarantee", SHARPER.format(1.233, 1)),
        ("Spent so far", "mu = 0 GDP, that is epsilon = 0 at delta = 1e-05 in 0 releases"),
        ("Undivided", "nothing is released yet; the first charge divides the budget, and the figures hold for every "
                      "division"),
        ("Mechanisms", "none so far"), ("Accountant", f"{FIXED}; for epsilon {CHOICES}; or {PURES}"),
    ]),
    "pure": (pure, DELTA, [
        *of_a_pair("0.8"),
        ("Guarantee", SHARPER.format(1.233, 1)), ("Spent so far", SHARPER.format(0.9916, 0.8) + " in 1 release"),
        ("Divided", "before the first release: epsilon = 1 at delta = 0 for the releases of the run 'svc', nothing for "
                    "others"),
        FLIPPED, ("Accountant", f"{FIXED}; for epsilon {PURES}"),
    ]),
    "raised": (raised, DELTA, [
        *of_a_pair("0.8", 2),
        ("Guarantee", SHARPER.format(1.262, 2)), ("Spent so far", SHARPER.format(0.9916, 0.8) + " in 1 release"),
        ("Divided", "before the first release, and raised since then: epsilon = 1 at delta = 0 for the releases of the "
                    "run 'svc', mu = 0.2733 for everything else"),
        ("Raised", f"from epsilon = 1 at delta = 1e-05 at <time>, after 1 release. {CONDITION}"), FLIPPED,
        ("Accountant", f"{GREW}; for epsilon {PURES}, times one Gaussian of all others (Zhu, Dong & Wang 2022)"),
    ]),
    "chosen": (chosen, DELTA, [
        *of_a_pair("0.3972"),
        ("Guarantee", SHARPER.format(0.3227, 1)), ("Spent so far", SHARPER.format(0.251, 0.3972) + " in 1 release"),
        ("Divided", "before the first release: bounded range 0.4009 for the choice of the run 'svc', mu = 0.2027 for "
                    "everything else"),
        ("Mechanisms", "exponential mechanism (bounded range) on the means (1)"),
        ("Accountant", f"{FIXED}; for epsilon {CHOICES}"),
    ]),
    "rounds": (rounds, 0.01, [
        ("Protects", 'one agent in "agents\' observations", n = 30'),
        ("Adjacency", "zero out one agent: all its messages become 0, with the number of agents, regions, weights and "
                      "plan public"),
        ("Trust model", "trusted server: it reads every message and keeps the samples secret; agents and everybody "
                        "else see the noisy broadcasts only"),
        ("Guarantee", "epsilon = 1.017 at delta = 0.01, for all rounds of the plan together"),
        ("Plan", "q = 0.25, z = 1.5, 7 releases, fixed in advance"), ("Made so far", "0 of 7 releases"),
        ("Mechanisms", "none so far"),
        ("Accountant", "privacy loss distributions of the whole plan (dp-accounting, Poisson-subsampled Gaussian, "
                       "add-or-remove relation, pessimistic rounding); the plan was fixed before the first round"),
    ]),
}  # fmt: skip


def timeless(text: str) -> str:
    return re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", "<time>", text)


@pytest.mark.parametrize("kind", STATED)
def test_every_line_of_a_statement_is_as_written_here(kind: str, fast_path: Path) -> None:
    make, delta, rows = STATED[kind]
    statement = make(fast_path).statement(delta=delta)
    uncovered = UNCOVERED_IN_ROUNDS if kind == "rounds" else UNCOVERED
    versions = ", ".join(f"{name} {number}" for name, number in statement.versions.items())
    rows = [*rows, *(("" if i else "Not covered", text) for i, text in enumerate(uncovered)), ("Versions", versions)]
    assert [*statement.versions] == ["python", "dptune", "opendp", "sqlalchemy", "numpy", "scipy", "dp-accounting"]
    lines = ["Privacy statement", *(f"  {name}{' ' * (15 - len(name))}{text}" for name, text in rows)]
    assert timeless(statement.to_text()).splitlines() == lines
    table = [f"| {name} | {text} |" for name, text in rows]
    assert timeless(statement.to_markdown()).splitlines() == ["## Privacy statement", "", "| | |", "|---|---|", *table]
    data = statement.to_dict()
    assert (data["not_covered"], data["releases"]) == (uncovered, sum(count for _, count in statement.mechanisms))
    assert data["accountant"] == dict(rows)["Accountant"]
    assert data["not_protected"] == dict(rows).get("Not protected", "")


def test_the_data_of_a_statement_name_runs_failures_and_raises(fast_path: Path) -> None:
    data: Any = busy(fast_path).statement(delta=1e-4).to_dict()
    assert (data["failed_evaluations"], data["private_trainings"]) == (5, ["forest", "tree"])
    said = [{"quantity": "log loss of 9 rows", "run": "net"}, {"quantity": "AUC of 30 rows", "run": "svm"}]
    assert data["declared_public"] == said
    assert [*data["remarks"]] == ["Raised", "Failures", "Places", "Training", "Public"]
    assert (data["dataset"], data["unit"], data["n"]) == ("wards", "one patient", 400)
    assert (data["adjacency"], data["trust_model"]) == (REPLACE, CURATOR)
    assert [act["releases"] for act in data["raises"]] == [2, 3]
    assert [act["to"]["mu"] for act in data["raises"]] == pytest.approx([1.12124, 2.5], rel=1e-5)


def test_rows_that_train_are_counted_where_all_choices_have_the_same(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    for key, rows, words in (("a", 70, "the 70 public"), ("b", 70, "the 70 public"), ("c", 90, "the public")):
        pay(ledger, key, 0.1, note={"public_rows": rows})
        assert ledger.statement(delta=DELTA).not_protected.startswith(words)


def test_what_is_not_private_is_warned_of_before_the_numbers(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    ledger.bind_people(4)
    pay(ledger, "a", 0.1, private=False)
    statement = ledger.statement(delta=0.25)
    warnings = [
        "NOT PRIVATE: noise was drawn from a seeded generator (SeededNoise); epsilon = infinity.",
        "delta = 0.25 is not below 1/n = 0.25: choose a smaller delta. A mechanism that publishes one random person's "
        "record satisfies this one.",
    ]
    assert statement.to_dict()["warnings"] == [*statement.warnings] == [*statement.caveats] == warnings
    assert statement.to_text().splitlines()[1:3] == [f"  !! {each}" for each in warnings]
    assert statement.to_markdown().splitlines()[2:6] == [f"> **{warnings[0]}**", "", f"> **{warnings[1]}**", ""]
    assert dict(statement.rows())["Guarantee"] == "NONE (epsilon = infinity)"
    assert dict(statement.rows())["Spent so far"] == "NONE (epsilon = infinity) in 1 release"


# ---- the registry ---------------------------------------------------------------------------------------------

ABOUT = About(
    name="Ward *Tumours*, 2nd run", curator="A. Lee", curator_type="Industry", description="What it is.",
    intended_use="Its use.", region="Peru", sector="Education", publication_date="2026-01-02", authors=["Ann", "Bob"],
    preparation="How it was made.", justification="Why.",
)  # fmt: skip
ATTACK = (
    "An attacker who knows two neighbouring data sets, which differ in the records of {}, and guesses which one was "
    "used, is right at most {} times in 100 (50 without any release; attack advantage at most {}); with 1 false "
    "accusation in 100, at most {} true ones in 100."
)
WITHIN = (
    "All releases are within mu = {} in Gaussian differential privacy, which bounds epsilon at every delta{}; mu = {} "
    "of it was spent. "
)


def test_a_record_of_the_registry_is_as_written_here(fast_path: Path) -> None:
    ledger = busy(fast_path)
    statement = ledger.statement(delta=1e-4)
    found = record(statement, ABOUT)
    assert found["url_slug"] == "ward-tumours-2nd-run"
    parts = found["deployment"]
    assert parts.pop("basic") == {
        "name": "Ward *Tumours*, 2nd run",
        "data_curators": [{"data_curator_name": "A. Lee", "data_curator_type": "Industry"}],
        "description": "What it is.", "intended_use": "Its use.", "data_product_type": "Machine learning model",
        "data_product_region": "Peru", "data_product_sector": "Education", "publication_date": "2026-01-02",
    }  # fmt: skip
    assert parts.pop("dp_variant") == {
        "variant_name": "Approximate DP",
        "data_domain": "Data sets that hold records of: one patient in 'wards', n = 400.",
        "unprotected_quantities": "The number of units, the search space, the clipping bounds, the configurations that "
        f"were tried, and how many evaluations failed. Training: {TRAINED}. Public: {PUBLIC}.",
    }
    loss = parts.pop("privacy_loss")
    risk = WITHIN.format(2.5, "", 0.7811) + ATTACK.format("one patient", 89.5, 0.789, 56.9)
    assert timeless(loss.pop("privacy_parameters_details")) == (
        f"Raised: from mu = 0.9 at <time>, after 2 releases; from epsilon = 5 at delta = 1e-05 at <time>, after 3 "
        f"releases. {CONDITION}. Failures: 5 evaluations failed, for everybody. Places: {PLACES}. Training: "
        f"{TRAINED}. Public: {PUBLIC}. {risk}"
    )
    assert loss == {
        "privacy_unit": "one patient",
        "privacy_unit_details": f"Neighbouring data sets: {REPLACE}.",
        "number_of_privacy_units": 400,
        "privacy_parameters": {"epsilon": 11.8138, "delta": 1e-4},
    }
    assert parts.pop("deployment_model") == {
        "model_name": "Central",
        "trust_assumptions": f"{CURATOR}.",
        "actors": "The curator, who holds the rows and the ledger; everybody who sees released values or the "
        "configuration that was chosen from them, who may be an adversary with any outside knowledge.",
        "release_type": "One release",
        "release_type_details": "3 noisy answers and what was chosen from them, within a budget that the ledger "
        "enforces and never refunds.",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }
    opendp, dptune = (statement.versions[name] for name in ("opendp", "dptune"))
    assert parts.pop("implementation") == {
        "preprocessing_and_hyperparameter_tuning": "Hyperparameters were tuned under differential privacy, and the "
        "tuning is accounted for in full: the ledger's 3 releases, and what was chosen from them, cost together at "
        "most epsilon = 11.82 at delta = 0.0001, the parameters above. Each was charged durably before private rows "
        "were read for it. Preparation and settings: How it was made.",
        "mechanisms": f"Gaussian mechanism on the mean (3 releases). Noise: OpenDP {opendp}, discrete, unseeded, on a "
        f"grid (no floating-point noise). Software: dptune {dptune}. No measure against timing and other side "
        "channels.",
        "composition": f"{GREW}.",
        "post_processing": "Proposing configurations, models of the loss, recommendations and intervals are computed "
        "from released values only.",
        "justification": "Why.", "utility": "not stated",
        "additional_information": f"Not covered: {'; '.join(['the ' + MAY_TRAIN.format('70 '), *UNCOVERED])}.",
    }  # fmt: skip
    assert parts == {"administrative": {"status": "Draft", "registry_authors": ["Ann", "Bob"], "tier": 3}}


def test_a_record_of_a_choice_says_that_gdp_is_less_sharp(fast_path: Path) -> None:
    loss = record(chosen(fast_path).statement(), ABOUT)["deployment"]["privacy_loss"]
    assert loss == {
        "privacy_unit": "one person",
        "privacy_unit_details": f"Neighbouring data sets: {REPLACE}.",
        "privacy_parameters": {"epsilon": 1.0, "delta": DELTA},
        "privacy_parameters_details": WITHIN.format(0.3227, ", less sharply than the parameters above", 0.251)
        + ATTACK.format("one person", 56.3, 0.125, 2.08),
    }


def test_a_record_of_rounds_has_neither_mu_nor_a_curator(fast_path: Path) -> None:
    parts = record(rounds(fast_path).statement(delta=0.01), ABOUT)["deployment"]
    assert parts["deployment_model"]["model_name"] == "Federated"
    assert parts["privacy_loss"]["privacy_parameters_details"] == ATTACK.format("one agent", 59, 0.18, 3.75)
    assert parts["implementation"]["mechanisms"].startswith("none so far. Noise: OpenDP ")
