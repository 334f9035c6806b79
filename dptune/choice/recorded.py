"""The choices that ledgers have recorded, side by side: what each said about its own people. Reads ledgers only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dptune.choice.result import IMPROVEMENT, INDEX, PairedEstimate, unestimated
from dptune.errors import InputError
from dptune.ledger.entries import Charge
from dptune.ledger.ledger import PLAN, PrivacyLedger

LOST = "lost: paid for, never recorded; rerun"
NOT_YET = "not estimated yet; rerun"


def refuse_same(ledgers: Sequence[PrivacyLedger]) -> None:
    """Refuse a ledger that is given twice, also under another path, or as a copy.

    Raises:
        InputError: two of the ledgers are one.
    """
    if len({ledger.identity for ledger in ledgers}) < len(ledgers):
        raise InputError(
            "give each ledger once (a copy of a ledger, or another path to it, is the same ledger): its choices are "
            "about the same people."
        )


def recorded_choices(ledger: PrivacyLedger) -> list[dict[str, Any]]:
    """Return what the ledger's choices said, in the order of their charges, as JSON data.

    Keys of a choice:
        ledger, people: name of the data set, and number of its people.
        choice, charged: name of the choice, and day of its charge.
        chosen, candidates: place of the chosen candidate, from 0, and number of all. None is chosen if a kill took the
            answer.
        list: digest of the candidates' public losses in their order; equal digests are equal lists of candidates.
        verdict: that of the :class:`dptune.Selection`. An answer or a planned estimate that is not recorded has its
            own: "lost: paid for, never recorded; rerun" after its charge, and for an estimate "not estimated yet;
            rerun" before it. The same call again returns what is missing.
        improvement, interval: over the default, and its 95% interval; None if nothing was estimated.
        predicted: the improvement that public rows predicted.
        private: False if the noise was seeded.

    Raises:
        InputError: the ledger has no choice.
    """
    charges: dict[str, dict[str, Charge]] = {}
    for charge in ledger.charges():
        charges.setdefault(charge.scope, {})[charge.key] = charge
    found = [_choice(ledger, scope, made) for scope, made in charges.items() if INDEX in made]
    if not found:
        raise InputError(
            f"the ledger of {ledger.dataset!r} has no choice. Ledgers that dptune.select or a front end's choose has "
            "charged can be compared."
        )
    return found


def _choice(ledger: PrivacyLedger, name: str, made: Mapping[str, Charge]) -> dict[str, Any]:
    stored: Any = ledger.fact(name, PLAN)
    asked = stored.get("asked", stored)  # a choice without public rows has no finalists
    index, estimate = _index(made[INDEX]), made.get(IMPROVEMENT)
    gain = PairedEstimate.of(estimate) if estimate is not None and estimate.value is not None else None
    return {
        "ledger": ledger.dataset,
        "people": ledger.n,
        "choice": name,
        "charged": (ledger.span(name) or ("", ""))[0][:10],
        "chosen": index,
        "candidates": asked["candidates"],
        "list": asked.get("public losses") or asked.get("points"),
        "verdict": _verdict(index, asked.get("default"), estimate, gain, planned=stored.get("share", 0.0) > 0),
        "improvement": None if gain is None else gain.value,
        "interval": None if gain is None else list(gain.interval()),
        "predicted": None if gain is None else gain.predicted,
        "private": all(charge.private for charge in made.values()),
    }


def _index(choice: Charge) -> int | None:
    """Return the place of the chosen candidate among all; None if it is not recorded."""
    if choice.value is None:
        return None
    (place,) = choice.value or (0.0,)
    return int(choice.note.get("finalists", range(int(place) + 1))[int(place)])


def _verdict(
    index: int | None, default: int | None, estimate: Charge | None, gain: PairedEstimate | None, *, planned: bool
) -> str:
    if gain is not None:
        return gain.verdict
    if index is None or estimate is not None:
        return LOST
    return NOT_YET if planned and default not in (None, index) else unestimated(index, default)


def side_by_side(choices: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row for each fact, with a column for each choice."""
    return [{"": fact} | dict(zip(choices, said, strict=True)) for fact, said in _facts(list(choices.values()))]


def _facts(choices: list[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    for fact in ("ledger", "choice", "charged", "people"):
        yield fact, [str(each[fact]) for each in choices]
    proposed = list(dict.fromkeys(each["list"] for each in choices))
    lists = [proposed.index(each["list"]) + 1 for each in choices]
    yield "candidates", [f"{each['candidates']} (list {i})" for i, each in zip(lists, choices, strict=True)]
    yield "chosen", ["" if each["chosen"] is None else f"candidate {each['chosen']}" for each in choices]
    yield "verdict", [each["verdict"] + ("" if each["private"] else " (NOT PRIVATE)") for each in choices]
    yield "improvement", [_number(each["improvement"]) for each in choices]
    yield "95% interval", [" to ".join(map(_number, each["interval"] or ())) for each in choices]
    yield "public rows predicted", [_number(each["predicted"]) for each in choices]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
