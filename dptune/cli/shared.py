"""Shared parts of the commands: the application, its options, opening a ledger and printing a list."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dptune
from dptune._numbers import rounded_down, rounded_up
from dptune._statement import counted
from dptune.cli.releases import release_rows
from dptune.errors import InputError
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
    """The format of a printed list."""

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


def refuse_idle(context: typer.Context, where: str, *names: str) -> None:
    """Refuse options, by names of parameters, that were given where they would do nothing.

    Raises:
        InputError: one of them was given.
    """
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{options} would do nothing {where}. Leave out {options}.")


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
    """Return the contents of a ledger of any kind."""
    if isinstance(opened, UserLedger):
        rows = [asdict(account) for account in opened.accounts()]
        whom = "the only user" if len(rows) == 1 else f"each of {len(rows)} users"
        title = f"local privacy: a cap of epsilon = {rounded_up(opened.cap, 6)} for {whom}"
        facts = {"private": all(row["private"] for row in rows), "cap": {"epsilon": opened.cap}, "users": rows}
        return Contents(title, facts, "users")
    title, of_the_kind, table = _studies(opened) if isinstance(opened, PrivacyLedger) else _planned(opened)
    return Contents(title, {"dataset": opened.dataset, "private": opened.private, **of_the_kind}, table)


def _studies(opened: PrivacyLedger) -> tuple[str, dict[str, Any], str]:
    title = f"{opened.dataset}: {spent_in_words(opened)}"
    rows = []
    for scope in sorted({charge.scope for charge in opened.charges()}):
        charges = opened.charges(scope)
        mu = cost_of(charges).mu
        private = all(c.private for c in charges)
        rows.append({"study": scope, "releases": len(charges), "mu_in_gdp": mu, "private": private})
    return title, {**budget_and_spent(opened), "studies": rows}, "studies"


def budget_and_spent(opened: PrivacyLedger) -> dict[str, dict[str, float | None]]:
    """Return the limits of a ledger's budget, None until they are fixed, and the spent part of each."""
    budget, whole = opened.budget, opened.mu  # reads the filter
    spent = cost_of(opened.charges())
    limits = None if opened.filter.undivided else opened.filter.limits
    stated = {"epsilon": budget.stated_epsilon, "delta": budget.stated_delta}
    return {
        "budget": {
            **stated,
            "mu": None if limits is None else limits.mu,
            "eta": None if limits is None else limits.eta,
            "pure_epsilon": None if limits is None else limits.pure,
            "mu_in_gdp": whole,
        },
        "spent": {
            "mu": spent.gaussian,
            "eta": float(spent.choices),
            "pure_epsilon": float(spent.pure),
            "mu_in_gdp": spent.mu,
        },
    }


def spent_in_words(opened: PrivacyLedger) -> str:
    """Return a ledger's budget, and what of it is spent and left."""
    whole, spent, left = opened.mu, opened.spent(), opened.remaining()
    budget, filter = opened.budget, opened.filter
    all_left = math.isclose(math.hypot(spent, left), whole, rel_tol=1e-6)
    rest = "squares add up" if all_left else f"the rest is kept for the run {filter.holder!r}"
    words = f"mu {rounded_up(spent)} of {rounded_up(whole)} spent, {rounded_down(left)} left ({rest})"
    if budget.stated_epsilon is None or budget.stated_delta is None:
        return words
    pair = f"epsilon {budget.stated_epsilon:g} at delta {budget.stated_delta:g}"
    return f"{pair}; nothing spent; the first charge divides it" if filter.undivided else f"{pair}; in GDP {words}"


def releases_of(opened: AnyLedger) -> Contents:
    """Return every release of a ledger whose releases have prices."""
    if not isinstance(opened, PrivacyLedger):
        raise InputError("--releases lists those of a PrivacyLedger; this ledger has another kind. Leave it out.")
    title, facts, _ = _studies(opened)
    of_all = {"dataset": opened.dataset, "people": opened.n, "private": opened.private, **facts}
    return Contents(title, {**of_all, "releases": release_rows(opened)}, "releases")


def _planned(opened: PlanLedger | TrainingLedger) -> tuple[str, dict[str, Any], str]:
    made = opened.count()
    if isinstance(opened, TrainingLedger):
        rows = [{"charge": charge.key, **charge.note} for charge in opened.charges()]
        title = f"{opened.dataset}: {made} of {opened.plan.charges} made: {opened.plan}"
        return title, {"plan": to_json(opened.plan), "made": made, "charges": rows}, "charges"
    plan = opened.plan
    rows = [{"release": name, "made": count} for name, count in opened.mechanisms()]
    title = f"{opened.dataset}: {made} of {counted(plan.steps)} of the plan q={plan.q:g}, z={plan.z:g} made"
    return title, {"plan": asdict(plan), "made": made, "releases": rows}, "releases"


def show_contents(contents: Contents, format: Listing) -> None:
    """Print the contents as text or as JSON."""
    if format is Listing.json:
        typer.echo(json.dumps(contents.facts, indent=2))
    else:
        print_contents(contents)


def print_contents(contents: Contents) -> None:
    """Print title and table; a terminal that is too narrow for the table gets a line for each entry.

    A file or a pipe gets the full width, so that nothing is cut.
    """
    typer.echo(contents.title if contents.facts["private"] else f"NOT PRIVATE (seeded noise): {contents.title}")
    rows = contents.facts[contents.table]
    if not rows:
        return
    terminal, wide, table = Console(), Console(width=_WIDE), table_of(contents)
    if terminal.is_terminal and wide.measure(table).maximum > terminal.width:
        terminal.print(_listed(rows), soft_wrap=True, end="")
    else:
        (terminal if terminal.is_terminal else wide).print(table)


def _listed(rows: Sequence[Mapping[str, object]]) -> Text:
    """Return the entries that are not empty, each on a line of its own."""
    cells = [{name: _cell(value) for name, value in row.items()} for row in rows]
    blocks = ["".join(f"{name}: {text}\n".removeprefix(": ") for name, text in row.items() if text) for row in cells]
    return Text("\n".join(blocks))


def table_of(contents: Contents) -> Table:
    """Return the rows of the contents, each entry as text."""
    rows: list[dict[str, Any]] = contents.facts[contents.table]
    table = Table()
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


_WIDE, _SHOWN = 100_000, 3  # columns of a file; numbers of a vector in a table


def _number(value: Any) -> str:
    return f"{value[0]:.4g} to {value[1]:.4g}" if isinstance(value, list) else f"{value:.6g}"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if value is None:
        return ""
    if isinstance(value, list):  # a list of released numbers, or of pairs of them
        return ", ".join(_number(each) for each in value) if len(value) <= _SHOWN else f"{len(value)} numbers"
    return rounded_up(value) if isinstance(value, float) else str(value)  # the numbers are spent budget
