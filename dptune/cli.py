"""The command line: look at a ledger, print its statement, draw it, convert budgets."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
except ImportError:
    sys.exit('the command line needs typer and rich: pip install "dptune[cli]".')

import dptune
from dptune._numbers import rounded_down, rounded_up
from dptune._statement import Printable
from dptune.accounting.gdp import Budget, Spent
from dptune.accounting.ledger import PrivacyLedger
from dptune.accounting.plan_ledger import PlanLedger
from dptune.errors import DptuneError
from dptune.local import UserLedger
from dptune.search.outlook import Crowd, forecast
from dptune.training import TrainingLedger, TrainingPlan, join
from dptune.training.ledger import open_ledger
from dptune.training.plans import to_json
from dptune.training.profiles import epsilon_of

app = typer.Typer(
    help="Differentially private hyperparameter tuning: ledgers and budgets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Ledger = Annotated[str, typer.Argument(help="path of an SQLite ledger, or a postgresql:// URL")]
Delta = Annotated[
    float | None,
    typer.Option(help="delta at which epsilon is given; default the one the budget was stated at, or 1e-5"),
]
DELTA = 1e-5


class Format(StrEnum):
    """How a statement is printed."""

    text = "text"
    markdown = "markdown"
    json = "json"


class Listing(StrEnum):
    """How a list is printed."""

    text = "text"
    json = "json"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dptune {dptune.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print it")] = False,
) -> None:
    """Differentially private hyperparameter tuning: ledgers and budgets."""


@app.command()
def statement(
    ledgers: Annotated[list[str], typer.Argument(help="paths of SQLite ledgers, or postgresql:// URLs")],
    delta: Delta = None,
    format: Format = Format.text,
    disjoint: Annotated[
        bool, typer.Option("--disjoint", help="nobody is in two of the ledgers: the largest epsilon, not the sum")
    ] = False,
) -> None:
    """Print the privacy statement of a ledger, or one statement for several: of training and validation people."""
    opened = [_open(ledger) for ledger in ledgers]
    found = _joint(opened, delta, disjoint) if len(opened) > 1 or disjoint else _statement(opened[0], delta)
    typer.echo({"text": found.to_text, "markdown": found.to_markdown, "json": found.to_json}[format.value]())


def _statement(opened: _Any, delta: float | None) -> Printable:
    return opened.statement() if isinstance(opened, UserLedger) else opened.statement(delta=_delta([opened], delta))


def _joint(opened: Sequence[_Any], delta: float | None, disjoint: bool) -> Printable:
    central = [ledger for ledger in opened if not isinstance(ledger, UserLedger)]
    if len(central) < len(opened):
        raise typer.BadParameter("a ledger of users' own devices has a statement of its own; leave it out.")
    return join(central, disjoint=disjoint, delta=_delta(central, delta))


def _delta(opened: Sequence[_Any], delta: float | None) -> float:
    """Return the delta to print: the one given, or the smallest at which a budget was stated."""
    stated = [each.budget.stated_delta for each in opened if isinstance(each, PrivacyLedger)]
    return delta if delta is not None else min((each for each in stated if each is not None), default=DELTA)


@app.command()
def show(ledger: Ledger, format: Listing = Listing.text) -> None:
    """List what is in a ledger: studies, rounds of a plan, or users, and what each has spent."""
    opened = _open(ledger)
    if isinstance(opened, PrivacyLedger):
        found = _studies(opened)
    elif isinstance(opened, TrainingLedger):
        found = _trainings(opened)
    else:
        found = _users(opened) if isinstance(opened, UserLedger) else _rounds(opened)
    if format is Listing.json:
        typer.echo(json.dumps(found.facts, indent=2))
    else:
        _print(found)


@app.command()
def plot(ledger: Ledger, out: Path, study: str | None = None, delta: Delta = None) -> None:
    """Draw released losses and the budget of a study to a file."""
    from dptune.figures import save_figure

    typer.echo(f"wrote {save_figure(PrivacyLedger(ledger), out, scope=study, delta=delta)}")


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
def raise_budget(
    ledger: Ledger,
    mu: Annotated[float | None, typer.Option(help="the new GDP budget, in all")] = None,
    epsilon: Annotated[float | None, typer.Option(help="or the new epsilon at delta, in all")] = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is given")] = DELTA,
) -> None:
    """Allow more to be spent from a ledger, for good; every statement will say so. Run once for all processes."""
    opened = PrivacyLedger(ledger)
    opened.raise_budget(_budget(mu, epsilon, delta))
    typer.echo(f"the budget of {opened.dataset!r} is mu = {rounded_up(opened.budget.mu, 6)} in all")


def _budget(mu: float | None, epsilon: float | None, delta: float) -> Budget:
    if (mu is None) == (epsilon is None):
        raise typer.BadParameter("give one of --mu and --epsilon.")
    return Budget.gdp(mu) if mu is not None else Budget.approximate_dp(epsilon or 0.0, delta)


@app.command()
def plan(
    n: Annotated[int, typer.Option(help="number of people")],
    clip: Annotated[tuple[float, float], typer.Option(help="public range of one loss: low high")],
    mu: Annotated[float, typer.Option(help="GDP budget of the run")] = 1.0,
    trials: Annotated[int, typer.Option(help="number of trials")] = 100,
    dimensions: Annotated[int, typer.Option(help="number of hyperparameters")] = 3,
    format: Listing = Listing.text,
) -> None:
    """Say how large the noise will be, for these settings and for half and twice as much. Reads no data."""
    rows = forecast(Crowd(n, clip), mu=mu, trials=trials, dimensions=dimensions)
    title = f"Standard deviation of the noise in units of the loss, {n} people, clip {clip[0]:g} to {clip[1]:g}"
    if format is Listing.json:
        typer.echo(json.dumps(rows, indent=2))
        return
    short = [{**row, "warning": "too noisy" if row["warning"] else ""} for row in rows]
    _print(_Found(title, {"private": True, "plans": short}, "plans"))
    for row in rows:
        if row["warning"] and (row["mu"], row["trials"]) == (mu, trials):
            typer.echo(f"{row['method']}: {row['warning']}")


def main() -> None:
    """Run the command line; an error of dptune is one line, not a traceback."""
    try:
        app()
    except DptuneError as error:
        sys.exit(f"dptune: {error}")


# ---- what is in a ledger --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """A title, and facts as plain JSON data; the entry ``table`` of the facts has the rows to print."""

    title: str
    facts: Mapping[str, Any]
    table: str


_Any = PrivacyLedger | PlanLedger | TrainingLedger | UserLedger


def _open(ledger: str) -> _Any:
    path = ledger.removeprefix("sqlite:///")
    return UserLedger(path) if UserLedger.is_at(path) else open_ledger(ledger)


def _studies(opened: PrivacyLedger) -> _Found:
    title = f"{opened.dataset}: mu {rounded_up(opened.spent())} of {rounded_up(opened.budget.mu)} spent"
    rows = []
    for scope in sorted({charge.scope for charge in opened.charges()}):
        charges = opened.charges(scope)
        mu, private = Spent.of(c.mu for c in charges).mu, all(c.private for c in charges)
        rows.append({"study": scope, "releases": len(charges), "mu": mu, "private": private})
    budget, spent = asdict(opened.budget), {"mu": opened.spent()}
    facts = {"dataset": opened.dataset, "private": opened.private, "budget": budget, "spent": spent, "studies": rows}
    return _Found(title, facts, "studies")


def _rounds(opened: PlanLedger) -> _Found:
    plan, made = asdict(opened.plan), opened.count()
    title = (
        f"{opened.dataset}: {made} of {opened.plan.steps} releases of the plan q={plan['q']:g}, z={plan['z']:g} made"
    )
    rows = [{"release": name, "made": count} for name, count in opened.statement(delta=DELTA).mechanisms]
    facts = {"dataset": opened.dataset, "private": opened.private, "plan": plan, "made": made, "releases": rows}
    return _Found(title, facts, "releases")


def _trainings(opened: TrainingLedger) -> _Found:
    made, plan = opened.count(), opened.plan
    rows = [{"charge": charge.key, **charge.note} for charge in opened.charges()]
    facts = {"dataset": opened.dataset, "private": opened.private, "plan": to_json(plan), "made": made, "charges": rows}
    return _Found(f"{opened.dataset}: {made} of {plan.charges} made: {plan}", facts, "charges")


def _users(opened: UserLedger) -> _Found:
    rows = [asdict(account) for account in opened.accounts()]
    title = f"local privacy: a cap of epsilon = {rounded_up(opened.cap, 6)} for each of {len(rows)} users"
    facts = {"private": all(row["private"] for row in rows), "cap": {"epsilon": opened.cap}, "users": rows}
    return _Found(title, facts, "users")


def _print(found: _Found) -> None:
    """Print title and table; to a file or a pipe as wide as it is, so that nothing is cut."""
    typer.echo(found.title if found.facts["private"] else f"NOT PRIVATE (seeded noise): {found.title}")
    rows: list[dict[str, Any]] = found.facts[found.table]
    if not rows:
        return
    table = Table()
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    console = Console()
    (console if console.is_terminal else Console(width=_WIDE)).print(table)


_WIDE = 100_000


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return rounded_up(value) if isinstance(value, float) else str(value)  # the numbers are what was spent
