"""All numbers of statements, certificates, lists, plans, summaries, reports and figures are read back, in their order.

They are recomputed from the ledger's charges, the public rows and formulas that this file states itself.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import dptune
from cli_tools import invoke
from dptune._statement import large_delta
from dptune._store import AskedQuestion
from dptune.choice.figure import draw_finalists, draw_improvement
from dptune.choice.outlook import Outlook
from dptune.choice.planning import ChoicePlan
from dptune.choice.recorded import recorded_choices, side_by_side
from dptune.figures import draw_budget
from dptune.ledger import certificate
from dptune.ledger.approximate import composed_epsilon
from dptune.ledger.registry import About, record
from dptune.local import LocalRandomizer, UserLedger
from dptune.results import Estimate, NoiseLaw, left_in_words
from dptune.search.answer import Recommendation, RunFacts
from dptune.search.outlook import forecast
from dptune.training import join
from reading import holds, numbers

pytestmark = pytest.mark.usefixtures("own_folder")
DELTA, N, ROWS = 1e-5, 200, 50
RNG = np.random.default_rng(4)
FREE = ("name", "curator", "description", "intended_use", "region", "preparation", "justification")
TYPED: Any = {"curator_type": "Nonprofit", "sector": "Healthcare", "publication_date": "2026-01-01", "authors": ["A"]}
ORDER = [2, 0, 3, 1]  # the candidates are not ranked
V, L = (RNG.uniform(size=(4, m))[ORDER] + 0.15 * np.array(ORDER)[:, None] for m in (ROWS, N))
WEIGHTS = RNG.uniform(1, 3, size=N)


def epsilon(mu: float, delta: float = DELTA) -> float:
    """The definition of GDP's profile, solved for epsilon."""

    def excess(e: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)) - delta

    return float(brentq(excess, 0, 100))


# ---- statements, certificates and lists ------------------------------------------------------------------------


@dataclass
class Spent:
    """A ledger, and its numbers: whole and spent (mu, epsilon), releases, and the numbers of some rows."""

    ledger: dptune.PrivacyLedger
    budget: tuple[float, float]
    spent: tuple[float, float]
    releases: int
    rows: dict[str, list[float]]


def of_gdp() -> Spent:
    """A budget in mu that was raised after two of three releases."""
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0, 1))
    for key, mu in (("a", 0.3), ("b", 0.6), ("c", 0.4)):
        if key == "c":
            ledger.raise_budget(dptune.Budget.gdp(2.5))
        privatizer.observe("x", L[0] / 2)
        privatizer.release(privatizer.mean_query("x", mu), scope="s", key=key)
    spent = math.sqrt(0.3**2 + 0.6**2 + 0.4**2)
    return Spent(ledger, (2.5, epsilon(2.5)), (spent, epsilon(spent)), 3, {"Raised": [1.0, 2]})


def chosen(eps: float, **options: Any) -> tuple[dptune.PrivacyLedger, Any, ChoicePlan]:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.approximate_dp(eps, DELTA))
    privatizer = dptune.LossPrivatizer(ledger, n=N, person_weights=WEIGHTS)
    about: dict[str, Any] = {"name": "svc", "default_place": 2, "even_if_hopeless": True, **options}
    found = dptune.select(L, privatizer, public_losses=V, **about)
    return ledger, found, ChoicePlan.read(ledger.fact("svc", "plan"))


def of_a_divided_choice() -> Spent:
    """A choice with a limit of its own, which leaves a part to a report."""
    ledger, _, plan = chosen(4.0, report_share=0.3, estimate_share=0.2)
    limits = ledger.filter.limits
    gaussian, choice = (each for each in (plan.estimate_mu, plan.eta))
    charges = ledger.charges()
    assert [charges[1].mu, charges[0].description["eta"]] == pytest.approx([gaussian, choice], rel=1e-6)
    whole = composed_epsilon(limits.mu, limits.eta, DELTA)
    spent = math.hypot(gaussian, plan.choice_mu), composed_epsilon(gaussian, choice, DELTA)
    stated = [4.0, DELTA, spent[1]]
    assert whole == pytest.approx(4.0, rel=1e-4)
    rows = {"Promised": stated, "Divided": [limits.eta, limits.mu]}
    return Spent(ledger, (ledger.mu, 4.0), spent, 2, rows)


def of_a_pure_choice() -> Spent:
    ledger, _, plan = chosen(1.0, estimate_share=0.25)
    assert plan.pure
    rows = {"Promised": [1.0, DELTA, 1.0], "Divided": [1.0, 0]}
    return Spent(ledger, (ledger.mu, 1.0), (ledger.spent(), 1.0), 2, rows)


SPENT: dict[str, Callable[[], Spent]] = {"gdp": of_gdp, "divided": of_a_divided_choice, "pure": of_a_pure_choice}


