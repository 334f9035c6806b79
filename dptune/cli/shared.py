"""What the commands share: the application, its options, how a ledger is opened and a list is printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dptune
from dptune._numbers import rounded_up
from dptune.ledger.entries import cost_of
from dptune.ledger.ledger import PrivacyLedger
from dptune.ledger.plan_ledger import PlanLedger
from dptune.local import UserLedger
from dptune.training import TrainingLedger
from dptune.training.ledger import CentralLedger, open_ledger
from dptune.training.plans import to_json

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


# ---- ledgers ----------------------------------------------------------------------------------------------

AnyLedger = CentralLedger | UserLedger


def open_any(ledger: str) -> AnyLedger:
    """Open a ledger of any kind."""
    path = ledger.removeprefix("sqlite:///")
    return UserLedger(path) if UserLedger.is_at(path) else open_ledger(ledger)


def delta_of(opened: Sequence[AnyLedger], delta: float | None) -> float:
    """Return the delta to print: the one given, or the smallest at which a budget was stated."""
    stated = [each.budget.stated_delta for each in opened if isinstance(each, PrivacyLedger)]
    return delta if delta is not None else min((each for each in stated if each is not None), default=DELTA)


# ---- lists ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contents:
    """A title, and facts as plain JSON data; the entry ``table`` of the facts has the rows to print."""

    title: str
    facts: Mapping[str, Any]
    table: str


def contents_of(opened: AnyLedger) -> Contents:
    """Return what is in a ledger of any kind."""
    if isinstance(opened, UserLedger):
        rows = [asdict(account) for account in opened.accounts()]
        title = f"local privacy: a cap of epsilon = {rounded_up(opened.cap, 6)} for each of {len(rows)} users"
        facts = {"private": all(row["private"] for row in rows), "cap": {"epsilon": opened.cap}, "users": rows}
        return Contents(title, facts, "users")
    title, of_the_kind, table = _studies(opened) if isinstance(opened, PrivacyLedger) else _planned(opened)
    return Contents(title, {"dataset": opened.dataset, "private": opened.private, **of_the_kind}, table)


def _studies(opened: PrivacyLedger) -> tuple[str, dict[str, Any], str]:
    title = f"{opened.dataset}: mu {rounded_up(opened.spent())} of {rounded_up(opened.mu)} spent"
    rows = []
    for scope in sorted({charge.scope for charge in opened.charges()}):
        charges = opened.charges(scope)
        mu, private = cost_of(charges).mu, all(c.private for c in charges)
        rows.append({"study": scope, "releases": len(charges), "mu": mu, "private": private})
    return title, {"budget": asdict(opened.budget), "spent": {"mu": opened.spent()}, "studies": rows}, "studies"


def _planned(opened: PlanLedger | TrainingLedger) -> tuple[str, dict[str, Any], str]:
    made = opened.count()
    if isinstance(opened, TrainingLedger):
        rows = [{"charge": charge.key, **charge.note} for charge in opened.charges()]
        title = f"{opened.dataset}: {made} of {opened.plan.charges} made: {opened.plan}"
        return title, {"plan": to_json(opened.plan), "made": made, "charges": rows}, "charges"
    plan, rows = opened.plan, [{"release": name, "made": count} for name, count in opened.mechanisms()]
    title = f"{opened.dataset}: {made} of {plan.steps} releases of the plan q={plan.q:g}, z={plan.z:g} made"
    return title, {"plan": asdict(plan), "made": made, "releases": rows}, "releases"


def show_contents(found: Contents, format: Listing) -> None:
    """Print what was found, as text or as JSON."""
    if format is Listing.json:
        typer.echo(json.dumps(found.facts, indent=2))
    else:
        print_contents(found)


def print_contents(found: Contents) -> None:
    """Print title and table; to a file or a pipe as wide as it is, so that nothing is cut."""
    typer.echo(found.title if found.facts["private"] else f"NOT PRIVATE (seeded noise): {found.title}")
    if found.facts[found.table]:
        console = Console()
        (console if console.is_terminal else Console(width=_WIDE)).print(table_of(found))


def table_of(found: Contents) -> Table:
    """Return the rows of what was found, each entry as text."""
    rows: list[dict[str, Any]] = found.facts[found.table]
    table = Table()
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


_WIDE = 100_000


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return rounded_up(value) if isinstance(value, float) else str(value)  # the numbers are what was spent
