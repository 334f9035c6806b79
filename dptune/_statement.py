"""Privacy statements: what is promised, to whom, and what is not covered. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dptune._numbers import rounded_up

Rows = tuple[tuple[str, str], ...]  # (name, text)
NOTHING = "NONE (epsilon = infinity)"


class Curve(Protocol):
    """An upper bound of the privacy profile of all releases together."""

    def delta(self, epsilon: float) -> float:
        """Return a delta such that (epsilon, delta)-DP holds, epsilon >= 0."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon such that (epsilon, delta)-DP holds."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Everything a sceptical reader needs; print it, or use one of the three renderings.

    The first fields are what a ledger holds. The others are what it promises, in the words of its trust model: the room
    that knows the rule writes them.

    Attributes:
        dataset: name of what is protected.
        unit: what one record of it is.
        n: number of units, public; None if it is not stated.
        mechanisms: pairs (mechanism, number of charges).
        private: False if any noise was seeded; then nothing is guaranteed.
        versions: library versions when the ledger was created.
        delta: at which epsilon is given.
        epsilon: of everything that the ledger may spend; infinite if any noise was seeded.
        accountant: how epsilon was computed.
        noise: how noise is drawn.
        warnings: what a reader must see before the numbers.
        guarantee: rows of what is promised and what is spent.
        numbers: the same as JSON data.
        curve: delta of everything that the ledger may spend, at every epsilon; None if only the pair is known.
        unprotected: rows of what no release protects, because the user said that it need not.
        not_protected: whose rows are read and not protected, such as those that train; "" if nobody's.
        remarks: rows that belong to the numbers wherever these are shown, the unprotected ones among them.
    """

    dataset: str = ""
    unit: str
    adjacency: str
    trust_model: str
    n: int | None = None
    mechanisms: tuple[tuple[str, int], ...]
    private: bool
    versions: Mapping[str, str] = field(default_factory=dict)
    delta: float
    epsilon: float
    accountant: str
    noise: str
    not_covered: tuple[str, ...]
    warnings: tuple[str, ...]
    guarantee: Rows
    numbers: Mapping[str, object]
    curve: Curve | None = field(default=None, compare=False, repr=False)
    unprotected: Rows = ()
    remarks: Rows = ()
    not_protected: str = ""
    title: str = "Privacy statement"

    @property
    def releases(self) -> int:
        """Return the number of charges so far."""
        return sum(count for _, count in self.mechanisms)

    @property
    def protects(self) -> str:
        """Return in words who is protected."""
        return self.unit + (f" in {self.dataset!r}" if self.dataset else "") + (f", n = {self.n}" if self.n else "")

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Return one list of everything that is not protected or not covered."""
        return tuple(filter(None, (self.not_protected, *self.not_covered)))

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings and remarks in sentences, to print with the numbers."""
        return (*self.warnings, *(f"{name}: {text}." for name, text in self.remarks))

    def rows(self) -> Rows:
        """Return (name, text) of each row."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return (
            ("Protects", self.protects),
            ("Adjacency", self.adjacency),
            ("Trust model", self.trust_model),
            *((("Not protected", self.not_protected),) if self.not_protected else ()),
            *self.guarantee,
            *self.remarks,
            ("Mechanisms", "; ".join(f"{name} ({count})" for name, count in self.mechanisms) or "none so far"),
            ("Accountant", self.accountant),
            *((("", "Not covered")[i == 0], text) for i, text in enumerate(self.not_covered)),
            *((("Versions", versions),) if versions else ()),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the statement as plain JSON data (an infinite epsilon is the string "infinity")."""
        return {
            "private": self.private,
            "warnings": list(self.warnings),
            "remarks": dict(self.remarks),
            "dataset": self.dataset,
            "unit": self.unit,
            "n": self.n,
            "adjacency": self.adjacency,
            "trust_model": self.trust_model,
            "accountant": self.accountant,
            "mechanisms": [{"mechanism": name, "releases": count} for name, count in self.mechanisms],
            "releases": self.releases,
            "delta": self.delta,
            **self.numbers,
            "not_protected": self.not_protected,
            "not_covered": list(self.not_covered),
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """Return the statement as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_text(self) -> str:
        """Return the statement for a terminal."""
        lines = [self.title, *(f"  !! {warning}" for warning in self.warnings)]
        return "\n".join([*lines, *(f"  {name:<15}{text}" for name, text in self.rows())])

    def to_markdown(self) -> str:
        """Return the statement as Markdown."""
        lines = [f"## {self.title}", "", *(f"> **{warning}**\n" for warning in self.warnings)]
        cells = [f"| {name} | {text.replace('|', chr(92) + '|')} |" for name, text in self.rows()]
        return "\n".join([*lines, "| | |", "|---|---|", *cells])

    def __str__(self) -> str:
        return self.to_text()


def counted(count: int, one: str = "release", several: str = "") -> str:
    """Return a number of things with their noun; ``several`` is its plural, if that does not only add an s."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def priced(epsilon: float, delta: float, private: bool, for_whom: str) -> str:
    """Return an epsilon at a delta in words, also where no finite epsilon exists."""
    return f"epsilon = {rounded_up(epsilon)} at delta = {rounded_up(delta, 6)}, {for_whom}" if private else NOTHING


def large_delta(delta: float, n: int | None) -> tuple[str, ...]:
    """Return a warning if delta is not below 1/n."""
    if n is None or delta < 1 / n:
        return ()
    return (
        f"delta = {delta:g} is not below 1/n = {1 / n:g}: choose a smaller delta. A mechanism that "
        "publishes one random person's record satisfies this one.",
    )
