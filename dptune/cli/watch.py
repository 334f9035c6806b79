"""A view of a ledger that follows a run: budget, progress, noise, released values. All of it is public."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dptune._numbers import rounded_up
from dptune.cli.shared import DELTA, AnyLedger, Ledger, app, contents_of, open_any, table_of
from dptune.ledger.approximate import Limits
from dptune.ledger.entries import Charge, cost_of
from dptune.ledger.ledger import PLAN, PrivacyLedger
from dptune.privacy.query import Interval
from dptune.results.estimate import Estimate, parameters_in_words
from dptune.search.agreement import PRIVATIZER, stored_plan
from dptune.search.replay import FINAL, VALUE
from dptune.search.view import RunView

BLOCKS = "▁▂▃▄▅▆▇█"
CELLS, SHOWN = 30, 40  # of a bar; of the released values
Runs = dict[str, RunView | None]  # that were looked at, so that the next look learns only what is new


@app.command()
def watch(
    ledger: Ledger,
    once: Annotated[bool, typer.Option("--once", help="print one frame and stop")] = False,
    seconds: Annotated[float, typer.Option(min=0.1, help="time between two looks")] = 2.0,
) -> None:
    """Show budget, progress, noise and released values of a ledger, and follow them until Ctrl-C.

    Example: dptune watch ledger.db --once
    """
    opened = open_any(ledger)
    console = Console()
    runs: Runs = {}
    if once:
        console.print(frame(opened, runs))
        return
    with Live(frame(opened, runs), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(seconds)
            live.update(frame(opened, runs), refresh=True)


def frame(opened: AnyLedger, runs: Runs, now: datetime | None = None) -> RenderableType:
    """Return the view of one moment."""
    if not isinstance(opened, PrivacyLedger):
        contents = contents_of(opened)
        style = "" if contents.facts["private"] else "red"
        return Panel(table_of(contents), title=Text(contents.title), border_style=style)
    charges = opened.charges()
    scopes = list(dict.fromkeys(charge.scope for charge in charges))
    studies = [_study(opened, scope, [c for c in charges if c.scope == scope], runs, now) for scope in scopes]
    private = all(charge.private for charge in charges)
    title = f"{opened.dataset}, n = {opened.n}" if private else "NOT PRIVATE (seeded noise)"
    return Panel(
        Group(_budget(opened, charges, private), *studies), title=Text(title), border_style="" if private else "red"
    )


def _budget(opened: PrivacyLedger, charges: list[Charge], private: bool) -> Text:
    spent = cost_of(charges)
    delta = opened.budget.stated_delta or DELTA
    epsilon = rounded_up(Limits.of(spent).epsilon(delta)) if private else "= infinity"
    words = f"mu {rounded_up(spent.mu)} of {rounded_up(opened.mu)} is spent, epsilon {epsilon} at delta {delta:g}"
    return Text(f"Budget   {_bar((spent.mu / opened.mu) ** 2)}  {words}")


def _study(
    opened: PrivacyLedger, scope: str, charges: list[Charge], runs: Runs, now: datetime | None
) -> RenderableType:
    rows = Table.grid(padding=(0, 2))
    rows.add_row("Progress", _progress(opened, scope, charges, now or datetime.now(UTC)))
    for kind in dict.fromkeys(charge.key.partition("/")[0] for charge in charges):
        made = [charge for charge in charges if charge.key.partition("/")[0] == kind]
        rows.add_row(kind.capitalize(), f"{len(made)} made, noise {_sigma(made[-1])}")
    values = [c.value[0] for c in charges if c.key.startswith(VALUE) and c.value]
    if values:
        rows.add_row("Values", f"{_sparkline(values[-SHOWN:])}  last {values[-1]:.4g}, lowest {min(values):.4g}")
    if opened.fact(scope, PLAN) is not None:
        rows.add_row("Best", Text(_final(opened, scope, charges) or _best(opened, scope, runs)))
    return Panel(rows, title=Text(f"study {scope}"), title_align="left")


def _best(opened: PrivacyLedger, scope: str, runs: Runs) -> str:
    """What the run recommends now, in words."""
    count = (stored_plan(opened, scope) or {}).get("candidates")
    if count is not None:
        return f"one of {count} candidates, by private selection: dptune.select returns which"
    if runs.get(scope) is None:
        runs[scope] = RunView.of(opened, scope)
    run = runs[scope]
    if run is None:
        return "known to the run only, recommend(): its method or settings are its user's"
    best = run.so_far()
    return "nothing is released yet that says where to look" if best is None else best.summary()


def _progress(opened: PrivacyLedger, scope: str, charges: list[Charge], now: datetime) -> str:
    """The part of the run's own budget that is spent, and when all of it will be at this pace."""
    plan = opened.fact(scope, PLAN)
    span = opened.span(scope)
    spent = cost_of(charges).mu
    if not (isinstance(plan, dict) and isinstance(plan.get("mu"), int | float) and span):
        return f"mu {rounded_up(spent)} spent, no plan"
    share = min((spent / plan["mu"]) ** 2, 1.0)
    first, last = (datetime.fromisoformat(at) for at in span)
    left = (last - first) * (1 / share - 1) - (now - last)
    rounded = timedelta(seconds=round(left.total_seconds()))
    ends = f", ends in about {rounded}" if share < 1 and left > timedelta(0) else ""
    return f"{_bar(share)}  mu {rounded_up(spent)} of {rounded_up(plan['mu'])} planned{ends}"


def _final(opened: PrivacyLedger, scope: str, charges: list[Charge]) -> str:
    """What the final estimate says, if it was made."""
    final = next((c for c in charges if c.key == FINAL and c.value), None)
    people = opened.fact(scope, PRIVATIZER)
    if final is None or not final.value or not isinstance(people, dict):
        return ""
    clip = Interval(*people["clip"])
    sigma = float(final.description["sigma"])
    value, low, high = Estimate.of_loss(final.value[0], sigma, clip, private=final.private).shown()
    parameters = parameters_in_words(final.note["parameters"])
    return f"{parameters}: loss {value:.4g} (95%: {low:.4g} to {high:.4g})"


def _sigma(charge: Charge) -> str:
    sigma = charge.description.get("sigma")
    return f"{sigma:.3g} a coordinate" if isinstance(sigma, float) else "by its mechanism"


def _bar(share: float) -> str:
    full = round(CELLS * min(share, 1.0))
    return "█" * full + "░" * (CELLS - full) + f" {100 * share:3.0f}%"


def _sparkline(values: list[float]) -> str:
    low, high = min(values), max(values)
    steps = (int((len(BLOCKS) - 1) * (v - low) / (high - low)) if high > low else 0 for v in values)
    return "".join(BLOCKS[step] for step in steps)