@pytest.mark.parametrize("kind", SPENT)
def test_statements_certificates_and_lists_state_the_ledgers_numbers(kind: str) -> None:
    has = SPENT[kind]()
    ledger, stated = has.ledger, has.ledger.statement(delta=DELTA)
    wanted = {
        "Guarantee": [*has.budget, DELTA],
        "Spent so far": [*has.spent, DELTA, has.releases],
        **has.rows,
    }
    in_rows = dict(stated.rows())
    markdown = dict(re.findall(r"^\| ([\w ]+) \| (.*) \|$", stated.to_markdown(), re.MULTILINE))
    plain = {name: line[17:] for line in stated.to_text().splitlines() for name in wanted if line[2:17].strip() == name}
    for rendering in (in_rows, markdown, plain):
        assert {name: numbers(rendering[name].partition(". The guarantee")[0]) for name in wanted} == {
            name: pytest.approx(each, rel=6e-3) for name, each in wanted.items()
        }
    data, near = stated.to_dict(), {"rel": 2e-3}
    for name, (mu, eps) in (("budget", has.budget), ("spent", has.spent)):
        assert data[name] == pytest.approx({"mu": mu, "epsilon": eps}, **near)
    mechanisms: Any = data["mechanisms"]
    assert data["releases"] == has.releases == sum(each["releases"] for each in mechanisms)
    paper = certificate.certificate(ledger, stated)
    holds(paper["budget"], has.budget[1], DELTA)
    holds(paper["spent"], has.spent[1], DELTA, has.releases)
    assert sum(row["releases"] for row in paper["released"]) == has.releases
    if kind == "gdp":
        right, accused = float(norm.cdf(2.5 / 2)), float(norm.cdf(2.5 + norm.ppf(0.01)))
        holds(paper["risk"], 100 * right, 100, 50, 2 * right - 1, 1, 100, 100 * accused, 100)
    shown = json.loads(invoke("show", "ledger.db", "--format", "json"))
    assert shown["budget"]["mu_in_gdp"] == pytest.approx(has.budget[0], **near)
    assert shown["spent"]["mu_in_gdp"] == pytest.approx(has.spent[0], **near)
    title = invoke("show", "ledger.db").splitlines()[0].partition(": ")[2]
    pair = [] if kind == "gdp" else [has.budget[1], DELTA]
    holds(title, *pair, has.spent[0], has.budget[0], has.ledger.remaining())
    left = {"gdp": [math.sqrt(2.5**2 - has.spent[0] ** 2), 2.5], "pure": [0, 1, DELTA]}
    if kind in left:
        holds(left_in_words(ledger), *left[kind])
    assert left_in_words(ledger, planned=True) == left_in_words(ledger)[:-1] + ", some of it planned by this run."


def test_a_registrys_record_and_a_local_statement_have_their_numbers() -> None:
    has = of_gdp()
    about = About(**dict.fromkeys(FREE, "x"), **TYPED)
    loss = record(has.ledger.statement(delta=DELTA), about)["deployment"]["privacy_loss"]
    assert (loss["number_of_privacy_units"], loss["privacy_parameters"]["delta"]) == (N, DELTA)
    assert loss["privacy_parameters"]["epsilon"] == pytest.approx(has.budget[1], rel=1e-4)
    said = loss["privacy_parameters_details"].partition("All releases are")[2].partition("An attacker")[0]
    holds(said, 2.5, has.spent[0])
    users = UserLedger("users.db", cap=2.0)
    for user, price, replies in (("ann", 0.75, 2), ("bob", 0.5, 1)):
        for key in range(replies):
            users.reply(LocalRandomizer(price, 1.0), 0.3, user=user, key=str(key))
    stated = users.statement()
    rows, data = dict(stated.rows()), stated.to_dict()
    holds(rows["Guarantee"], 2, 0)
    holds(rows["Spent so far"], 1.5, 0, 3, 2)
    kept = {name: data[name] for name in ("replies", "users", "cap", "spent")}
    assert kept == {"replies": 3, "users": 2, "cap": {"epsilon": 2.0}, "spent": {"epsilon": 1.5}}


