"""A file is one idea, so it is short."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 400  # lines


def test_no_file_is_longer_than_a_reader_holds_in_mind() -> None:
    folders = ("dptune", "integrations", "tests", "benchmarks", "examples", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in files}
    assert len(lines) > 300
    assert {path: count for path, count in lines.items() if count > MOST} == {}
