"""docs/architecture.md says what the code is: names of fields and methods, and how long front ends are."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

import pytest
from page_tools import ROOT, page

from dptune.privacy.mechanism import Mechanism
from dptune.search.algorithms.rounds import Rounds

PAGE = page("docs/architecture.md")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}")[2].partition("\n## ")[0]


def test_what_a_subclass_of_rounds_writes_is_what_the_page_says() -> None:
    own = section("How to add an algorithm").partition("writes")[2].partition(";")[0]
    members = {name for name in vars(Rounds) if name[0] != "_"}
    assert set(re.findall(r"`(\w+)`", own)) == {name for name in members if "NotImplementedError" in source(name)}


def source(name: str) -> str:
    found = vars(Rounds).get(name)
    return inspect.getsource(found) if inspect.isfunction(found) else ""


def test_a_mechanism_has_the_fields_that_the_page_names() -> None:
    (shown,) = re.findall(r"`Mechanism\(([^`]*)\)`", PAGE)
    assert shown.split(", ") == [field.name for field in fields(Mechanism)]


def test_front_ends_are_about_as_long_as_the_page_says() -> None:
    said = re.findall(r"`(dptune_\w+)`[^`]*?about ([\d,]+)", section("How to add a front end"))
    assert {name for name, _ in said} == {"dptune_optuna", "dptune_ray", "dptune_sklearn"}
    for name, lines in said:
        counted = sum(len(path.read_text().splitlines()) for path in (ROOT / "integrations" / name).glob("*.py"))
        assert counted == pytest.approx(int(lines.replace(",", "")), rel=0.25), f"{name} has {counted} lines"
