"""The commands: audit an objective, plan budgets, read ledgers and print their statements."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dptune._checks import between
from dptune._numbers import rounded_down, rounded_up
from dptune._statement import Statement
from dptune.audit import Audit
from dptune.choice.outlook import choice_forecast
from dptune.choice.recorded import recorded_choices, side_by_side
from dptune.choice.report.reporting import stored_report
from dptune.cli.shared import (
    DELTA,
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
    releases_of,
    show_contents,
)
from dptune.errors import InputError
from dptune.ledger import approximate
from dptune.ledger import certificate as certificates
from dptune.ledger.gdp import Budget
from dptune.ledger.ledger import PrivacyLedger
from dptune.ledger.registry import About, record, to_yaml
from dptune.local import UserLedger
from dptune.search.algorithms.centred_plan import default_trials
from dptune.search.outlook import forecast
from dptune.training import TrainingPlan, join
from dptune.training.profiles import epsilon_of


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


# ---- budgets: neither ledger nor data is read ------


@app.command()
def convert(
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
        cost = rounded_up(epsilon_of([TrainingPlan(*dp_sgd)], delta), 6)
        typer.echo(f"epsilon = {cost}  delta = {rounded_up(delta, 6)}\n{_NO_BRIDGE}")
        return
    budget = _budget(mu, epsilon, delta)
    stated = rounded_down(budget.mu, 6) if mu is None else rounded_up(budget.mu, 6)
    typer.echo(f"mu = {stated}  epsilon = {rounded_up(budget.epsilon(delta), 6)}  delta = {rounded_up(delta, 6)}")
    if mu is None:
        typer.echo(f"This mu is a budget for tuning, which promises that epsilon. {_NO_BRIDGE}")
    if between("choice-share", choice_share, 0.0, 1.0):
        typer.echo(_with_choice(budget, delta, choice_share))


def _budget(mu: float | None, epsilon: float | None, delta: float) -> Budget:
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


_NO_BRIDGE = (
    "The (epsilon, delta) of a DP-SGD training is not a mu, as its epsilon at smaller deltas is larger than that of "
    "the mu through one: plan it in a TrainingLedger, and join ledgers with `dptune statement train.db val.db`."
)


TYPICAL = {"log_loss": 4.0, "hinge": 3.0, "brier": 2.0, "zero_one": 1.0}  # typical upper ends, for a first plan


@app.command()
def plan(
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
    format: Listing = Listing.text,
) -> None:
    """Print how large the noise will be, and which improvement a run can show. Reads no data.

    Example: dptune plan --n 400 --loss hinge --epsilon 4
    """
    if (clip is None) == (loss is None):
        raise InputError("give one of --clip low high and --loss NAME.")
    if loss is not None and loss not in TYPICAL:
        raise InputError(f"--loss must be one of {', '.join(TYPICAL)}; got {loss!r}. For others give --clip low high.")
    low, high = clip or (0.0, TYPICAL[str(loss)])
    if mu is not None and epsilon is not None:
        raise InputError("give one of --mu and --epsilon.")
    budget = _budget(mu, epsilon, delta) if epsilon is not None else Budget.gdp(1.0 if mu is None else mu)
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
        f"{n} people, clip {low:g} to {high:g}; private searches: {trials} trials, with{'' if default else 'out'} "
        "default=\nsigma: standard deviation of the noise. shows: an improvement that shows in 95% of runs."
    )
    print_contents(Contents(title, {"private": True, "plans": table}, "plans"))
    for row in rows:
        if row["warning"] and row["mu"] == budget.mu and trials // 2 < row["trials"] <= trials:  # whole generations
            typer.echo(f"{row['method']}: {row['warning']}")


def _of_a_choice(n: int, width: float, budget: Budget, factor: float) -> dict[str, object]:
    """Return the row of a choice on public rows with this part of a budget."""
    epsilon, delta = budget.stated_epsilon, budget.stated_delta
    if epsilon is None or delta is None:
        return {"budget": f"mu={factor * budget.mu:g}", **choice_forecast(n, width, Budget.gdp(factor * budget.mu))}
    part = Budget.approximate_dp(factor * epsilon, delta)
    return {"budget": f"epsilon={factor * epsilon:g}", **choice_forecast(n, width, part)}


# ---- records for registries -----------


@app.command()
def certificate(
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
    opened = open_any(ledger)
    if verify is not None:
        _verify(opened, verify)
        return
    if isinstance(opened, UserLedger) and (values or registry is not None):
        raise InputError(
            f"this ledger belongs to users' own devices: it has no {'values to show' if values else 'registry record'}."
            f" Leave out {'--values' if values else '--registry'}: the page states its guarantee and its risk in words."
        )
    stated = _statement(opened, delta)
    if registry is not None:
        typer.echo(to_yaml(record(stated, About.read(registry))), nl=False)
        return
    data = certificates.certificate(opened, stated, values=values)
    typer.echo(json.dumps(data, indent=2) if format is Listing.json else certificates.page(data))


def _verify(opened: AnyLedger, path: Path) -> None:
    """Print whether a paper matches the ledger; exit with 1 if not."""
    paper = certificates.read_paper(path)
    differences, later = certificates.compare(paper, opened, _statement(opened, paper["delta"]))
    rows = paper["ledger"]["seq"]
    if differences:
        typer.echo("\n  ".join([f"{path} does NOT match the ledger {opened.identity}:", *differences]))
        raise typer.Exit(1)
    if not later:
        typer.echo(f"{path} matches the ledger {opened.identity}: each line, and all of its {rows} rows.")
        return
    typer.echo(f"{path} matches the first {rows} rows of the ledger {opened.identity}. It was charged since then:")
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
    return opened.statement() if isinstance(opened, UserLedger) else opened.statement(delta=delta_of([opened], delta))


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
    found = {place: recorded_choices(PrivacyLedger(place)) for place in ledgers}
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
        "Places of candidates can be compared within one list: equal configurations in equal order."
    )
    print_contents(Contents(title, {"private": True, "rows": side_by_side(named)}, "rows"))


@app.command()
def raise_budget(
    ledger: Ledger,
    mu: Annotated[float | None, typer.Option(help="the new GDP budget, in all")] = None,
    epsilon: Annotated[float | None, typer.Option(help="or the new epsilon at delta, in all")] = None,
    delta: Annotated[float, typer.Option(help="delta at which epsilon is given")] = DELTA,
) -> None:
    """Raise the budget of a ledger, for good. Every statement will show it. Run it once for all processes.

    Example: dptune raise-budget ledger.db --mu 1.5
    """
    if (mu is None) == (epsilon is None):
        raise typer.BadParameter("give one of --mu and --epsilon.")
    opened = PrivacyLedger(ledger)
    opened.raise_budget(_budget(mu, epsilon, delta))
    typer.echo(f"the budget of {opened.dataset!r} is mu = {rounded_up(opened.mu, 6)} in all")


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
    ledger: Ledger,
    name: Annotated[str | None, typer.Option(help="of the report; default the only one of the ledger")] = None,
    format: Format = Format.text,
    out: Annotated[Path | None, typer.Option(help="draw it to this file, too")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="on dark paper")] = False,
) -> None:
    """Print a report of a final model that `dptune.report` released, or draw it. Reads the ledger only.

    Example: dptune report ledger.db --out report.png
    """
    stored = stored_report(PrivacyLedger(ledger), name)
    if format is Format.json:
        typer.echo(json.dumps(stored.to_dict(), indent=2))
    else:
        typer.echo(stored.to_markdown() if format is Format.markdown else str(stored))
    if out is not None:
        stored.plot(out, dark=dark)
        typer.echo(f"wrote {out}", err=True)
