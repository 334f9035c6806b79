"""Find and run code blocks of pages."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer

from cli_tools import invoke
from prose import ROOT, markdown_files

PAGES = markdown_files()
X, Y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
TRAIN = X[400:].copy(), Y[400:].copy()  # apart from the private rows, or an objective could reach them
ROWS = {"X_train": TRAIN[0], "y_train": TRAIN[1], "X_val": X[:400].copy(), "y_val": Y[:400].copy()}
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def page(name: str) -> str:
    """The text of a page, or of one section of it: ``docs/cli.md#certificates``, with its subsections."""
    file, _, anchor = name.partition("#")
    text = (ROOT / file).read_text(encoding="utf-8")
    return sections(text)[anchor] if anchor else text


def sections(text: str) -> dict[str, str]:
    """The sections of a page, of the second and the third level, by their anchors."""
    hidden = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)  # a comment in code is no title
    titles = [
        (len(found[1]), slug(found[2]), found.start()) for found in re.finditer(r"^(##+) (.+)$", hidden, re.MULTILINE)
    ]
    ends = [
        next((start for level, _, start in titles[i + 1 :] if level <= own), len(text))
        for i, (own, *_) in enumerate(titles)
    ]
    return {anchor: text[start:end] for (_, anchor, start), end in zip(titles, ends, strict=True)}


def slug(title: str) -> str:
    """The anchor of a title, as GitHub and MkDocs make it."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def blocks(text: str, *languages: str) -> list[tuple[str, str]]:
    """Return (language, code) of each block of one of these languages, in order."""
    return re.findall(rf"^```({'|'.join(languages)})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run(
    name: str, names: Mapping[str, Any] | None = None, *, only: slice = slice(None), instead: Mapping[str, str] = {}
) -> dict[str, Any]:
    """Run the page's Python and the lines of its consoles, in order; a console's other lines must have been printed.

    ``instead`` has texts of the page and what is run in their place, as fewer trials.
    """
    known, text = dict(names or {}), page(name)
    for stands, runs in instead.items():
        assert stands in text
        text = text.replace(stands, runs)
    for language, code in blocks(text, "python", "console")[only]:
        if language == "python":
            exec(compile(code, name, "exec"), known)
            continue
        printed = ""
        for line in code.splitlines():
            if line.startswith("$ "):
                printed = dptune_prints(line.removeprefix("$ "))
            else:
                assert line in printed, f"{name} shows a line that is not printed: {line}"
    return known


def dptune_prints(command: str) -> str:
    command, _, file = command.partition(" > ")
    program, *arguments = shlex.split(command)
    assert program == "dptune", f"a console of the pages runs dptune only, not {program}"
    printed = invoke(*arguments)
    if file:
        Path(file).write_text(printed)
    return printed
