"""A page that an officer can sign: which ledger, what was released, what that risks, and what is not covered.

The page is plain JSON data that follows from the ledger and a delta, so paper and ledger can be compared later.
"""

from __future__ import annotations

import datetime
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from dptune._statement import Statement, counted, priced
from dptune._store import AskedQuestion
from dptune.errors import InputError, LedgerError
from dptune.ledger.approximate import Limits
from dptune.ledger.entries import cost_of
from dptune.ledger.filter import PairFilter
from dptune.ledger.gdp import Spent
from dptune.ledger.ledger import PrivacyLedger
from dptune.ledger.risk import Risk
from dptune.ledger.statement import TRAIN, BudgetStatement, budget_statement

_NEVER_COMPARED = ("date", "ledger", "annex")  # the annex is compared row by row
_GROWS = {  # the part of a line, or of a row of the annex, that changes with new releases
    "warnings": r"^\d+ (trainings? )?",  # a count of charges
    "annex, Promised": r"; spent so far: .*",
    "annex, Spent so far": ".*",  # the line "spent" is that of the paper's rows
    "annex, Made so far": r"^\d+ ",
    "annex, Mechanisms": ".*",
    "annex, Failures": ".*",
    "annex, Noise": r"\d+ of \d+ charges?",
}
_TITLES = {
    "protects": "Protects",
    "adjacency": "Neighbours",
    "trust_model": "Trust model",
    "budget": "Budget",
    "spent": "Spent",
    "risk": "Risk",
}
_WIDE, _LABEL = 98, 17  # columns of the page and of its titles
_MOST = 12  # questions on the page
_SIGNED = "  Signed         ______________________________   ______________________________   ____________"
_WHO = "                 name                             role                             date"


class Certified(Protocol):
    """A ledger of any kind."""

    def mark(self) -> dict[str, object]: ...
    def check_mark(self, mark: object) -> None: ...
    def asked(self, rows: int) -> list[AskedQuestion]: ...


def certificate(
    ledger: Certified, stated: Statement, *, rows: int | None = None, values: bool = False
) -> dict[str, Any]:
    """Return the page as JSON data.

    Args:
        ledger: of any kind.
        stated: its statement, at the delta of the page.
        rows: only the first rows count as released; default all.
        values: whether the released values are on the page, too.
    """
    mark = ledger.mark()
    asked = ledger.asked(int(str(mark["seq"])) if rows is None else rows)
    everything = "for all releases of this ledger together, made or to come"
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "ledger": mark,
        "delta": stated.delta,
        "warnings": list(stated.warnings),
        "protects": stated.protects,
        "adjacency": stated.adjacency,
        "trust_model": stated.trust_model,
        "budget": priced(stated.epsilon, stated.delta, stated.private, everything),
        "spent": _spent(ledger, stated, len(asked)),
        "released": list(_released(asked, values=values)),
        "risk": str(Risk.of_statement(stated)),
        "not_covered": [
            *(f"{name}: {text}" for name, text in stated.remarks if f"annex, {name}" not in _GROWS),
            *([TRAIN.format("")] if isinstance(stated, BudgetStatement) else [stated.not_protected]),
            *stated.not_covered,
        ],
        "annex": [list(row) for row in _annex(stated)],
    }


def _spent(ledger: Certified, stated: Statement, releases: int) -> str:
    if not isinstance(ledger, PrivacyLedger):
        return counted(releases)
    epsilon = Limits.of(cost_of(ledger.charges()[:releases])).epsilon(stated.delta)
    return priced(epsilon, stated.delta, stated.private, f"in {counted(releases)}")


def _released(asked: Sequence[AskedQuestion], *, values: bool) -> Iterator[dict[str, Any]]:
    """Yield each question of each study once."""
    groups: dict[tuple[str, str], list[AskedQuestion]] = {}
    for each in asked:
        groups.setdefault((each.study, each.question), []).append(each)
    for (study, question), same in groups.items():
        found = {each.key: each.value for each in same}
        days = [each.day for each in same]
        row = {"study": study, "question": question, "releases": len(same), "first": days[0], "last": days[-1]}
        yield {**row, "values": found} if values else row


def _annex(stated: Statement) -> Iterator[tuple[str, str]]:
    """Yield what an accountant needs in addition to the page."""
    known = {"Protects", "Adjacency", "Trust model", "Not protected", "Not covered", ""}
    yield from (row for row in stated.rows() if row[0] not in known)
    yield "Noise", stated.noise


# ---- paper -----------------------------------------------------------------------------------


def page(data: Mapping[str, Any]) -> str:
    """Return the page and its annex as text."""
    ledger = data["ledger"]
    lines = [f"Privacy certificate of {data['date']}", ""]
    lines += [line for warning in data["warnings"] for line in _row("!!", warning)]
    lines += _row("Ledger", ledger["ledger"])
    lines += _row("Last row", f"{ledger['seq']}  {ledger['hash']}".strip())
    for name, title in _TITLES.items():
        if name == "risk":
            said = [_question(row) for row in data["released"]] or ["nothing so far"]
            rest = len(said) - _MOST
            more = [f"{rest} more question{'s' * (rest > 1)}: --format json lists all"] * (rest > 0)
            lines += _rows("Released", said[:_MOST] + more)
        lines += _row(title, data[name])
    lines += _rows("Not covered", data["not_covered"])
    lines += ["", "", _SIGNED, _WHO, "", "", "Annex for the accountant", ""]
    return "\n".join(lines + [line for name, text in data["annex"] for line in _row(name, text)])


