"""The command line: look at a ledger, print its statement, draw it, convert budgets."""

from __future__ import annotations

import os
import sys
from traceback import walk_tb

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
    """Run the command line; an error of dptune, or of writing the output, is one line, not a traceback."""
    try:
        app()
    except DptuneError as error:
        sys.exit(f"dptune: {error}")
    except (OSError, UnicodeEncodeError) as error:
        if not _of_the_output(error):
            raise
        _discard()
        if isinstance(error, OSError):
            sys.exit(f"dptune: the output cannot be written: {error.strerror}.")
        sys.exit(f"dptune: the output cannot be written in {sys.stdout.encoding}: set PYTHONIOENCODING=utf-8.")


def _of_the_output(error: Exception) -> bool:
    """Return whether a library that prints raised the error, and not a script to audit."""
    names = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__)]
    return [name for name in names if name != "encodings"][-1] in ("typer", "click", "rich")


def _discard() -> None:
    """Discard output that cannot be flushed, so that the interpreter does not try it again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
