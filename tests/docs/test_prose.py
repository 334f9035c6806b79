"""Pages, messages and docstrings keep to the rules of ``prose.py``; the checker finds what breaks them."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import prose


def test_pages_messages_and_public_docstrings_keep_to_the_rules() -> None:
    files = [*prose.markdown_files(), *prose.python_files()]
    assert [str(fault) for path in files for fault in prose.faults(path)] == []


def test_the_readme_has_short_sentences() -> None:
    text = (prose.ROOT / "README.md").read_text(encoding="utf-8")
    assert mean(each.words for each in prose.markdown_sentences(text, tables=False)) <= prose.README_MEAN


def test_a_page_is_short_unless_it_is_a_proof() -> None:
    lengths = {path.name: len(path.read_text("utf-8").split()) for path in (prose.ROOT / "docs").glob("*.md")}
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
CODE = "```\n" + "word " * 20 + "\n\n" + "word " * 20 + "\n```\n"


def test_what_breaks_a_rule_is_found_and_code_and_tables_are_not_one_long_sentence(tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    for text, rule in BROKEN.items():
        page.write_text(f"# Title\n\n{text}\n")
        module.write_text(f"def f():\n    raise ValueError({text!r})\n")
        assert rule in {fault.rule for fault in prose.faults(page)}
        if "characters" not in rule:
            assert [fault.rule for fault in prose.faults(module)] == [rule]
    page.write_text(f"{CODE}\n| " + "five short words in cells | " * 4)
    assert list(prose.faults(page)) == []
