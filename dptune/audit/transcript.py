"""Everything that a function reveals while it runs: console, logs, warnings, and the text of its error."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TypeVar

T = TypeVar("T")


def transcript(function: Callable[[], T]) -> tuple[T | None, str]:
    """Return a function's result, or None if it raised, and all its prints, logs, warnings and errors."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), _every_logger(said):
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - on made-up rows; that it depends on one of them is the finding
            said.write(f"{type(error).__name__}: {error}")
            return None, said.getvalue()
    return result, said.getvalue()


@contextmanager
def _every_logger(stream: io.StringIO) -> Iterator[None]:
    root = logging.getLogger()
    handler = logging.StreamHandler(stream)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.NOTSET)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.removeHandler(handler)
