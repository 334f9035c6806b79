"""Look at ledgers: statement, show, plot; and raise a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dptune._numbers import rounded_up
from dptune._statement import Statement
from dptune.accounting.gdp import Budget, Spent
from dptune.accounting.ledger import PrivacyLedger
from dptune.accounting.plan_ledger import PlanLedger
from dptune.cli.shared import DELTA, AnyLedger, Delta, Found, Ledger, Listing, app, delta_of, open_any, show_found
from dptune.local import UserLedger
from dptune.training import TrainingLedger, join
from dptune.training.plans import to_json


class Format(StrEnum):
    """How a statement is printed."""

    text = "text"
    markdown = "markdown"
    json = "json"


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
    opened = [open_any(ledger) for ledger in ledgers]
    found = _joint(opened, delta, disjoint) if len(opened) > 1 or disjoint else _statement(opened[0], delta)
    typer.echo({"text": found.to_text, "markdown": found.to_markdown, "json": found.to_json}[format.value]())


def _statement(opened: AnyLedger, delta: float | None) -> Statement:
    return opened.statement() if isinstance(opened, UserLedger) else opened.statement(delta=delta_of([opened], delta))


def _joint(opened: Sequence[AnyLedger], delta: float | None, disjoint: bool) -> Statement:
    central = [ledger for ledger in opened if not isinstance(ledger, UserLedger)]
    if len(central) < len(opened):
        raise typer.BadParameter("a ledger of users' own devices has a statement of its own; leave it out.")
    return join(central, disjoint=disjoint, delta=delta_of(central, delta))


@app.command()
def show(ledger: Ledger, format: Listing = Listing.text) -> None:
    """List what is in a ledger: studies, rounds of a plan, or users, and what each has spent."""
    show_found(listed(open_any(ledger)), format)


@app.command()
def raise_budget(
    ledger: Ledger,
    mu: Annotated[float | None, typer.Option(help="the new GDP budget, in all")] = None,
    epsilon: Annotated[float | None, typer.Option(help="or the new epsilon at delta, in all")] = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is given")] = DELTA,
) -> None:
    """Allow more to be spent from a ledger, for good; every statement will say so. Run once for all processes."""
    if (mu is None) == (epsilon is None):
        raise typer.BadParameter("give one of --mu and --epsilon.")
    opened = PrivacyLedger(ledger)
    opened.raise_budget(Budget.gdp(mu) if mu is not None else Budget.approximate_dp(epsilon or 0.0, delta))
    typer.echo(f"the budget of {opened.dataset!r} is mu = {rounded_up(opened.budget.mu, 6)} in all")


@app.command()
def plot(
    ledger: Ledger,
    out: Path,
    study: str | None = None,
    delta: Delta = None,
    dark: Annotated[bool, typer.Option("--dark", help="on dark paper")] = False,
) -> None:
    """Draw released losses and the budget of a study to a file."""
    from dptune.figures import save_figure

    typer.echo(f"wrote {save_figure(PrivacyLedger(ledger), out, scope=study, delta=delta, dark=dark)}")


def listed(opened: AnyLedger) -> Found:
    """Return what is in a ledger of any kind."""
    if isinstance(opened, PrivacyLedger):
        return _studies(opened)
    if isinstance(opened, TrainingLedger):
        return _trainings(opened)
    return _users(opened) if isinstance(opened, UserLedger) else _rounds(opened)


def _studies(opened: PrivacyLedger) -> Found:
    title = f"{opened.dataset}: mu {rounded_up(opened.spent())} of {rounded_up(opened.budget.mu)} spent"
    rows = []
    for scope in sorted({charge.scope for charge in opened.charges()}):
        charges = opened.charges(scope)
        mu, private = Spent.of(c.mu for c in charges).mu, all(c.private for c in charges)
        rows.append({"study": scope, "releases": len(charges), "mu": mu, "private": private})
    budget, spent = asdict(opened.budget), {"mu": opened.spent()}
    facts = {"dataset": opened.dataset, "private": opened.private, "budget": budget, "spent": spent, "studies": rows}
    return Found(title, facts, "studies")


def _rounds(opened: PlanLedger) -> Found:
    plan, made = asdict(opened.plan), opened.count()
    title = (
        f"{opened.dataset}: {made} of {opened.plan.steps} releases of the plan q={plan['q']:g}, z={plan['z']:g} made"
    )
    rows = [{"release": name, "made": count} for name, count in opened.mechanisms()]
    facts = {"dataset": opened.dataset, "private": opened.private, "plan": plan, "made": made, "releases": rows}
    return Found(title, facts, "releases")


def _trainings(opened: TrainingLedger) -> Found:
    made, plan = opened.count(), opened.plan
    rows = [{"charge": charge.key, **charge.note} for charge in opened.charges()]
    facts = {"dataset": opened.dataset, "private": opened.private, "plan": to_json(plan), "made": made, "charges": rows}
    return Found(f"{opened.dataset}: {made} of {plan.charges} made: {plan}", facts, "charges")


def _users(opened: UserLedger) -> Found:
    rows = [asdict(account) for account in opened.accounts()]
    title = f"local privacy: a cap of epsilon = {rounded_up(opened.cap, 6)} for each of {len(rows)} users"
    facts = {"private": all(row["private"] for row in rows), "cap": {"epsilon": opened.cap}, "users": rows}
    return Found(title, facts, "users")
