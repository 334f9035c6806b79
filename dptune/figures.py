"""Pictures of a run, from its ledger alone: everything shown is released, so it may be published."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dptune._numbers import rounded_up
from dptune._style import drawing, save
from dptune.choice.figure import draw_finalists, draw_improvement, is_choice
from dptune.errors import InputError
from dptune.ledger.gdp import Spent
from dptune.ledger.ledger import Charge, PrivacyLedger
from dptune.privacy.query import Interval
from dptune.results import Estimate
from dptune.search.agreement import PRIVATIZER
from dptune.search.algorithms.centred import GENERATION, Generation
from dptune.search.final_estimate import FINAL
from dptune.search.gp.grouped import Group, GroupedRegression
from dptune.search.replay import VALUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save_figure(
    ledger: PrivacyLedger,
    path: str | Path,
    *,
    scope: str | None = None,
    delta: float | None = None,
    dark: bool = False,
) -> Path:
    """Write a figure: released loss against trial, and budget spent against trial.

    Args:
        ledger: the ledger of the run.
        path: file to write; the ending chooses the format.
        scope: the study; default the only one.
        delta: at which epsilon is given; default that of the budget, if it was stated as (epsilon, delta), else 1e-5.
        dark: draw on dark paper.

    Raises:
        InputError: there is no such run, or several to choose from; or the file cannot be written.
        MissingExtra: matplotlib is not installed.
    """
    charges = ledger.charges(_only_scope(ledger, scope))
    delta = (ledger.budget.stated_delta or 1e-5) if delta is None else delta
    wide = 12 if any(map(is_choice, charges)) else 9
    with drawing(dark=dark) as Figure:
        figure = Figure(figsize=(wide, 3.4), layout="constrained")
        _draw(figure, charges, ledger, delta)
        save(figure, Path(path))
    return Path(path)


def _draw(figure: Figure, charges: list[Charge], ledger: PrivacyLedger, delta: float) -> None:
    if any(map(is_choice, charges)):
        left, middle, right = figure.subplots(1, 3)
        draw_finalists(left, charges)
        draw_improvement(middle, charges)
        charges = ledger.charges()  # a report is another run
    else:
        left, right = figure.subplots(1, 2)
        _draw_losses(left, charges, ledger)
    draw_budget(right, charges, ledger, delta)
    if not ledger.private:
        figure.suptitle("NOT PRIVATE: seeded noise", color="crimson", fontweight="bold")


def _only_scope(ledger: PrivacyLedger, scope: str | None) -> str:
    scopes = sorted({charge.scope for charge in ledger.charges()})
    if not scopes:
        raise InputError("the ledger has no releases, so there is nothing to draw.")
    runs = [each for each in scopes if ledger.find(each, "report") is None]
    if not runs or scope in set(scopes) - set(runs):
        what = f"{scope!r} is a report" if runs else f"the ledger has reports only: {scopes}"
        raise InputError(f"{what}. Draw a report by `dptune report LEDGER --out FILE`, or by its method plot(path).")
    if scope is None and len(runs) == 1:
        return runs[0]
    if scope not in runs or scope is None:
        given = "" if scope is None else f"; got {scope!r}"
        raise InputError(f"name the study to draw (scope=, or --study), one of {runs}{given}.")
    return scope


def _draw_generations(axes: Axes, charges: list[Charge]) -> None:
    """Draw the estimated mean loss at each new point, minus the loss at the cube's centre, from all differences."""
    answered = [charge for charge in charges if charge.value]
    generations = [Generation.from_note(c.note, np.array(c.value), float(c.description["sigma"])) for c in answered]
    if not generations:
        return
    surrogate = GroupedRegression(generations[0].points.shape[1], memory=sum(len(g.points) for g in generations))
    surrogate.fit([Group(g.points, g.values, g.sigma) for g in generations])
    points = np.concatenate([g.points[: g.new] for g in generations])  # (trials, d)
    mean, covariance = surrogate.joint(np.concatenate([points, np.full((1, points.shape[1]), 0.5)]))
    differences = mean[:-1] - mean[-1]  # (trials,)
    variances = np.diag(covariance)[:-1] + covariance[-1, -1] - 2 * covariance[:-1, -1]
    half = 1.96 * np.sqrt(np.maximum(variances, 0.0))
    trials = np.arange(len(points))
    axes.errorbar(
        trials, differences, yerr=half, fmt=".", color="0.65", elinewidth=0.6, label="posterior mean, 1.96 deviations"
    )
    middles = np.cumsum([g.new for g in generations]) - [(g.new + 1) / 2 for g in generations]
    averages = [part.mean() for part in np.split(differences, np.cumsum([g.new for g in generations])[:-1])]
    axes.plot(middles, averages, "-", color="C0", label="mean of a generation")