def test_a_recommendations_summary_has_its_numbers() -> None:
    wide = float(norm.ppf(0.975)) * 0.02
    run = RunFacts("12 of 14 trials", people=90, loss=Estimate(0.4, 0.02, True, within=(0, 1)), left="Budget left.")
    about: dict[str, Any] = {"defaults": {"C": 0.3}, "run": run}
    done = Recommendation({"C": 2.5}, improvement=Estimate(0.2, 0.02, True, cut=0.9), **about).summary().splitlines()
    holds(done[0], 0.3, 0.2, 95, 0.2 - wide, 0.2 + wide, 0.9)
    assert done[1].startswith("Chosen: ")
    holds(done[1], 2.5, 12, 14)
    holds(done[2], 0.4, 95, 0.4 - wide, 0.4 + wide)
    holds(done[-1], 90, 90)
    so_far = Recommendation({"C": 2.5}, hint=Estimate(0.05, 0.02, True), missing="2 trials.", **about).summary()
    assert so_far.splitlines()[1].startswith("So far: ")
    holds(so_far.splitlines()[0], 0.3, 0.05)
    for row in forecast(200, (1.0, 5.0), 2, mu=1.0, trials=20, default=True):
        assert row["sigma / clip"] == pytest.approx(row["sigma"] / 4)
        assert row["shows"] == pytest.approx((1.96 + 1.645) * math.sqrt(2) * row["final estimate"])


def test_a_question_has_its_first_and_last_day_and_its_number_of_releases() -> None:
    days = ("2026-01-02", "2026-01-03", "2026-03-04")
    asked = [AskedQuestion("s", str(i), "a mean", day, [float(i)]) for i, day in enumerate(days)]
    mark = {"ledger": "x", "seq": 3, "hash": "h"}
    stand_in: Any = SimpleNamespace(mark=lambda: mark, asked=lambda rows: asked[:rows])
    stated = of_gdp().ledger.statement(delta=DELTA)
    for rows, first, last in ((3, days[0], days[2]), (2, days[0], days[1]), (1, days[0], days[0])):
        data = certificate.certificate(stand_in, stated, rows=rows, values=True)
        assert "1 releases" not in str(data) + certificate.page(data)
        days_of = " to ".join(dict.fromkeys((first, last)))
        page = " ".join(certificate.page(data).split())
        assert f"{rows} release{'s' * (rows > 1)}, {days_of});" in page
        (row,) = data["released"]
        assert row == {
            "study": "s", "question": "a mean", "releases": rows, "first": first, "last": last,
            "values": {str(i): [float(i)] for i in range(rows)},
        }  # fmt: skip


def test_a_plan_says_how_many_people_would_show_what_public_rows_expect() -> None:
    about: dict[str, Any] = {"name": "x", "spends": "", "risk": "", "mu": 1.0, "clip": (0, 1), "gain": 0.1}
    for sigma, expected in ((0.1, 0.2), (0.1, 0.05)):
        plan = Outlook(100, 50, 4, 0.3, 0.5, noise=NoiseLaw(sigma), expected=expected, **about)
        line = next(each for each in str(plan).splitlines() if each.startswith("Public rows expect"))
        often = round(100 * norm.cdf(expected / sigma - norm.ppf(0.975)))
        holds(line, expected, often, 95, math.ceil(100 * (norm.ppf(0.975) + norm.ppf(0.95)) * sigma / expected))


def test_a_joint_statement_has_the_sum_or_the_largest() -> None:
    ledgers = [dptune.PrivacyLedger(f"{mu}.db", dptune.Budget.gdp(mu), dataset=str(mu)) for mu in (1.0, 2.0)]
    for disjoint, whole in ((False, math.hypot(1, 2)), (True, 2.0)):
        stated = join(ledgers, disjoint=disjoint, delta=DELTA)
        data: Any = stated.to_dict()
        assert (data["disjoint"], data["delta"], len(data["parts"])) == (disjoint, DELTA, 2)
        assert data["epsilon"] == pytest.approx(epsilon(whole), rel=1e-3)
        rows = dict(reversed(stated.rows()))  # the first of a name
        holds(rows["Guarantee"], epsilon(whole), DELTA)
        assert rows["Conditions"] == data["conditions"] in stated.to_text()
    stated_at = {f"{delta}.db": delta for delta in (1e-6, 1e-4, 1e-5)}
    for place, delta in stated_at.items():
        dptune.PrivacyLedger(place, dptune.Budget.approximate_dp(1.0, delta), dataset=place)
    assert json.loads(invoke("statement", *stated_at, "--format", "json"))["delta"] == 1e-6
    holds(large_delta(0.3, 4)[0], 0.3, 1, 0.25)
    assert large_delta(0.2, 4) == ()


def test_a_raised_budget_is_printed_as_it_was_given() -> None:
    dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(1.0))
    mu = brentq(lambda mu: epsilon(mu, 1e-6) - 9, 0.5, 5)
    said = invoke("raise-budget", "ledger.db", "--epsilon", "9", "--delta", "1e-6").partition(" in all: ")[2]
    holds(said, 9, 1e-6, 0, mu, mu)
    said = invoke("raise-budget", "ledger.db", "--mu", "4").splitlines()[0]
    holds(said.partition(" in all: ")[2], 0, 4, 4)


