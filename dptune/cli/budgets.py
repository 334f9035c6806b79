"""Plan and convert budgets. Reads no ledger and no data."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from dptune._numbers import rounded_down, rounded_up
from dptune.accounting.gdp import Budget
from dptune.algorithms.centred_plan import RUNGS, default_trials
from dptune.cli.shared import DELTA, Found, Listing, app, print_found
from dptune.search.outlook import forecast, space_of
from dptune.training import TrainingPlan
from dptune.training.profiles import epsilon_of


@app.command()
def convert(
    mu: Annotated[float | None, typer.Option(help="GDP budget")] = None,
    epsilon: Annotated[float | None, typer.Option(help="epsilon at delta that a GDP budget is to promise")] = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is given")] = DELTA,
    dp_sgd: Annotated[
        tuple[float, float, int] | None, typer.Option(help="noise multiplier, sampling rate, steps: its epsilon")
    ] = None,
) -> None:
    """Convert a budget between mu-GDP and (epsilon, delta); or say what a DP-SGD training costs, which has no mu."""
    if sum(given is not None for given in (mu, epsilon, dp_sgd)) != 1:
        raise typer.BadParameter(f"give one of --mu, --epsilon and --dp-sgd. {_NO_BRIDGE}")
    if dp_sgd is not None:
        cost = rounded_up(epsilon_of([TrainingPlan(*dp_sgd)], delta), 6)
        typer.echo(f"epsilon = {cost}  delta = {rounded_up(delta, 6)}\n{_NO_BRIDGE}")
        return
    budget = Budget.gdp(mu) if mu is not None else Budget.approximate_dp(epsilon or 0.0, delta)
    given = rounded_down(budget.mu, 6) if mu is None else rounded_up(budget.mu, 6)
    typer.echo(f"mu = {given}  epsilon = {rounded_up(budget.epsilon(delta), 6)}  delta = {rounded_up(delta, 6)}")
    if mu is None:
        typer.echo(f"This mu is a budget for tuning, which promises that epsilon. {_NO_BRIDGE}")


_NO_BRIDGE = (
    "The (epsilon, delta) of a DP-SGD training is not a mu, as its epsilon at other deltas is larger than that of any "
    "mu through one: plan it in a TrainingLedger, and join ledgers with `dptune statement train.db val.db`."
)


@app.command()
def plan(
    n: Annotated[int, typer.Option(help="number of people")],
    clip: Annotated[tuple[float, float], typer.Option(help="public range of one loss: low high")],
    mu: Annotated[float, typer.Option(help="GDP budget of the run")] = 1.0,
    trials: Annotated[
        int | None, typer.Option(help="number of trials  [default: 20 (dimensions + choices + 1)]")
    ] = None,
    dimensions: Annotated[int, typer.Option(help="number of hyperparameters that are numbers")] = 3,
    choices: Annotated[
        list[int] | None, typer.Option(help="number of choices of one that is a category; again for each")
    ] = None,
    rung_share: Annotated[float, typer.Option(help="share of mu^2 for decisions to stop trials")] = 0.0,
    rungs: Annotated[int, typer.Option(help="such decisions a trial")] = RUNGS,
    default: Annotated[
        bool, typer.Option("--default", help="the run has default=: the final estimate releases its loss, too")
    ] = False,
    format: Listing = Listing.text,
) -> None:
    """Say how large the noise will be, for these settings and for half and twice as much. Reads no data."""
    space = space_of(dimensions, choices or ())
    trials = default_trials(space.d) if trials is None else trials
    rows = forecast(n, clip, space, mu=mu, trials=trials, default=default, rung_share=rung_share, rungs=rungs)
    people = f"{n} people, clip {clip[0]:g} to {clip[1]:g}, {trials} trials, "
    people += "with default=" if default else "without default= (else --default)"
    title = f"Standard deviation of the noise in units of the loss, {people}"
    if format is Listing.json:
        typer.echo(json.dumps(rows, indent=2))
        return
    short = [{**row, "warning": "too noisy" if row["warning"] else ""} for row in rows]
    print_found(Found(title, {"private": True, "plans": short}, "plans"))
    for row in rows:
        if row["warning"] and row["mu"] == mu and trials // 2 < row["trials"] <= trials:  # whole generations of them
            typer.echo(f"{row['method']}: {row['warning']}")
