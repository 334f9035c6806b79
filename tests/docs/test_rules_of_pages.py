"""All pages follow the rules of links and prose, and docs/architecture.md describes the code."""

import ast
import re
from pathlib import Path
from statistics import mean

import pytest

import prose
from page_tools import CODE, PAGES, ROOT, page, slug

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
    assert {name: where for name, where in named.items() if not (ROOT / name).exists()} == {}


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


# ---- prose ---------------------------------------------------------------------------------------------------------


def test_pages_messages_docstrings_and_comments_keep_to_the_rules() -> None:
    files = [*prose.markdown_files(), *prose.python_files()]
    assert [str(fault) for path in files for fault in prose.faults(path)] == []


def test_the_readme_has_short_sentences() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert mean(each.words for each in prose.markdown_sentences(text, tables=False)) <= prose.README_MEAN


def test_a_page_is_short_unless_it_is_a_proof() -> None:
    lengths = {path.name: len(path.read_text("utf-8").split()) for path in (ROOT / "docs").glob("*.md")}
    assert {name for name, words in lengths.items() if words > 2500} <= {Path(name).name for name in prose.PROOFS}


BROKEN = {  # text -> the rule that it breaks
    "A sentence " + "of many words " * 10 + "ends.": "33 words",
    "The plan is none.": "phrase 'is none'",
    "A named actor is no wall.": "phrase 'is no wall'",
    "It tells whether the run is complete.": "phrase 'tells whether'",
    "The run goes on.": "phrase 'goes on'",
    "People who shall be protected.": "phrase 'shall'",
    "Draw nothing at random, as in training.": "phrase ', as in'",
    "word " * 25: "125 characters",
}
BLOCK = "```\n" + "word " * 20 + "\n\n" + "word " * 20 + "\n```\n"


def test_broken_rules_are_found_and_code_and_tables_are_not_sentences(tmp_path: Path) -> None:
    written, module = tmp_path / "page.md", tmp_path / "module.py"
    for text, rule in BROKEN.items():
        written.write_text(f"# Title\n\n{text}\n")
        module.write_text(f"def f():\n    raise ValueError({text!r})\n")
        assert rule in {fault.rule for fault in prose.faults(written)}
        if "characters" not in rule:
            assert [fault.rule for fault in prose.faults(module)] == [rule]
            lines = "# " + text.replace(" ", "\n# ", 1) + "\n"
            for code in (f"def _f():\n    {text!r}\n", f"x = 1  # {text}\n", lines):
                module.write_text(code)
                assert rule in {fault.rule for fault in prose.faults(module)}, code
    module.write_text('def f():\n    """What it returns."""\n\n\nx = 1  # of a person\n')
    assert [fault.rule for fault in prose.faults(module)] == ["fragment 'What'", "fragment 'of'"]
    module.write_text("# If |x| <= r, " + "x^2 <= r^2 and so " * 10 + "on.\n")  # a sentence of formulas may be long
    assert list(prose.faults(module)) == []
    written.write_text(f"{BLOCK}\n| " + "five short words in cells | " * 4)
    assert list(prose.faults(written)) == []


# ---- docs/architecture.md: packages, terms, and walks whose steps call each other ----------------------------------

PAGE = page("docs/architecture.md")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}")[2].partition("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [
        row
        for row in rows
        if row[0] not in ("term", "file", "package", "the message has", "labels") and set(row[0]) != {"-"}
    ]


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
    assert len({file for file, _ in steps}) <= 9
    above = ""
    for file, name in steps:
        called = name.rpartition(".")[2]
        assert not above or re.search(rf"\b{called}\b", above), f"no step above {file}: {name} calls it"
        above += code_of(file, name)


def test_refusals_and_metrics_are_where_the_page_says() -> None:
    refusals = cells(section("Where a choice is refused"))
    for words, file, name in refusals:
        code = re.sub(r'"\s*f?"', "", code_of(file.strip("`"), name.strip("`")))  # a text of several lines
        assert words in code, f"{name} has no message with {words!r}"
    classes = {name.strip("`"): file.strip("`") for _, file, name in cells(section("How to add a metric"))}
    assert len(refusals) >= 8
    assert len(classes) == 4
    listed = page("docs/report.md").partition("## What is in it")[2]
    for name, file in classes.items():
        for found in re.findall(r'\.(?:share|mean_of)\(\s*"(\w+)"', code_of(file, name)):
            assert f"`{found}`" in listed, f"docs/report.md does not name {found}"


def test_the_packages_are_those_that_exist() -> None:
    named = {name for row in cells(section("Packages")) for name in re.findall(r"`([\w/]+)/`", row[0])}
    folders = {path.parent.relative_to(ROOT / "dptune").as_posix() for path in (ROOT / "dptune").rglob("__init__.py")}
    assert named == folders - {".", "choice/report"}
