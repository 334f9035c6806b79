"""The lines that a run prints on the console, unless the user has configured logging."""

from __future__ import annotations

import logging


class Console(logging.StreamHandler):  # type: ignore[type-arg]
    """Prints the records of this package's loggers while the root logger has no handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass a line if no other handler prints it."""
        return not logging.getLogger().handlers and bool(super().filter(record))


def show_lines() -> None:
    """Show lines from INFO on, as Tune does, if the level of this package's logger is not set."""
    logger = logging.getLogger(__package__)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
        logger.addHandler(Console())
