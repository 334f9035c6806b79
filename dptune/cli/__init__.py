"""The command line: look at a ledger, print its statement, draw it, convert budgets."""

from __future__ import annotations

import sys

try:
    from dptune.cli import commands
    from dptune.cli.shared import app
except ModuleNotFoundError as error:
    if error.name not in ("typer", "rich"):
        raise
    sys.exit('the command line needs typer and rich: pip install "dptune[cli]".')

from dptune.errors import DptuneError

__all__ = ["app", "commands", "main"]


def main() -> None:
    """Run the command line; an error of dptune is one line, not a traceback."""
    try:
        app()
    except DptuneError as error:
        sys.exit(f"dptune: {error}")
