"""A page that an officer can sign: which ledger, what was released, what that risks, and what is not covered.

The page is plain JSON data that follows from the ledger and a delta, so paper and ledger can be compared later.
"""

from __future__ import annotations

import datetime
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dptune._statement import Statement, counted, priced
from dptune._store import AskedQuestion
from dptune.errors import InputError, LedgerError
from dptune.ledger.approximate import Limits
from dptune.ledger.entries import cost_of
from dptune.ledger.ledger import PrivacyLedger
from dptune.ledger.risk import Risk
from dptune.ledger.statement import TRAIN, BudgetStatement

_NEVER_COMPARED = ("date", "annex")  # the annex is compared row by row
_GROW = {"Spent so far", "Made so far", "Promised", "Undivided", "Divided", "Mechanisms", "Failures", "Noise"}  # rows
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

    def mark(self) -> dict[str, object]:
        """Return identity, number of the last row, and the hash of all rows."""
        ...

    def check_mark(self, mark: object) -> None:
        """Refuse a mark whose row the ledger does not hold."""
        ...

    def asked(self, rows: int) -> list[AskedQuestion]:
        """Return the questions of the first rows."""
        ...


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
            *(f"{name}: {text}" for name, text in stated.remarks if name not in _GROW),
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


def _values(values: Mapping[str, Sequence[float] | None]) -> str:
    def shown(value: Sequence[float] | None) -> str:
        return "lost" if value is None else ", ".join(f"{number:.6g}" for number in value)

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


def compare(paper: Mapping[str, Any], ledger: Certified, stated: Statement) -> tuple[list[str], list[AskedQuestion]]:
    """Return in words where a page differs from its ledger, and what the ledger was asked since then."""
    mark, seen = paper["ledger"], ledger.mark()
    if mark["ledger"] != seen["ledger"]:
        return [f"the paper is of the ledger {mark['ledger']}; this ledger is {seen['ledger']}"], []
    try:
        ledger.check_mark(mark)
    except LedgerError as error:
        return [str(error)], []
    values = any("values" in row for row in paper["released"])
    now = certificate(ledger, stated, rows=mark["seq"], values=values)
    later = ledger.asked(int(str(seen["seq"])))[mark["seq"] :]
    differ = [_difference(*pair) for pair in _pairs(paper, now, grown=bool(later)) if pair[1] != pair[2]]
    return differ, later


def _pairs(paper: Mapping[str, Any], now: Mapping[str, Any], *, grown: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield each line of the paper that must not change, and what the ledger has; rows of a ``grown`` one may grow."""
    names = {**paper, **now}.keys() - {"ledger", *_NEVER_COMPARED}
    outgrown = grown and not paper["ledger"]["seq"]  # the first charge divides a budget in (epsilon, delta)
    if outgrown:
        names &= {"delta", "adjacency", "trust_model"}
    for name in sorted(names):
        yield name, *(_counted(data.get(name), grown and name == "warnings") for data in (paper, now))
    before, after = (dict(data["annex"]) for data in (paper, now))
    for name in {**before, **after}:
        if not (outgrown or (grown and name in _GROW)):
            yield f"annex, {name}", before.get(name), after.get(name)


def _counted(said: Any, grown: bool) -> Any:
    """Return a line; of a grown ledger's warnings without the count of charges with which they begin."""
    if not (grown and isinstance(said, list)):
        return said
    return [re.sub(r"^\d+ (trainings? )?", "", str(each)) for each in said]


def _difference(name: str, one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):  # what both have is left out
        one, other = ([item for item in part if item not in rest] for part, rest in ((one, other), (other, one)))
    said = ("nothing" if part in (None, []) else json.dumps(part, ensure_ascii=False) for part in (one, other))
    return f"{name}: the paper has {next(said)}; the ledger has {next(said)}"