def _draw_losses(axes: Axes, charges: list[Charge], ledger: PrivacyLedger) -> None:
    generations = [c for c in charges if c.key.startswith(GENERATION)]
    if generations:
        _draw_generations(axes, generations)
        axes.set(xlabel="trial", ylabel="mean loss less that at the centre", title="What the released differences say")
        _draw_estimate(axes, charges, ledger, None)
        return
    shown = [c for c in charges if c.key.startswith(VALUE) and c.value is not None]
    values = np.array([c.value[0] for c in shown if c.value is not None])  # (trials,)
    trials = np.arange(len(values))
    axes.plot(trials, values, ".", color="0.65", label="released value of a trial")
    if len(values):
        sigma = float(shown[0].description["sigma"])
        window = max(len(values) // 8, 1)
        kept = np.convolve(values, np.ones(window) / window, mode="valid")  # (trials - window + 1,)
        axes.plot(trials[window - 1 :], kept, "-", color="C0", label=f"mean of the last {window}")
        band = 1.96 * sigma / window**0.5
        axes.fill_between(
            trials[window - 1 :], kept - band, kept + band, color="C0", alpha=0.15, label="95% noise band"
        )
    axes.set(xlabel="trial", ylabel="mean clipped loss", title="Released loss")
    _draw_estimate(axes, charges, ledger, len(values))


def _draw_estimate(axes: Axes, charges: list[Charge], ledger: PrivacyLedger, trial: int | None) -> None:
    """Draw the recommended model's released loss at a trial, or in the legend (None), as differences have no level."""
    final = next((c for c in charges if c.key == FINAL and c.value is not None), None)
    if final is not None and final.value:
        people: Any = ledger.fact(final.scope, PRIVATIZER)
        sigma = float(final.description["sigma"])
        mean, low, high = Estimate.of_loss(
            final.value[0], sigma, Interval(*people["clip"]), private=final.private
        ).shown()
        if trial is None:
            label = f"recommended: {mean:.3g}, 95% {low:.3g} to {high:.3g}"
            axes.plot([], [], "o", color="C1", label=label)
        else:
            error = [[mean - low], [high - mean]]
            axes.errorbar(trial, mean, yerr=error, fmt="o", color="C1", capsize=3, label="recommended, 95%")
    axes.legend(fontsize="x-small")


def _trials_of(charge: Charge) -> int:
    """Return the number of trials of a charge: one value, or the new points of a generation."""
    return int(charge.note["new"]) if charge.key.startswith(GENERATION) else int(charge.key.startswith(VALUE))


def draw_budget(axes: Axes, charges: list[Charge], ledger: PrivacyLedger, delta: float) -> None:
    """Draw the spent budget against the number of trials, and the whole budget."""
    costs = accumulate(charges, lambda so_far, c: so_far.plus(c.mu, c.eta, c.epsilon), initial=Spent())
    spent = [each.mu for each in costs][1:]
    choice = any(map(is_choice, charges))
    trials = np.cumsum([1 if choice else _trials_of(c) for c in charges])  # (releases,) trials released by then
    if choice:
        trials = np.r_[0, trials]
        spent = [0.0, *spent]
    axes.step(trials, spent, where="post", color="C0", ls="-", label="spent (odometer)")
    limit = ledger.mu
    epsilon = rounded_up(ledger.filter.exposure.epsilon(delta))
    promise = f"eps = {epsilon} at delta = {rounded_up(delta, 6)}" if ledger.private else "NOT PRIVATE"
    axes.axhline(limit, color="C1", ls="--", label=f"budget: {promise}\n(all runs; mu within {rounded_up(limit)})")
    limit = max(limit, *spent) if spent else limit
    what = "release" if choice else "trial"
    axes.set(xlabel=what, ylabel="mu (GDP)", title="Privacy budget", ylim=(0, 1.15 * limit))
    if choice:
        axes.set_xticks(trials)
    axes.legend(fontsize="x-small", loc="lower right")
