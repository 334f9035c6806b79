"""docs/sklearn.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "sklearn.md").read_text()


def test_the_lines_of_the_migration_table_are_those_of_the_differences_below_it():
    told = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    differences = [block.split("```")[0].splitlines() for block in PAGE.split("```diff\n")[1:]]
    counted = [(sum(line[0] == "-" for line in one), sum(line[0] == "+" for line in one)) for one in differences]
    assert [(int(out), int(put)) for out, put in told] == counted
    assert len(counted) == 3


def test_what_replaces_the_other_searches_is_python():
    for block in PAGE.split("```diff\n")[1:]:
        new = [line[1:] for line in block.split("```")[0].splitlines() if line[0] != "-"]
        compile("\n".join(new), "sklearn.md", "exec")
