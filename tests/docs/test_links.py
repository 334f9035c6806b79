"""No relative link of a page is dead, and every page has its place in the site."""

from __future__ import annotations

import re
from pathlib import Path

from page_tools import CODE, PAGES, ROOT, slug

GENERATED = {"index.md"}  # of the README, by docs/_site/hooks.py; so is reference/


def anchors(path: Path) -> set[str]:
    return {
        slug(title) for title in re.findall(r"^#+ (.+)$", CODE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    }


def test_no_link_of_a_page_is_dead() -> None:
    for path in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", path.read_text(encoding="utf-8"))):
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            assert link.startswith("http") or target.is_file(), f"{path.name} links to {link}, which is not a file"
            assert link.startswith("http") or not anchor or anchor in anchors(target), f"{path.name} links to {link}"


def test_files_of_the_repository_that_a_page_names_are_there() -> None:
    file = re.compile(r"`((?:tests|benchmarks|dptune|examples|integrations)/[\w./-]+)`")
    named = {name: path.name for path in PAGES for name in file.findall(path.read_text(encoding="utf-8"))}
    assert {name: page for name, page in named.items() if not (ROOT / name).exists()} == {}


def test_every_page_is_in_the_navigation_and_no_other() -> None:
    listed = set(re.findall(r": ([\w/.-]+\.(?:md|py))$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    notebooks = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/notebooks/*.py")}
    assert {each for each in listed if not each.startswith("reference/")} == pages | notebooks | GENERATED


def test_figures_that_pages_show_are_there_and_others_are_not() -> None:
    shown = {link for path in PAGES for link in re.findall(r"figures/[\w.-]+", path.read_text(encoding="utf-8"))}
    shown |= set(re.findall(r"figures/[\w.-]+", (ROOT / "mkdocs.yml").read_text()))
    held = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/figures/*")}
    assert {each for each in shown if each.count(".")} <= held
