"""Check our English: length of sentences, phrases that we avoid, and length of Markdown lines.

``python tests/tools/prose.py [FILE ...]`` prints ``file:line: fault: sentence`` and ends with 1 if there are faults.
Rules: README, docs, errors, warnings, log lines, help texts, docstrings and comments have at most 27 words a sentence.
Exempt from that rule alone are proofs, research pages, and sentences in code of which a quarter is formulas.
"""

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LONGEST, WIDEST, README_MEAN = 27, 120, 15
PROOFS = {"docs/privacy.md", "docs/frontier.md"}  # and everything under docs/research
BANNED = re.compile(
    r"(?<!here )\b(?:[Ii]s|[Aa]re) (?:none|no (?!longer|more|less|smaller|larger|later|earlier|easier)\w+)"
    r"|\b(?:[Tt]ells?|told) whether\b|\b[Ww]ho reads\b|\b(?:[Gg]oes|[Gg]o|went) on\b|\bthat of the other\b"
    r"|\b[Bb]eside\b|\b[Tt]old\b|\b[Ss]hall\b|\ball the same\b|\bwill not do\b|\bno say\b|\bone's own\b|\b[Aa]new\b"
    r"|\b[Ww]hoever\b|^That (?:of|nothing|numbers|they|a)\b|, as (?:with|in|of|for|those)\b"
    r"|\b[Hh]and(?:s|ed)? (?:in|over)\b|\bmade of\b|\b(?:will|did) tell\b|\btaken for\b"
)
FRAGMENT = re.compile(r"\s*(?:of|Of|That|What|Where|How|Whether|Whom?)\b")  # begins no docstring or comment
FORMULA = re.compile(r"[=<>^+*/|~\[\]{}]|^\W*(?:\w\W*|\d\S*)$|\w\(\w")
DIRECTIVE = re.compile(r"# (?:noqa|type:|fmt:|pragma|ruff:|mypy:|-{4})")
CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
CALLS = {"warn", "warning", "info", "debug", "error", "critical", "exception", "echo", "Option", "Argument"}
SKIPPED = {"Args:", "Returns:", "Raises:", "Attributes:", "Example:", "Yields:", "Notation:"}


class Sentence(NamedTuple):
    """A sentence, and where it begins."""

    line: int
    text: str

    @property
    def words(self) -> int:  # a formula, a name and a number are one word each
        return sum(any(map(str.isalnum, word)) for word in self.text.split())

    @property
    def is_formula(self) -> bool:
        """Return whether a quarter of the words have a sign of mathematics or are single letters."""
        parts = self.text.split()
        return 4 * sum(bool(FORMULA.search(part)) for part in parts) >= len(parts)


class Fault(NamedTuple):
    file: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


def markdown_files() -> list[Path]:
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def python_files() -> list[Path]:
    return [path for room in ("dptune", "integrations") for path in sorted((ROOT / room).rglob("*.py"))]


def is_proof(path: Path) -> bool:
    name = os.path.relpath(path, ROOT)
    return name in PROOFS or name.startswith("docs/research/")


def faults(path: Path) -> Iterator[Fault]:
    name, proof = os.path.relpath(path, ROOT), is_proof(path)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        for number, line in enumerate(text.splitlines(), 1):
            figures = proof and line.startswith("|")  # printed by a benchmark, and compared with it
            if len(line) > WIDEST and not figures and not re.fullmatch(r"\s*\S+", line):
                yield Fault(name, number, f"{len(line)} characters", line[:60])
    else:
        for line, piece in [*_docstrings(ast.parse(text)), *_comments(text)]:
            if start := FRAGMENT.match(piece):
                yield Fault(name, line, f"fragment {start[0].strip()!r}", piece.strip()[:60])
    found = markdown_sentences(text) if path.suffix == ".md" else python_sentences(text)
    for each in found:
        if each.words > LONGEST and not (proof or (path.suffix == ".py" and each.is_formula)):
            yield Fault(name, each.line, f"{each.words} words", each.text)
        if phrase := BANNED.search(each.text):
            yield Fault(name, each.line, f"phrase {phrase[0]!r}", each.text)


