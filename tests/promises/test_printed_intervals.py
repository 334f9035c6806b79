"""Every printed interval is the release plus or minus the 97.5% quantile of its noise, from the ledger."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import norm

import dptune
from dptune import Budget, LossPrivatizer, PrivacyLedger, SearchRun, figures
from dptune.choice.figure import draw_improvement
from dptune.choice.planning import ChoicePlan
from dptune.choice.result import PairedEstimate, Selection
from dptune.cli.releases import release_rows
from dptune.ledger.ledger import PLAN
from dptune.results import Estimate
from dptune.search import VALUES

Z = NormalDist().inv_cdf(0.975)
N, MU, SHARE = 80, 1.0, 0.3
RANGE = re.compile(r"(-?\d\S*?),? \(?95%[^:\d]*(?:: | )(-?\d\S*) to (-?[\d.e+-]*\d)")
RNG = np.random.default_rng(0)
LOSSES, PUBLIC = (RNG.uniform(size=(4, rows)) + np.arange(4)[::-1, None] for rows in (N, 40))


GDP = Budget.gdp(MU)


def people(folder: Path, budget: Budget = GDP) -> LossPrivatizer:
    return LossPrivatizer(PrivacyLedger(folder / "ledger.db", budget), n=N, clip=(0.0, 4.0))


@dataclass(frozen=True)
class Printed:
    """Texts whose intervals are about one release, by how much a person moves it, and to what they are cut."""

    scope: str
    key: str
    width: float
    mu: float
    texts: list[str]
    range: tuple[float, float] = (-np.inf, np.inf)
    digits: int = 3
    laplace: bool = False


def told(interval: list[float], value: float) -> str:
    """Numbers of a dictionary as a text."""
    return f"{value:.3g} (95%: {interval[0]:.3g} to {interval[1]:.3g})"


def of_a_choice(folder: Path, name: str, *texts: str) -> Printed:
    ledger = PrivacyLedger(folder / "ledger.db")
    plan, made = ChoicePlan.read(ledger.fact(name, PLAN)), ledger.find(name, "improvement")
    width, mu = 2 * made.note["radius"], plan.estimate_mu
    return Printed(name, "improvement", width, mu, list(texts), laplace=plan.pure)


def selection(folder: Path) -> Printed:
    found = dptune.select(LOSSES, people(folder), name="x", estimate_share=SHARE)
    return Printed("x", "estimate", 4.0, MU * SHARE**0.5, [str(found), found.summary()], (0.0, 4.0), 4)


def public_choice(folder: Path, budget: Budget = GDP) -> Printed:
    about: dict[str, Any] = {"name": "x", "default_place": 0, "estimate_share": SHARE}
    found = dptune.select(LOSSES, people(folder, budget), public_losses=PUBLIC, **about)
    stored: Any = found.to_dict()["improvement"]
    return of_a_choice(folder, "x", str(found), found.summary(), told(stored["interval"], stored["value"]))


def with_laplace_noise(folder: Path) -> Printed:
    said = public_choice(folder, Budget.approximate_dp(2.0, 1e-5))
    assert said.laplace
    ledger, drawn = PrivacyLedger(folder / "ledger.db"), plt.figure().subplots()
    (row,) = (row for row in release_rows(ledger) if row["release"] == "improvement")
    draw_improvement(drawn, ledger.charges("x"))
    (low, high) = drawn.containers[-1].lines[2][0].get_segments()[0][:, 0]
    plt.close("all")
    texts = [told([low, high], row["value"][0]), told(row["intervals"][0], row["value"][0])]
    return replace(said, texts=[*said.texts, *texts])


def a_run(folder: Path, loss: float) -> SearchRun:
    run = SearchRun(VALUES, people(folder), scope="x", space=None, trials=1, final_share=0.5)
    run.finish("0", {"a": 0.5}, np.full(N, loss))
    run.estimate({"a": 0.5}, np.full(N, loss))
    return run


def plotted(folder: Path, loss: float = 1.0) -> Printed:
    run = a_run(folder, loss)
    axes = plt.figure().subplots()
    figures._draw_losses(axes, run.ledger.charges("x"), run.ledger)
    (bar,) = (each for each in axes.containers if getattr(each, "has_yerr", False))
    (low, high), (value,) = bar.lines[2][0].get_segments()[0][:, 1], bar.lines[0].get_ydata()
    plt.close("all")
    text = f"{value:.4g} (95%: {low:.4g} to {high:.4g})"
    return Printed("x", "final", 4.0, run.plan.final_mu, [text], (0.0, 4.0), 4)


WHERE: dict[str, Callable[[Path], Printed]] = {
    "select": selection,
    "select with public_losses=": public_choice,
    "with Laplace noise": with_laplace_noise,
    "dptune plot": plotted,  # noise of .07: beyond the clip, where all intervals are alike, by chance 1e-35
    "dptune plot at the clip": lambda folder: plotted(folder, 0.01),
}


def check(folder: Path, where: str) -> None:
    """Recompute what is printed."""
    said = WHERE[where](folder)
    charge = PrivacyLedger(folder / "ledger.db").find(said.scope, said.key)
    assert charge is not None, f"no release: {said.texts}"
    assert charge.value is not None
    sigma = charge.description["sigma"]
    people_ = PrivacyLedger(folder / "ledger.db").n
    half = Z * sigma
    if said.laplace:
        scale = said.width / people_ / math.log(norm.cdf(said.mu / 2) / norm.cdf(-said.mu / 2))
        half = charge.description["scale"] * math.log(20)
        assert charge.description["scale"] == pytest.approx(scale, rel=1e-4)
    else:
        assert sigma == pytest.approx(said.width / people_ / said.mu, rel=1e-4)
    value = charge.value[0]
    low, high = said.range
    wanted = [f"{min(max(x, low), high):.{said.digits}g}" for x in (value, value - half, value + half)]
    assert said.texts
    for text in said.texts:
        found = RANGE.findall(text)
        assert found, f"no interval in {text!r}"
        assert {tuple(map(float, each)) for each in found} == {tuple(map(float, wanted))}


@pytest.mark.parametrize("where", WHERE)
def test_a_printed_interval_is_that_of_the_release(fast_path: Path, where: str) -> None:
    check(fast_path, where)


@pytest.mark.parametrize("where", ["select", "dptune plot"])
def test_an_interval_of_90_percent_is_found(fast_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = Estimate.interval
    monkeypatch.setattr(Estimate, "interval", lambda self, confidence=0.9: true(self, confidence))
    with pytest.raises(AssertionError):
        check(fast_path, where)


# ---- borders of a choice's verdict ---------------------------------------------------------------------


def of_value(value: float, sigma: float, *, predicted: float = 0.0, off: float = 0.0) -> Selection:
    gain = PairedEstimate(value, sigma, True, radius=1.0, predicted=predicted, sampling=off)
    return Selection(1, 4, None, 1.0, "exponential selection", True, improvement=gain, default=0, people=N)


@pytest.mark.parametrize(("far", "said"), [(1 + 1e-6, "better"), (1 - 1e-6, "not distinguishable"), (-1.1, "worse")])
def test_a_choice_s_verdict_changes_where_its_interval_leaves_0(far: float, said: str) -> None:
    found = of_value(far * Z * 0.1, 0.1)
    assert found.verdict == found.to_dict()["verdict"] == said
    assert found.summary().startswith(f"{said.capitalize()} {'from' if abs(far) < 1 else 'than'} the default: ")
    assert f"the mean loss {'rises' if far < 0 else 'improves'} by {abs(far) * Z * 0.1:.3g} (95%" in found.summary()
    assert f": {(abs(far) - 1) * Z * 0.1:.3g} to {(abs(far) + 1) * Z * 0.1:.3g})" in found.summary()
    steps = {
        "better": "take the model",
        "worse": "Next: keep the default, and report on it. ",
        "not distinguishable": "ask more people",
    }
    assert [step in found.summary() for step in steps.values()] == [said == verdict for verdict in steps]


def test_populations_that_differ_are_named_beyond_three_deviations() -> None:
    for far in (3 - 1e-6, 3 + 1e-6, -3 + 1e-6, -3 - 1e-6):
        found = of_value(0.5 + far * 0.05, 0.03, predicted=0.5, off=0.04)  # hypot(.03, .04) = .05
        assert ("Noise and sampling do not explain the difference" in found.summary()) is (abs(far) > 3)
