"""The commands of budgets: convert and plan. They read neither a ledger nor data."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from dptune._checks import between
from dptune._numbers import rounded_down, rounded_up
from dptune._statement import counted
from dptune.choice.outlook import choice_forecast
from dptune.choice.report.forecast import AREA, Expected
from dptune.cli.shared import DELTA, Contents, Listing, app, print_contents, refuse_idle
from dptune.errors import InputError
from dptune.ledger import approximate
from dptune.ledger.gdp import LARGEST_MU, SMALLEST_MU, Budget
from dptune.search.algorithms.centred_plan import default_trials
from dptune.search.outlook import forecast
from dptune.training import TrainingPlan
from dptune.training.profiles import epsilon_of


@app.command()
def convert(
    context: typer.Context,
    mu: Annotated[float | None, typer.Option(help="GDP budget")] = None,
    epsilon: Annotated[float | None, typer.Option(help="epsilon at delta that a GDP budget is to promise")] = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is given")] = DELTA,
    dp_sgd: Annotated[
        tuple[float, float, int] | None, typer.Option(help="noise multiplier, sampling rate, steps: its epsilon")
    ] = None,
    choice_share: Annotated[
        float, typer.Option(help="share of mu^2 for a choice by the exponential mechanism, fixed in advance")
    ] = 0.0,
) -> None:
    """Convert a budget between mu-GDP and (epsilon, delta), or print the epsilon of a DP-SGD training.

    Example: dptune convert --epsilon 4 --delta 1e-5
    """
    if sum(stated is not None for stated in (mu, epsilon, dp_sgd)) != 1:
        raise typer.BadParameter(f"give one of --mu, --epsilon and --dp-sgd. {_NO_BRIDGE}")
    if dp_sgd is not None:
        refuse_idle(context, "with --dp-sgd", "choice_share")
        cost = rounded_up(epsilon_of([TrainingPlan(*dp_sgd)], delta), 6)
        typer.echo(f"epsilon = {cost}  delta = {rounded_up(delta, 6)}\n{_REMOVES}\n{_NO_BRIDGE}")
        return
    choice_share = between("--choice-share", choice_share, 0.0, 1.0)
    budget = budget_of(mu, epsilon, delta)
    stated = rounded_down(budget.mu, 6) if mu is None else rounded_up(budget.mu, 6)
    lines = [f"mu = {stated}  epsilon = {rounded_up(budget.epsilon(delta), 6)}  delta = {rounded_up(delta, 6)}"]
    if mu is None:
        lines.append(f"This mu is a budget for tuning, which promises that epsilon. {_NO_BRIDGE}")
    if choice_share:
        lines.append(_with_choice(budget, delta, choice_share))
    typer.echo("\n".join(lines))


def budget_of(mu: float | None, epsilon: float | None, delta: float) -> Budget:
    """Return the budget of one of --mu and --epsilon."""
    return Budget.gdp(mu) if mu is not None else Budget.approximate_dp(epsilon or 0.0, delta)


def _with_choice(budget: Budget, delta: float, share: float) -> str:
    """Print a plan's cost, or its largest mu, if a share of mu^2 is for a choice."""
    mu = budget.mu
    if budget.stated_epsilon is not None:
        mu = approximate.largest_plan(share, budget.stated_epsilon, delta)
    gaussian, eta = approximate.divided(mu, share)
    epsilon = rounded_up(approximate.composed_epsilon(gaussian, eta, delta), 6)
    parts = f"Gaussian releases of mu = {rounded_up(gaussian)} and a choice of bounded range {rounded_up(eta)}"
    return f"A plan of mu = {rounded_up(mu, 6)}, {parts}, fixed in advance: epsilon = {epsilon}"


_REMOVES = (
    "Neighbours: add or remove one training row; rows are sampled at random in each step. Against replacing a row the "
    "training costs more."
)
_NO_BRIDGE = (
    "The (epsilon, delta) of a DP-SGD training is not a mu, as its epsilon at smaller deltas is larger than that of "
    "the mu through one: plan it in a TrainingLedger, and join ledgers with `dptune statement train.db val.db`."
)


TYPICAL = {"log_loss": 4.0, "hinge": 3.0, "brier": 2.0, "zero_one": 1.0}  # typical upper ends, for a first plan


