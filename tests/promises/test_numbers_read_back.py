"""All numbers of statements, certificates, lists, plans, summaries, reports and figures are read back, in their order.

They are recomputed from the ledger's charges, the public rows and formulas that this file states itself.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.linear_model import Ridge

import dptune
from cli_tools import invoke
from dptune.choice.figure import draw_finalists, draw_improvement
from dptune.choice.planning import ChoicePlan
from dptune.choice.recorded import recorded_choices, side_by_side
from dptune.figures import _draw_losses, draw_budget
from dptune.ledger import certificate
from dptune.ledger.approximate import composed_epsilon
from dptune.ledger.registry import About, record
from dptune.local import LocalRandomizer, UserLedger
from dptune.results import Estimate, improvement_in_words, left_in_words
from dptune.search import VALUES
from dptune.search.algorithms.centred import GENERATION, Generation
from dptune.search.answer import Recommendation, RunFacts
from dptune.search.gp.grouped import Group, GroupedRegression
from dptune.search.outlook import forecast
from report_tools import MODEL, PRIVATE, PUBLIC, report, silent

pytestmark = pytest.mark.usefixtures("own_folder")
DELTA, N, ROWS = 1e-5, 90, 50
RNG = np.random.default_rng(4)
FREE = ("name", "curator", "description", "intended_use", "region", "preparation", "justification")
TYPED: Any = {"curator_type": "Nonprofit", "sector": "Healthcare", "publication_date": "2026-01-01", "authors": ["A"]}
ORDER = [2, 0, 3, 1]  # the candidates are not ranked
V, L = (RNG.uniform(size=(4, m))[ORDER] + 0.15 * np.array(ORDER)[:, None] for m in (ROWS, N))
WEIGHTS = RNG.uniform(1, 3, size=N)


def numbers(text: object) -> list[float]:
    """Numbers of a text, in their order; 95% is 95, and dates and versions are left out."""
    words = re.sub(
        r"\d{4}-\d\d-\d\d[\dT:+]*|\d+\.\d+\.\d+|'[^']*'|mu\^2|\([^()]*arXiv[^()]*\)|\(Dong[^)]*\)", "", str(text)
    )
    return [float(each) for each in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", words)]


def holds(text: object, *wanted: float) -> None:
    """Compare all numbers of a text with these: at least three digits are printed."""
    assert numbers(text) == pytest.approx(list(wanted), rel=6e-3, abs=1e-9), text


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
    holds(title, *pair, has.spent[0], has.budget[0])
    left = {"gdp": [math.sqrt(2.5**2 - has.spent[0] ** 2), 2.5], "pure": [0, 1, DELTA]}
    if kind in left:
        holds(left_in_words(ledger), *left[kind])


def test_a_registrys_record_and_a_local_statement_have_their_numbers() -> None:
    has = of_gdp()
    about = About(**dict.fromkeys(FREE, "x"), **TYPED)
    loss = record(has.ledger.statement(delta=DELTA), about)["deployment"]["privacy_loss"]
    assert (loss["number_of_privacy_units"], loss["privacy_parameters"]["delta"]) == (N, DELTA)
    assert loss["privacy_parameters"]["epsilon"] == pytest.approx(has.budget[1], rel=1e-4)
    said = loss["privacy_parameters_details"].partition("The budget is")[2].partition("An attacker")[0]
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


@pytest.mark.parametrize("sign", [1, -1])
def test_an_estimate_prints_value_interval_and_cut(sign: int) -> None:
    gain = Estimate(0.2 * sign, 0.01, True, cut=0.9)
    half = float(norm.ppf(0.975)) * 0.01
    holds(gain.compared("x"), 0.2 * sign, 95, 0.2 * sign - half, 0.2 * sign + half, 0.9)
    holds(improvement_in_words(gain, "x"), 0.2, 95, 0.2 - half, 0.2 + half, 0.9)


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


def test_a_raised_budget_is_printed_in_mu() -> None:
    dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(1.0))
    holds(invoke("raise-budget", "ledger.db", "--epsilon", "9", "--delta", "1e-6").partition(" is ")[2],
          brentq(lambda mu: epsilon(mu, 1e-6) - 9, 0.5, 5))  # fmt: skip
    holds(invoke("raise-budget", "ledger.db", "--mu", "4").partition(" is ")[2], 4)


def test_a_budgets_figure_has_its_steps_its_line_and_its_label() -> None:
    has = of_gdp()
    axes = plt.figure().subplots()
    draw_budget(axes, has.ledger.charges("s"), has.ledger, 1e-6)
    steps, line = axes.lines
    assert list(steps.get_ydata()) == pytest.approx(list(np.sqrt(np.cumsum([0.09, 0.36, 0.16]))))
    assert list(line.get_ydata()) == [2.5, 2.5]
    holds(line.get_label(), 2.5, epsilon(2.5, 1e-6), 1e-6)
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
    holds(lines[2].replace("+-", ""), cut.mean(), r)
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
    draw_improvement(right, ledger.charges("svc"))
    bars = [each.lines[2][0].get_segments()[0][:, 0] for each in right.containers]
    wide = float(norm.ppf(0.975)) * spread
    assert np.array(bars) == pytest.approx(
        np.array([[cut.mean() - wide, cut.mean() + wide], [gain.value - half, gain.value + half]]), rel=1e-6
    )
    plt.close("all")


def test_the_band_of_a_curve_is_that_of_its_means() -> None:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(2.0))
    run = dptune.SearchRun(
        VALUES, dptune.LossPrivatizer(ledger, n=N, clip=(0, 1)), scope="s", space=None, trials=17, mu=1.0
    )
    for trial in range(17):
        run.finish(str(trial), {"x": trial}, np.full(N, 0.5))
    shown = [each for each in ledger.charges("s") if each.key.startswith("value/")]
    values, window = np.array([each.value[0] for each in shown if each.value]), 17 // 8
    axes = plt.figure().subplots()
    _draw_losses(axes, ledger.charges("s"), ledger)
    kept = [values[i : i + window].mean() for i in range(18 - window)]
    assert list(axes.lines[1].get_ydata()) == pytest.approx(kept)
    half = float(norm.ppf(0.975)) * (1 / N / shown[0].mu) / math.sqrt(window)
    corners = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == pytest.approx((min(kept) - half, max(kept) + half), rel=1e-3)
    assert axes.lines[1].get_label() == f"mean of the last {window}"
    plt.close("all")


# ---- a report ------------------------------------------------------------------------------------------------------


def test_each_cell_of_a_report_is_its_metric(tmp_path: Path) -> None:
    """Text, Markdown, HTML and JSON have each metric's value and both intervals, of everybody and of each group."""
    X, public = PRIVATE[0].copy(), PUBLIC[0].copy()
    for rows in (X, public):
        rows[:, 2] = rows[:, 2] > 0.3
    made = report(
        silent(tmp_path), type(MODEL)().fit(public, PUBLIC[1]), (X, PRIVATE[1]), public=(public, PUBLIC[1]), by=2
    )
    table = [line.strip("| ").split(" | ") for line in made.to_markdown().splitlines() if line.startswith("|")]
    assert table[0][1:4] == ["value", "95%, noise", "95%, noise and sampling"]
    assert [each.rpartition(" = ")[2] for each in table[0][4:]] == list(made.groups)
    rows = {row[0]: row[1:] for row in table[2:]}
    html = re.findall(r"<td>(.*?)</td>", made._repr_html_())
    assert html == [cell for row in table[2:] for cell in row]
    data = made.to_dict()
    everybody, groups = made.metrics, {level: each.metrics() for level, each in made.groups.items()}
    assert list(rows) == list(everybody) == list(data["metrics"])
    for name, metric in everybody.items():
        line = next(each for each in str(made).splitlines() if each.strip().startswith(f"{name}:"))
        own = [metric.value, *metric.interval]
        parts = [[metric.value], list(metric.interval), list(metric.population)]
        parts += [[g[name].value, *g[name].interval] for g in groups.values()]
        for cell, wanted in zip([*rows[name], line.partition(":")[2]], [*parts, own], strict=True):
            assert numbers(cell) == pytest.approx([each for each in wanted if np.isfinite(each)], abs=6e-4, rel=6e-3), (
                name
            )
        for stored, of in ((data, everybody), *((data["groups"][level], each) for level, each in groups.items())):
            kept = stored["metrics"][name]
            assert [kept["value"], *kept["interval"], *kept["population"]] == pytest.approx(
                [of[name].value, *of[name].interval, *of[name].population], nan_ok=True
            )
    holds(data["notes"][0].partition(": ")[2], 0.5, 400)
    roc, calibration, confusion = made.plot().axes
    area, curve = made.roc_auc_score, made.calibration_curve()
    assert np.array(roc.lines[0].get_xydata()) == pytest.approx(np.array(made.roc_curve()[:2]).T)
    holds(roc.lines[0].get_label(), *(round(each, 2) for each in (area.value, *area.interval)))
    bars = np.array([each[:, 1] for each in calibration.containers[0].lines[2][0].get_segments()])
    assert bars == pytest.approx(np.array([share.interval for _, share in curve]))
    assert list(calibration.containers[0].lines[0].get_xdata()) == pytest.approx([p for p, _ in curve])
    counts = made.confusion_matrix
    for text, (i, j) in zip(confusion.texts, np.ndindex(2, 2), strict=True):
        assert text.get_position() == (j, i)
        said = [round(counts[i, j]), round(100 * counts[i, j] / counts[i].sum())]
        assert [int(each) for each in re.findall(r"\d+", text.get_text())] == said


