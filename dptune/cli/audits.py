"""Audit one's own objective and settings, on public or made-up rows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Annotated

import typer

from dptune.audit import Audit
from dptune.cli.shared import app
from dptune.errors import InputError


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(help="Python file that sets audit = dptune.audit.Audit(...)")],
) -> None:
    """Check your losses and settings on public or made-up rows, and print what each check proves."""
    if not file.exists():
        raise InputError(f"there is no file {file}.")
    found = runpy.run_path(str(file)).get("audit")
    if not isinstance(found, Audit):
        raise InputError(f"{file} must set audit = dptune.audit.Audit(losses, X, y, clip=...).")
    broken = 0
    for finding in found.run():
        typer.echo(finding)
        broken += not finding.holds
    typer.echo("An audit finds what breaks a promise. That nothing was found is not a proof: see docs/privacy.md.")
    if broken:
        raise typer.Exit(1)