def markdown_sentences(text: str, *, tables: bool = True) -> list[Sentence]:
    """The sentences of a page, without code; each cell of a table and each item of a list stands by itself."""
    blocks = [(1, "")]  # line, text
    for number, line in enumerate(CODE.sub(lambda code: "\n" * code[0].count("\n"), text).splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith(("#", "<", "![")) or line.startswith("    "):
            blocks.append((number, ""))
        elif bare.startswith("|"):
            cells = re.split(r"(?<!\\)\|", bare.strip("|")) if tables else []
            blocks += [*((number, cell) for cell in cells), (number, "")]
        elif blocks[-1][1] and not re.match(r"[-*+] |\d+\. ", bare):
            blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]} {bare.removeprefix('> ')}")
        else:
            blocks.append((number, re.sub(r"^(?:[-*+] |\d+\. |> )", "", bare)))
    return [Sentence(number, each) for number, block in blocks for each in split(plain(block))]


def plain(text: str) -> str:
    """Text without marks: code is one word, a link is its text."""
    text = re.sub(r"`+[^`]*`+", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", "", text)


def split(text: str) -> list[str]:
    """Sentences, which end with a full stop, a question mark or an exclamation mark before a capital."""
    text = re.sub(r"\b(e\.g|i\.e|etc|vs|cf|al|resp)\.", r"\1", text)
    parts = re.split(r"(?<=[.?!])[)\"']*\s+(?=[\"'(*\[]*[A-Z0-9εδμ{])", text.strip())
    return [part.strip() for part in parts if any(map(str.isalpha, part))]


def python_sentences(text: str) -> list[Sentence]:
    """The sentences of docstrings, comments, errors, warnings, log lines and help texts of a module."""
    found: list[Sentence] = []
    for line, piece in [*_pieces(ast.parse(text)), *_comments(text)]:
        for paragraph in re.split(
            r"\n\s*\n|\n\s*[-*] |\n(?=\s*\w+(?:, \w+)*(?: \([^)]*\))?: )|\n\s*>>> .*|::\n", piece
        ):
            if paragraph.strip() and paragraph.strip() not in SKIPPED:
                entry = re.sub(r"^\w+(?:, \w+)*: ", "", " ".join(paragraph.split()))  # without an argument's name
                shown = plain(re.sub(r":\w+:`[^`]*`", "CODE", entry))
                found.extend(Sentence(line, each) for each in split(shown))
    return found


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if docstring := ast.get_docstring(node):
            yield node.body[0].lineno, docstring


def _pieces(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for line, docstring in _docstrings(tree):
        prose = re.split(r"\n\s*(?:Example|Glossary|Notation)s?:", docstring)[0]
        yield line, re.sub(r"\n\n +.*?(?=\n\n|\Z)", "", prose, flags=re.DOTALL) or prose
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _says(call):
            for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                if words := _words(argument):
                    yield argument.lineno, words


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments; those on consecutive lines of their own are one text."""
    first, last, block = 0, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            line, own = token.start[0], not token.line[: token.start[1]].strip()
            if block and not (own and line == last + 1):
                yield first, block
                block = ""
            first, last = first if block else line, line if own else 0
            block += f" {token.string.lstrip('# ')}"
    if block:
        yield first, block


def _says(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in CALLS or bool(re.fullmatch(r"\w*(?:Error|Mismatch|Exhausted|Planned|Refused|Closed|Warning)", name))


def _words(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if " " in node.value else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _words(node.left) + _words(node.right)
    return ""


def main(paths: Iterable[str]) -> int:
    """Print the faults of these files, or of all."""
    files = [Path(path).resolve() for path in paths] or [*markdown_files(), *python_files()]
    found = [fault for path in files for fault in faults(path)]
    for fault in found:
        print(fault)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