@app.command()
def plan(
    context: typer.Context,
    n: Annotated[int, typer.Option(help="number of private people, as --n 400")],
    clip: Annotated[
        tuple[float, float] | None, typer.Option(help="public range of one loss: low high, as --clip 0 3")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help=f"instead of --clip, for a typical one: {', '.join(TYPICAL)}")
    ] = None,
    mu: Annotated[float | None, typer.Option(help="GDP budget  [default: 1]")] = None,
    epsilon: Annotated[float | None, typer.Option(help="instead of --mu: epsilon at --delta, as --epsilon 4")] = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is given")] = DELTA,
    trials: Annotated[int | None, typer.Option(help="of a private search  [default: 20 (dimensions + 1)]")] = None,
    dimensions: Annotated[int, typer.Option(help="hyperparameters that are numbers, in a private search")] = 3,
    default: Annotated[
        bool, typer.Option("--default", help="a private search has default=, and releases its loss, too")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="of a report of two labels instead, with --prevalence in place of --clip")
    ] = False,
    prevalence: Annotated[float | None, typer.Option(help="expected share of the positive label")] = None,
    groups: Annotated[int, typer.Option(help="number of subgroups of the report")] = 1,
    auc: Annotated[float, typer.Option(help="expected area under the ROC curve")] = AREA,
    format: Listing = Listing.text,
) -> None:
    """Print how large the noise will be, and which improvement a run can show. Reads no data.

    Example: dptune plan --n 400 --loss hinge --epsilon 4
    """
    if mu is not None and epsilon is not None:
        raise InputError("give one of --mu and --epsilon.")
    budget = budget_of(mu, epsilon, delta) if epsilon is not None else Budget.gdp(1.0 if mu is None else mu)
    if epsilon is None:
        refuse_idle(context, "without --epsilon", "delta")
        between("--mu", budget.mu, 2 * SMALLEST_MU, LARGEST_MU / 2)  # half and twice of it are planned, too
    if report:
        refuse_idle(context, "with --report", "clip", "loss", "trials", "dimensions", "default")
        if prevalence is None:
            raise InputError("a report needs --prevalence, the expected share of the positive label, such as 0.09.")
        _print_report(Expected(n, budget.mu, prevalence, groups, auc), format)
        return
    refuse_idle(context, "without --report", "prevalence", "groups", "auc")
    if (clip is None) == (loss is None):
        raise InputError("give one of --clip low high and --loss NAME.")
    if loss is not None and loss not in TYPICAL:
        raise InputError(f"--loss must be one of {', '.join(TYPICAL)}; got {loss!r}. For others give --clip low high.")
    low, high = clip or (0.0, TYPICAL[str(loss)])
    trials = default_trials(dimensions) if trials is None else trials
    rows = forecast(n, (low, high), dimensions, mu=budget.mu, trials=trials, default=default)
    chosen = [_of_a_choice(n, high - low, budget, factor) for factor in (0.5, 1.0, 2.0)]
    if format is Listing.json:
        typer.echo(json.dumps([*chosen, *rows], indent=2))
        return
    near = [row for row in rows if row["mu"] == budget.mu]
    near = [row for row in near if row["method"] != "values" or trials // 2 < row["trials"] <= trials]
    here = {"budget": chosen[1]["budget"]}
    shown = [{**here, **row, "warning": "too noisy" if row["warning"] else ""} for row in [*chosen, *near]]
    head = ("method", "budget", "trials", "sigma", "shows", "warning")
    table = [{name: "" if row.get(name) is None else row[name] for name in head} for row in shown]
    title = (
        f"{counted(n, 'person', 'people')}, clip {low:g} to {high:g}; private searches: {trials} trials, "
        f"with{'' if default else 'out'} default=\nsigma: standard deviation of the noise. shows: an improvement that "
        "shows in 95% of runs."
    )
    print_contents(Contents(title, {"private": True, "plans": table}, "plans"))
    here_too = [row for row in rows if row["mu"] == budget.mu and trials // 2 < row["trials"] <= trials]  # generations
    for row in (chosen[1], *here_too):
        if row["warning"]:
            typer.echo(f"{row['method']}: {row['warning']}")


def _print_report(expected: Expected, format: Listing) -> None:
    widths = expected.half_widths()
    rows = [
        {"metric": name, **{kind: None if math.isnan(width) else float(f"{width:.2g}") for kind, width in each.items()}}
        for name, each in widths.items()
    ]
    if format is Listing.json:
        typer.echo(json.dumps({"metrics": rows, "advice": list(expected.advice())}, indent=2))
        return
    title = (
        f"A report of {expected.n} people, {expected.prevalence:.3g} of them positive, at mu = {expected.mu:.3g}, "
        f"if the AUC is {expected.area:g}.\nHalf-widths of 95% intervals; hidden: the noise probably hides the metric."
    )
    shown = [{name: "hidden" if value is None else str(value) for name, value in row.items()} for row in rows]
    print_contents(Contents(title, {"private": True, "metrics": shown}, "metrics"))
    for sentence in expected.advice():
        typer.echo(sentence)


def _of_a_choice(n: int, width: float, budget: Budget, factor: float) -> dict[str, object]:
    """Return the row of a choice on public rows with this part of a budget."""
    epsilon, delta = budget.stated_epsilon, budget.stated_delta
    if epsilon is None or delta is None:
        return {"budget": f"mu={factor * budget.mu:g}", **choice_forecast(n, width, Budget.gdp(factor * budget.mu))}
    part = Budget.approximate_dp(factor * epsilon, delta)
    return {"budget": f"epsilon={factor * epsilon:g}", **choice_forecast(n, width, part)}
