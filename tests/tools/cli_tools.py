"""Run the command line in this process."""

from typer.testing import CliRunner

from dptune.cli import app

# A file for `dptune audit`; its braces take the losses of X and y.
AUDIT = """
from dptune.audit import Audit
X, y = [[0.0], [1.0], [0.5], [0.2]], [0.0, 1.0, 1.0, 0.0]
audit = Audit(lambda X, y: {}, X, y, clip=(0.0, 1.0), people=1, answers=100)
"""


def invoke(*arguments: str) -> str:
    """Return what a command prints, which must succeed."""
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "140"})
    assert done.exit_code == 0, done.output
    return done.output
