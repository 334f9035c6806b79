"""A statement's three renderings. Standard library only: a user's device prints statements too."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence


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