def _question(row: Mapping[str, Any]) -> str:
    days = " to ".join(dict.fromkeys(filter(None, (row["first"], row["last"]))))
    words = f"{row['study']}: {row['question']}" if row["study"] else row["question"]
    return f"{words} ({', '.join(filter(None, (counted(row['releases']), days)))}){_values(row.get('values', {}))}"


def _values(values: Mapping[str, Sequence[float] | str | None]) -> str:
    def shown(value: Sequence[float] | str | None) -> str:
        if value is None or isinstance(value, str):
            return value or "lost"
        return ", ".join(f"{number:.6g}" for number in value) or "none"  # a selection without a score stores none

    return "".join(f"; {key} = {shown(value)}" for key, value in values.items())


def _row(title: str, text: str) -> list[str]:
    wide = textwrap.TextWrapper(_WIDE, initial_indent=f"  {title:<15}", subsequent_indent=" " * _LABEL)
    wide.break_on_hyphens = False
    return wide.wrap(text)


def _rows(title: str, texts: Sequence[str]) -> list[str]:
    marked = [f"- {text}" for text in texts if text] if len(texts) > 1 else texts
    return [line for i, text in enumerate(marked) for line in _row("" if i else title, text)]


# ---- paper and ledger ------------------------------------------------------------------------


def read_paper(path: Path) -> dict[str, Any]:
    """Read a page that was written as JSON.

    Raises:
        InputError: the file is not one.
    """
    try:
        paper = json.loads(path.read_text())
        mark, released, annex = (paper[name] for name in ("ledger", "released", "annex"))
        rows = [dict(row) for row in released], dict(annex), str(mark["ledger"]), str(mark["hash"])
        kept = bool(rows) and _TITLES.keys() <= paper.keys() and type(mark["seq"]) is int and 0 <= paper["delta"] < 1
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        kept = False
    if not kept:
        if path.is_file() and path.read_bytes().startswith(b"SQLite format 3"):
            raise InputError(f"{path} is a ledger: give `dptune certificate {path} --verify paper.json`.")
        raise InputError(f"{path} is not a certificate. Write one by `dptune certificate ledger.db --format json`.")
    return dict(paper)


def compare(
    paper: Mapping[str, Any], ledger: Certified, stated_at: Callable[[float], Statement]
) -> tuple[list[str], list[AskedQuestion]]:
    """Return in words where a page differs from its ledger, and what the ledger was asked since then.

    Args:
        paper: the page as JSON data.
        ledger: the ledger to compare it with.
        stated_at: returns the ledger's statement at a delta.
    """
    mark, seen = paper["ledger"], ledger.mark()
    if mark["ledger"] != seen["ledger"]:
        return [f"the paper is of the ledger {mark['ledger']}; this ledger is {seen['ledger']}"], []
    try:
        ledger.check_mark(mark)
    except LedgerError as error:
        return [str(error)], []
    try:
        stated = stated_at(paper["delta"])
    except InputError:
        return [f"delta: the paper has {paper['delta']}; the ledger has no statement at it"], []
    rows = mark["seq"]
    later = ledger.asked(int(str(seen["seq"])))[rows:]
    if not rows and isinstance(ledger, PrivacyLedger) and isinstance(ledger.filter, PairFilter):
        stated = _undivided(stated)
    now = certificate(ledger, stated, rows=rows, values=any("values" in row for row in paper["released"]))
    pairs = [(name, *pair) for name, *pair in _pairs(paper, now) if not _same(name, *pair, grown=bool(later))]
    return [_difference(*pair) for pair in pairs], later


def _undivided(stated: Statement) -> Statement:
    """Return the statement of a present budget in (epsilon, delta) as if no charge had divided it."""
    if not isinstance(stated, BudgetStatement):
        return stated
    names = ("dataset", "unit", "n", "adjacency", "trust_model", "mechanisms", "private", "versions", "delta")
    known = ("failures", "public", "trained", "raises")
    facts, rest = ({name: getattr(stated, name) for name in each} for each in (names, known))
    before = budget_statement(facts, PairFilter(stated.budget), Spent(), **rest)
    return replace(before, remarks=stated.remarks, not_protected=stated.not_protected)


def _pairs(paper: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each line, and each row of the annex: its name, what the paper has, and what the ledger has."""
    for name in sorted({**paper, **now}.keys() - set(_NEVER_COMPARED)):
        yield name, paper.get(name), now.get(name)
    before, after = (dict(data["annex"]) for data in (paper, now))
    for name in {**before, **after}:
        yield f"annex, {name}", before.get(name), after.get(name)


def _same(name: str, one: Any, other: Any, *, grown: bool) -> bool:
    """Return whether a line is the same; of a ledger that was charged since then, without the part that grows."""
    if not grown:
        return bool(one == other)
    if name == "protects" and re.fullmatch(r", n = \d+", str(other).removeprefix(str(one))):
        return True  # the first charge fixes n
    return bool(_lasting(name, one) == _lasting(name, other))


def _lasting(name: str, said: Any) -> Any:
    """Return a line without the part that grows."""
    if name not in _GROWS:
        return said
    if isinstance(said, list):
        return [_lasting(name, str(each)) for each in said]
    return re.sub(_GROWS[name], "", "" if said is None else str(said), flags=re.DOTALL)


def _difference(name: str, one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):  # what both have is left out
        one, other = ([item for item in part if item not in rest] for part, rest in ((one, other), (other, one)))
    said = ("nothing" if part in (None, []) else json.dumps(part, ensure_ascii=False) for part in (one, other))
    return f"{name}: the paper has {next(said)}; the ledger has {next(said)}"