def test_a_budgets_figure_has_its_steps_its_line_and_its_label() -> None:
    has = of_gdp()
    axes = plt.figure().subplots()
    draw_budget(axes, has.ledger.charges("s"), has.ledger, 1e-6)
    steps, line = axes.lines
    assert list(steps.get_ydata()) == pytest.approx(list(np.sqrt(np.cumsum([0.09, 0.36, 0.16]))))
    assert list(line.get_ydata()) == [2.5, 2.5]
    holds(line.get_label(), epsilon(2.5, 1e-6), 1e-6, 2.5)
    assert axes.get_ylim() == pytest.approx((0, 1.15 * 2.5))
    plt.close("all")


# ---- a choice ----------------------------------------------------------------------------------------------------


def test_plan_and_summary_of_a_choice_state_the_ledgers_numbers() -> None:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(3.0))
    privatizer = dptune.LossPrivatizer(ledger, n=N, person_weights=WEIGHTS)
    default = int(np.argmax(V.mean(axis=1)))
    choice = dptune.PublicChoice(V, privatizer, name="svc", default_place=default, mu=2.5, estimate_share=0.36)
    moved = 2 * WEIGHTS.max() / WEIGHTS.sum()  # one person moves a cut mean of width 1 by half of it at most
    outlook, best = choice.outlook, int(np.argmin(V.mean(axis=1)))
    plan, clip = choice._plan, (0.0, 2 * V.max())
    text = str(outlook).splitlines()
    holds(text[0], N, 4, V[best].mean(), V[default].mean())
    holds(text[1], 2.5, 3, *clip)
    sigma = outlook.noise.sigma if outlook.noise else 0.0
    shows = float(norm.ppf(0.975) + norm.ppf(0.95)) * sigma
    holds(text[2], shows, 95, float(f"{outlook.gain:.2g}"))
    holds(next(line for line in text if line.startswith("Risk")), math.ceil(100 * norm.cdf(3 / 2)), 100, 50)
    found = choice.choose(dict(enumerate(L)))
    gain = found.improvement
    assert gain is not None
    D = V[default] - V[found.index]
    r = gain.radius
    cut = np.clip(D, -r, r)
    spread = cut.std() * math.sqrt(1 / ROWS + (WEIGHTS**2).sum() / WEIGHTS.sum() ** 2)
    assert (gain.predicted, gain.sampling, gain.beyond) == pytest.approx(
        (cut.mean(), spread, (D - cut).mean()), abs=1e-12
    )
    assert gain.sigma == pytest.approx(moved * r / (2.5 * 0.6), rel=1e-5)
    half = float(norm.ppf(0.975)) * gain.sigma
    assert plan.choice_mu == pytest.approx(2.5 * 0.8)
    lines = found.summary("it", left=left_in_words(ledger)).splitlines()
    assert outlook.noise is not None
    assert found.index != best or outlook.noise.sigma == pytest.approx(gain.sigma)
    holds(lines[0], gain.value, 95, gain.value - half, gain.value + half)
    holds(lines[1], 4, 2.5)
    holds(lines[2].replace("+-", ""), cut.mean(), r, *[gain.value - half] * (gain.beyond >= 0))
    holds(lines[-2], math.sqrt(3**2 - 2.5**2), 3)
    holds(lines[-1], N, N)
    stored = found.to_dict()["improvement"]
    assert stored["interval"] == pytest.approx([gain.value - half, gain.value + half])
    rows = {row[""]: row["x"] for row in side_by_side({"x": recorded_choices(ledger)[0]})}
    holds(rows["people"], N)
    holds(rows["candidates"], 4, 1)
    holds(rows["chosen"], found.index)
    holds(rows["improvement"], gain.value)
    holds(rows["95% interval"], gain.value - half, gain.value + half)
    holds(rows["public rows predicted"], cut.mean())
    left, right = plt.figure().subplots(1, 2)
    draw_finalists(left, ledger.charges("svc"))
    order = np.argsort(V.mean(axis=1))
    assert list(left.lines[0].get_ydata()) == pytest.approx(list(V.mean(axis=1)[order]))
    assert list(left.lines[1].get_ydata()) == pytest.approx([V[default].mean()] * 2)
    assert left.lines[2].get_ydata()[0] == pytest.approx(V[found.index].mean())
    assert left.lines[2].get_xdata()[0] == 1 + list(order).index(found.index)
    draw_improvement(right, ledger.charges("svc"))
    bars = [each.lines[2][0].get_segments()[0][:, 0] for each in right.containers]
    wide = float(norm.ppf(0.975)) * spread
    assert np.array(bars) == pytest.approx(
        np.array([[cut.mean() - wide, cut.mean() + wide], [gain.value - half, gain.value + half]]), rel=1e-6
    )
    plt.close("all")
