"""Certificates on docs/cli.md: their blocks run in order, and print what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptune.cli import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/cli.md").read_text().partition("\n## Certificates\n")[2]
BLOCKS = re.findall(r"```(python|console)\n(.*?)```", PAGE, re.DOTALL)


def run(command: str) -> str:
    """Run one line, in this process."""
    name, *arguments = shlex.split(command)
    assert name == "dptune"
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_runs_and_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/about.toml", "about.toml")
    output = ""
    for language, text in BLOCKS:
        if language == "python":
            exec(text, {})
            continue
        for line in text.splitlines():
            if line.startswith("$ "):
                output = run(line.removeprefix("$ "))
            else:
                assert line in output
    assert sum(language == "console" for language, _ in BLOCKS) == 2