def test_a_regressions_figure_has_its_intervals_and_quantiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.standard_t(4, size=700)
    made = report(silent(tmp_path), Ridge().fit(X[:300], y[:300]), (X[300:], y[300:]), public=(X[:300], y[:300]))
    residuals, bars = made.plot().axes
    r2 = made.metrics["r2_score"]
    holds(bars.get_title().partition("R²")[2], *(round(each, 2) for each in (r2.value, *r2.interval)))
    others = [each for name, each in made.metrics.items() if name != "r2_score"]
    for lines, ends in zip(bars.collections, ("population", "interval"), strict=True):
        assert [list(each[:, 0]) for each in lines.get_segments()] == [
            pytest.approx(list(getattr(each, ends))) for each in others
        ]
    edges = np.array([-made.ranges.most, *made.ranges.residuals, made.ranges.most])
    for row, counts in enumerate(made.residual_table()):
        below = np.cumsum([0, *counts]) / counts.sum()
        wide, half = (residuals.collections[2 * row + i].get_segments()[0][:, 1] for i in (0, 1))
        assert np.interp(wide, edges, below) == pytest.approx([0.1, 0.9])
        assert np.interp(half, edges, below) == pytest.approx([0.25, 0.75])
        assert np.interp(residuals.lines[row].get_ydata(), edges, below) == pytest.approx([0.5])
    plt.close("all")


