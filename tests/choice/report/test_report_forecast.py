"""The expected half-widths of a report are those of reports, and a plan prints them."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

import dptune
from cli_tools import invoke
from dptune.choice.report.forecast import AREA, Expected
from dptune.choice.report.plan import make_plan
from dptune.choice.report.public_rows import how_to_ask, public_scores
from dptune.choice.report.result import Report
from dptune.ledger.gdp import Budget
from dptune.privacy.stored_losses import People


def people(rng: Any, n: int, prevalence: float, area: float) -> tuple[Any, Any]:
    y = (rng.random(n) < prevalence).astype(int)
    return (rng.normal(size=n) + norm.ppf(area) * math.sqrt(2) * y)[:, None], y


@pytest.mark.parametrize(
    ("n", "mu", "prevalence", "area", "tolerance"),
    [
        (400, 1, 0.375, 0.85, 0.25),
        (1000, 0.5, 0.375, 0.8, 0.25),
        (300, 0.5, 0.3, 0.7, 0.25),
        (650, 1, 0.09, 0.8, 0.4),
    ],
)
def test_half_widths_are_those_of_reports(n: int, mu: float, prevalence: float, area: float, tolerance: float) -> None:
    """The median of 24 seeded reports of four models; with 27 public positives, precision varies by model."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        public = people(rng, 300, prevalence, area)
        model = LogisticRegression().fit(*public)
        scores = public_scores(model, how_to_ask(model), public, None, 5)
        plan = make_plan(model, scores, mu=mu, n=n, largest_weight=1 / n, threshold=None, by=None, bins=None)
        query = plan.query()
        sigma = query.diameter / (mu * n)
        for _ in range(6):
            X, y = people(rng, n, prevalence, area)
            codes = plan.loss()(y, model.predict_proba(X), labels=[0, 1])
            value = query.mean(People.of(n, None, None), codes) + rng.normal(0, sigma, query.dimension)
            for name, metric in Report.of(plan, value, sigma).metrics.items():
                ends = metric.interval, metric.population
                found.setdefault(name, []).append(tuple((high - low) / 2 for low, high in ends))
    expected = Expected(n, mu, prevalence, area=area).half_widths()
    assert expected.keys() == found.keys()
    for name, widths in found.items():
        noise, population = np.median(widths, axis=0)
        assert expected[name]["noise"] == pytest.approx(noise, rel=tolerance), name
        assert expected[name]["noise and sampling"] == pytest.approx(population, rel=tolerance), name


def test_subgroups_and_a_small_price_widen_and_hide() -> None:
    usual, divided, poor = (Expected(650, mu, 0.3, groups) for mu, groups in ((0.5, 1), (0.5, 3), (0.005, 3)))
    for name, widths in divided.half_widths().items():
        if name != "expected_calibration_error":
            assert widths["noise, in a group"] > 1.4 * usual.half_widths()[name]["noise"], name
    assert "noise, in a group" not in usual.half_widths()["roc_auc_score"]
    assert list(usual.advice()) == []
    assert {"roc_auc_score", "roc_auc_score in a group", "recall_score"} <= set(poor.hidden())
    said = " ".join(poor.advice())
    assert "At mu = 0.005 the noise is likely to hide" in said
    assert "More people or a larger mu do." in said
    assert "AUC hidden by noise" in poor.words()


def hidden_by_most(expected: Expected) -> set[str]:
    """The metrics of all people and of the first group that at least half of the reports hide."""
    hidden = set()
    for group in (False, True)[: 1 + (expected.groups > 1)]:
        reports = [each.groups["0"].metrics() if group else each.metrics for each in expected.reports]
        for name in reports[0]:
            if 2 * sum(math.isnan(float(each[name])) for each in reports) >= len(reports):
                hidden.add(f"{name} in a group" if group else name)
    return hidden


@pytest.mark.parametrize(("n", "mu", "groups"), [(300, 0.25, 12), (650, 0.02, 1), (300, 0.05, 3), (100, 0.1, 2)])
def test_advice_shows_some_of_what_half_of_the_reports_hide(n: int, mu: float, groups: int) -> None:
    asked = Expected(n, mu, 0.3, groups)
    hidden = asked.hidden()
    assert set(hidden) == hidden_by_most(asked)
    first, *more = asked.advice()
    assert first == f"At mu = {mu:.3g} the noise is likely to hide {', '.join(hidden)}."
    fewer = [("bins=2, which asks for decisions only,", replace(asked, bins=2))]
    if groups > 1:
        fewer += [("no subgroups", replace(asked, groups=1)), ("neither", replace(asked, groups=1, bins=2))]
    for words, report in fewer:
        within = [name for name in hidden if report.groups > 1 or "in a group" not in name]
        if shown := [name for name in within if name not in hidden_by_most(report)]:
            assert more == [f"With {words} it shows {', '.join(shown)}."]
            return
    assert more == ["Fewer bins or subgroups do not help. More people or a larger mu do."]


def test_the_line_of_a_plan_has_the_widths_of_its_metrics() -> None:
    expected = Expected(400, 0.6, 0.2)
    names = {"AUC": "roc_auc_score", "sensitivity": "recall_score", "accuracy": "accuracy_score"}
    said = [f"{word} +-{expected.half_widths()[name]['noise']:.2g}" for word, name in names.items()]
    assert expected.words() == f"{', '.join(said)} (95%, by noise; mu = 0.6, 20% positive, AUC 0.8, no groups)"


def test_the_command_line_prints_what_is_expected() -> None:
    command = ("plan", "--n", "650", "--report", "--prevalence", "0.09", "--groups", "2")
    for options, mu, area in (
        (("--mu", "0.18"), 0.18, AREA),
        (("--epsilon", "2", "--auc", "0.9"), Budget.approximate_dp(2.0, 1e-5).mu, 0.9),
    ):
        expected = Expected(650, mu, 0.09, 2, area)
        printed = json.loads(invoke(*command, *options, "--format", "json"))
        assert printed["advice"] == list(expected.advice())
        for row in printed["metrics"]:
            widths = expected.half_widths()[row.pop("metric")]
            assert row.keys() == widths.keys()
            for kind, width in row.items():
                assert math.isnan(widths[kind]) if width is None else width == pytest.approx(widths[kind], rel=0.05)
        text = invoke(*command, *options)
        assert f"if the AUC is {area:g}" in text
        assert all(sentence in text for sentence in expected.advice())
        assert "roc_auc_score" in text


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_the_plan_of_a_choice_has_a_line_of_its_report(ledger: dptune.PrivacyLedger, share: float) -> None:
    losses = np.random.default_rng(0).random((3, 60))
    privatizer = dptune.LossPrivatizer(ledger, n=500, clip=(0.0, 1.0))
    settings: Any = {"name": "c", "report_share": share, "loss": "zero_one"}
    planned = str(dptune.PublicChoice(losses, privatizer, prevalence=0.2, **settings).outlook)
    assert f"Report: {Expected(500, ledger.mu * math.sqrt(share), 0.2).words()}." in planned
    assert "Report:" not in str(dptune.PublicChoice(losses, privatizer, **settings).outlook)
