"""The commands: audit an objective, plan budgets, read ledgers and print their statements."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dptune._statement import Statement
from dptune.audit import Audit
from dptune.choice.recorded import recorded_choices, refuse_same, side_by_side
from dptune.choice.report.reporting import stored_report
from dptune.cli.budgets import budget_of
from dptune.cli.shared import (
    AnyLedger,
    Contents,
    Delta,
    Ledger,
    Listing,
    app,
    contents_of,
    delta_of,
    open_any,
    print_contents,
    refuse_idle,
    releases_of,
    show_contents,
    spent_in_words,
)
from dptune.errors import InputError
from dptune.ledger import certificate as certificates
from dptune.ledger.ledger import PrivacyLedger
from dptune.ledger.registry import About, record, to_yaml
from dptune.local import UserLedger
from dptune.training import TrainingLedger, TrainingPlan, join


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(help="Python file that sets audit = dptune.audit.Audit(...)")],
) -> None:
    """Check your losses and settings on public or made-up rows, and print what each check proves.

    Example: dptune audit my_audit.py
    """
    if not file.is_file() or file.suffix != ".py":
        what = "is not a Python file (.py)" if file.exists() else "does not exist"
        raise InputError(f"{file} {what}. Give a script that sets audit = dptune.audit.Audit(losses, X, y, clip=...).")
    functions = runpy.run_path(str(file)).get("audit")
    if not isinstance(functions, Audit):
        raise InputError(f"{file} must set audit = dptune.audit.Audit(losses, X, y, clip=...).")
    broken = 0
    for finding in functions.run():
        typer.echo(finding)
        broken += not finding.holds
    typer.echo("An audit finds what breaks the guarantee. It does not prove the guarantee: see docs/privacy.md.")
    if broken:
        raise typer.Exit(1)


# ---- records for registries -----------


@app.command()
def certificate(
    context: typer.Context,
    ledger: Ledger,
    delta: Delta = None,
    format: Listing = Listing.text,
    values: Annotated[bool, typer.Option("--values", help="print the released values, too")] = False,
    verify: Annotated[
        Path | None, typer.Option(help="compare this certificate, written with --format json, with the ledger")
    ] = None,
    registry: Annotated[
        Path | None, typer.Option(help="print a record for the registry of deployments, with what this TOML file says")
    ] = None,
) -> None:
    """Print one page to sign, with an annex for the accountant; or verify one; or print a record for the registry.

    Example: dptune certificate ledger.db --delta 1e-5
    """
    if verify is not None:
        refuse_idle(context, "with --verify", "delta", "format", "values", "registry")
    if registry is not None:
        refuse_idle(context, "with --registry", "format", "values")
    if verify is not None:
        _verify(ledger, verify)
        return
    opened = open_any(ledger)
    if isinstance(opened, UserLedger) and (values or registry is not None):
        raise InputError(
            f"this ledger belongs to users' own devices: it has no {'values to show' if values else 'registry record'}."
            f" Leave out {'--values' if values else '--registry'}: the page states its guarantee and its risk in words."
        )
    if values and isinstance(opened, TrainingLedger) and isinstance(opened.plan, TrainingPlan):
        raise InputError("a ledger of trainings stores no values: a training returns its model. Leave out --values.")
    stated = _statement(opened, delta)
    if registry is not None:
        typer.echo(to_yaml(record(stated, About.read(registry))), nl=False)
        return
    data = certificates.certificate(opened, stated, values=values)
    typer.echo(json.dumps(data, indent=2) if format is Listing.json else certificates.page(data))


def _verify(ledger: str, path: Path) -> None:
    """Print whether a paper matches the ledger; exit with 1 if not."""
    paper = certificates.read_paper(path)  # first, in case the two are swapped
    opened = open_any(ledger)
    pure = isinstance(opened, UserLedger)
    differences, later = certificates.compare(paper, opened, lambda delta: _statement(opened, None if pure else delta))
    rows = paper["ledger"]["seq"]
    if differences:
        typer.echo("\n  ".join([f"{path} does NOT match the ledger {opened.identity}:", *differences]))
        raise typer.Exit(1)
    if not later:
        all_of_them = "its only row" if rows == 1 else f"all of its {rows} rows"
        typer.echo(f"{path} matches the ledger {opened.identity}: each line, and {all_of_them}.")
        return
    first = "the first row" if rows == 1 else f"the first {rows} rows"
    typer.echo(f"{path} matches {first} of the ledger {opened.identity}. It was charged since then:")
    for question, count in Counter(f"{each.study}: {each.question}".removeprefix(": ") for each in later).items():
        typer.echo(f"  {question} ({count})")
    typer.echo("The certificate covers these only in its budget. Print and sign a new one.")


# ---- ledgers -----


class Format(StrEnum):
    """The format of a printed statement."""

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
    """Print the privacy statement of a ledger, or one statement for several ledgers.

    Example: dptune statement ledger.db --delta 1e-5 --format markdown
    """
    opened = [open_any(ledger) for ledger in ledgers]
    if len(opened) == 1 and not disjoint:
        stated = _statement(opened[0], delta)
    else:
        central = [ledger for ledger in opened if not isinstance(ledger, UserLedger)]
        if len(central) < len(opened):
            raise typer.BadParameter("a ledger of users' own devices has a statement of its own; leave it out.")
        stated = join(central, disjoint=disjoint, delta=delta_of(central, delta))
    typer.echo({"text": stated.to_text, "markdown": stated.to_markdown, "json": stated.to_json}[format.value]())


def _statement(opened: AnyLedger, delta: float | None) -> Statement:
    if not isinstance(opened, UserLedger):
        return opened.statement(delta=delta_of([opened], delta))
    if delta is not None:
        raise InputError("--delta would do nothing for users' own devices: their epsilon is pure. Leave out --delta.")
    return opened.statement()


@app.command()
def show(
    ledger: Ledger,
    format: Listing = Listing.text,
    releases: Annotated[
        bool, typer.Option("--releases", help="every release: value, noise, cut, price and 95% interval")
    ] = False,
) -> None:
    """List what is in a ledger: studies, rounds of a plan, or users, and what each has spent.

    Example: dptune show ledger.db --releases
    """
    opened = open_any(ledger)
    show_contents(releases_of(opened) if releases else contents_of(opened), format)


@app.command()
def compare(
    ledgers: Annotated[list[str], typer.Argument(help="paths of SQLite ledgers, or postgresql:// URLs")],
    format: Listing = Listing.text,
) -> None:
    """Print what the recorded choices of several ledgers said, side by side. Reads no private row and charges nothing.

    Example: dptune compare q1.db q2.db
    """
    opened = [PrivacyLedger(place) for place in ledgers]
    refuse_same(opened)
    found = {place: recorded_choices(each) for place, each in zip(ledgers, opened, strict=True)}
    if format is Listing.json:
        typer.echo(json.dumps([{"place": place, **each} for place in found for each in found[place]], indent=2))
        return
    named = {
        place if len(choices) == 1 else f"{place}: {each['choice']}": each
        for place, choices in found.items()
        for each in choices
    }
    title = (
        "Each verdict is about the people of its own ledger, and each interval about the privacy noise.\n"
        "Candidates of equal numbers are equal within one list: the same public losses in the same order."
    )
    print_contents(Contents(title, {"private": True, "rows": side_by_side(named)}, "rows"))


@app.command()
def raise_budget(
    context: typer.Context,
    ledger: Ledger,
    mu: Annotated[float | None, typer.Option(help="the new GDP budget, in all")] = None,
    epsilon: Annotated[float | None, typer.Option(help="or the new epsilon at delta, in all")] = None,
    delta: Delta = None,
) -> None:
    """Raise the budget of a ledger, for good. Every statement will show it. Run it once for all processes.

    Example: dptune raise-budget ledger.db --mu 1.5
    """
    if (mu is None) == (epsilon is None):
        raise typer.BadParameter("give one of --mu and --epsilon.")
    if epsilon is None:
        refuse_idle(context, "without --epsilon", "delta")
    opened = PrivacyLedger(ledger)
    before = opened.budget
    opened.raise_budget(budget_of(mu, epsilon, delta_of([opened], delta)))
    after = opened.budget
    typer.echo(f"the budget of {opened.dataset!r} in all: {spent_in_words(opened)}")
    if after == before:
        typer.echo("It was that already: nothing was changed.")
    elif before.stated_delta not in (None, after.stated_delta):
        now = "none, as the budget is stated in GDP" if after.stated_delta is None else f"{after.stated_delta:g}"
        typer.echo(f"Its delta was {before.stated_delta:g} and is now {now}.")


@app.command()
def plot(
    ledger: Ledger,
    out: Path,
    study: str | None = None,
    delta: Delta = None,
    dark: Annotated[bool, typer.Option("--dark", help="on dark paper")] = False,
) -> None:
    """Draw released losses and the budget of a study to a file.

    Example: dptune plot ledger.db ledger.png --study svm
    """
    from dptune.figures import save_figure

    typer.echo(f"wrote {save_figure(PrivacyLedger(ledger), out, scope=study, delta=delta, dark=dark)}")


@app.command()
def report(
    context: typer.Context,
    ledger: Ledger,
    name: Annotated[str | None, typer.Option(help="of the report; default the only one of the ledger")] = None,
    format: Format = Format.text,
    out: Annotated[Path | None, typer.Option(help="draw it to this file, too")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="on dark paper")] = False,
) -> None:
    """Print a report of a final model that `dptune.report` released, or draw it. Reads the ledger only.

    Example: dptune report ledger.db --out report.png
    """
    if out is None:
        refuse_idle(context, "without --out", "dark")
    stored = stored_report(PrivacyLedger(ledger), name)
    if out is not None:
        stored.plot(out, dark=dark)
    if format is Format.json:
        typer.echo(json.dumps(stored.to_dict(), indent=2))
    else:
        typer.echo(stored.to_markdown() if format is Format.markdown else str(stored))
    if out is not None:
        typer.echo(f"wrote {out}", err=True)
