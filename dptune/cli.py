"""The command line: look at a ledger, print its statement, draw it, convert budgets."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
except ImportError:
    sys.exit('the command line needs typer and rich: pip install "dptune[cli]".')

from dptune.accounting.gdp import Budget, compose_mu
from dptune.accounting.ledger import PrivacyLedger
from dptune.accounting.plan_ledger import open_ledger
from dptune.errors import DptuneError

app = typer.Typer(
    help="Differentially private hyperparameter tuning: ledgers and budgets.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Ledger = Annotated[str, typer.Argument(help="path of an SQLite ledger, or a postgresql:// URL")]
Delta = Annotated[float, typer.Option(help="delta at which epsilon is given")]


class Format(StrEnum):
    """How a statement is printed."""

    text = "text"
    markdown = "markdown"
    json = "json"


@app.command()
def statement(ledger: Ledger, delta: Delta = 1e-5, format: Format = Format.text) -> None:
    """Print the privacy statement of a ledger."""
    found = open_ledger(ledger).statement(delta=delta)
    typer.echo({"text": found.to_text, "markdown": found.to_markdown, "json": found.to_json}[format.value]())


@app.command()
def show(ledger: Ledger) -> None:
    """List the studies of a ledger and what each has spent."""
    opened = PrivacyLedger(ledger)
    seeded = "" if opened.private else "NOT PRIVATE (seeded noise): "
    title = f"{seeded}{opened.dataset}: mu {opened.spent():.4g} of {opened.budget.mu:.4g} spent"
    table = Table("study", "releases", "mu", "private", title=escape(title))
    for scope in sorted({charge.scope for charge in opened.charges()}):
        charges = opened.charges(scope)
        table.add_row(
            escape(scope),
            str(len(charges)),
            f"{compose_mu(c.mu for c in charges):.4g}",
            "yes" if all(c.private for c in charges) else "NO",
        )
    Console().print(table)


@app.command()
def plot(ledger: Ledger, out: Path, study: str | None = None, delta: Delta = 1e-5) -> None:
    """Draw released losses and the budget of a study to a file."""
    from dptune.figures import save_figure

    Console().print(f"wrote {save_figure(PrivacyLedger(ledger), out, scope=study, delta=delta)}")


@app.command()
def convert(
    mu: Annotated[float | None, typer.Option(help="GDP budget")] = None,
    epsilon: Annotated[float | None, typer.Option(help="epsilon at delta")] = None,
    delta: Delta = 1e-5,
) -> None:
    """Convert a budget between mu-GDP and (epsilon, delta)."""
    if (mu is None) == (epsilon is None):
        raise typer.BadParameter("give either --mu or --epsilon.")
    budget = Budget.gdp(mu) if mu is not None else Budget.approximate_dp(epsilon or 0.0, delta)
    Console().print(f"mu = {budget.mu:.6g}  epsilon = {budget.epsilon(delta):.6g}  delta = {delta:g}")


def main() -> None:
    """Run the command line; an error of dptune is one line, not a traceback."""
    try:
        app()
    except DptuneError as error:
        sys.exit(f"dptune: {error}")
