"""docs/architecture.md says what the code is: packages, terms, and walks whose steps call each other."""

from __future__ import annotations

import ast
import re

import pytest
from page_tools import ROOT, page

PAGE = page("docs/architecture.md")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}")[2].partition("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] not in ("term", "file", "package") and set(row[0]) != {"-"}]


def code_of(file: str, name: str) -> str:
    """The source of a class or a function of a file."""
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        (node,) = [each for each in ast.iter_child_nodes(node) if getattr(each, "name", None) == part]
    return ast.get_source_segment(text, node) or ""


def test_the_terms_are_few_and_each_is_a_class_that_exists() -> None:
    terms = cells(section("Terms"))
    assert 10 <= len(terms) <= 20
    for _, _, where in terms:
        file, name = re.findall(r"`([^`]+)`", where)
        assert f"class {name}" in code_of(file, name), where


WALKS = section("Three walks").split("\n### ")[1:]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.partition("\n")[0])
def test_a_walk_is_short_and_each_step_is_called_by_one_above_it(walk: str) -> None:
    assert len(WALKS) == 3
    steps = [(file.strip("`"), name.strip("`")) for file, name, _ in cells(walk)]
    assert len({file for file, _ in steps}) <= 12
    above = ""
    for file, name in steps:
        called = name.rpartition(".")[2]
        assert not above or re.search(rf"\b{called}\b", above), f"no step above {file}: {name} calls it"
        above += code_of(file, name)


def test_the_packages_are_those_that_exist() -> None:
    named = {name for row in cells(section("Packages")) for name in re.findall(r"`([\w/]+)/`", row[0])}
    folders = {path.parent.relative_to(ROOT / "dptune").as_posix() for path in (ROOT / "dptune").rglob("__init__.py")}
    assert named == folders - {".", "choice/report"}