def test_bars_of_generations_are_two_deviations_of_the_surrogate() -> None:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(4.0))
    space = dptune.Space({"a": dptune.Float(0.0, 1.0)})
    privatizer = dptune.LossPrivatizer(ledger, n=400, clip=(0, 1))
    run = dptune.SearchRun(dptune.CENTRED, privatizer, scope="s", space=space, trials=12, mu=3.0)
    for trial in range(12):
        x = run.ask(trial)
        run.finish(str(trial), x, np.full(400, x["a"] ** 2))
    axes = plt.figure().subplots()
    _draw_losses(axes, ledger.charges("s"), ledger)
    bar = next(each for each in axes.containers if getattr(each, "has_yerr", False))
    generations = [each for each in ledger.charges("s") if each.key.startswith(GENERATION)]
    made = [Generation.from_note(c.note, np.array(c.value), c.description["sigma"]) for c in generations]
    model = GroupedRegression(1, memory=100)
    model.fit([Group(each.points, each.values, each.sigma) for each in made])
    places = np.concatenate([each.points[: each.new] for each in made])
    apart = [model.difference(x, np.array([0.5])) for x in places]
    segments = np.array([each[:, 1] for each in bar.lines[2][0].get_segments()])
    wanted = [[mean - 1.96 * deviation, mean + 1.96 * deviation] for mean, deviation in apart]
    assert segments == pytest.approx(np.array(wanted), abs=1e-9)
    plt.close("all")
