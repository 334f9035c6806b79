"""Run the command line in this process."""

from typer.testing import CliRunner

from dptune.cli import app


def invoke(*arguments: str) -> str:
    """Return what a command prints, which must succeed."""
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "140"})
    assert done.exit_code == 0, done.output
    return done.output
