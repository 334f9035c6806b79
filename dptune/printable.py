"""A statement's three renderings. Standard library only: a user's device prints statements too."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context


class Printable(ABC):
    """A statement's three renderings."""

    @property
    @abstractmethod
    def warnings(self) -> Sequence[str]:
        """What a reader must not miss."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Return the statement as plain JSON data."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """Return (name, text) of each row."""

    def to_json(self) -> str:
        """Return the statement as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_text(self) -> str:
        """Return the statement for a terminal."""
        lines = [self._title(), *(f"  !! {warning}" for warning in self.warnings)]
        return "\n".join([*lines, *(f"  {name:<13}{text}" for name, text in self._rows())])

    def to_markdown(self) -> str:
        """Return the statement as Markdown."""
        lines = [f"## {self._title()}", "", *(f"> **{warning}**\n" for warning in self.warnings)]
        cells = [f"| {name} | {text.replace('|', chr(92) + '|')} |" for name, text in self._rows()]
        return "\n".join([*lines, "| | |", "|---|---|", *cells])

    def _title(self) -> str:
        return "Privacy statement"

    def __str__(self) -> str:
        return self.to_text()


def finite(value: float) -> float | str:
    """Return a number as JSON has it: infinity is a word."""
    return value if value != float("inf") else "infinity"


def rounded_up(value: float, digits: int = 4) -> str:
    """Return a loss of privacy in ``digits`` significant digits, rounded up: 4.37718 is "4.378".

    The nearest number would claim more than is proved half of the time. Up to 1e-9 of the value may be cut off.
    """
    return _rounded(value * (1 - _ROUNDING), digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """Return a budget that may be spent in ``digits`` significant digits, rounded down but for 1e-9 of it."""
    return _rounded(value * (1 + _ROUNDING), digits, ROUND_FLOOR)


_ROUNDING = 1e-9  # of sums and root finders, so that 3 stays "3"; dptune's noise scales have a slack of 1e-6


def _rounded(value: float, digits: int, direction: str) -> str:
    return f"{float(Context(prec=digits, rounding=direction).create_decimal_from_float(value)):.{digits}g}"
