"""Capture every logger of the process at every level, without what differs between two runs on the same data."""

import gc
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def every_logger(*, thread: int | None = None) -> Iterator[list[str]]:
    """Collect what any logger says at any level, the root and those that exist or will; of one thread, if named."""
    gc.collect()  # studies of an earlier run say now how far they came
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if thread in (None, record.thread) and not record.name.startswith(
                "sqlalchemy.pool"
            ):  # addresses, and when the collector of garbage ran
                lines.append(f"{record.name} {record.levelname} {self.format(record)}")

    root, handler = logging.getLogger(), Collect(logging.NOTSET)
    named = [one for one in logging.Logger.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    before = [(one, one.level, one.disabled, list(one.handlers)) for one in (root, *named)]
    for one in (root, *named):
        one.disabled = False
        if one.name.startswith("sqlalchemy"):  # MLflow prints what these say, and when
            one.handlers.clear()
        set_level(one, logging.NOTSET)
        if one is root or not one.propagate:
            one.addHandler(handler)
    try:
        yield lines
    finally:
        for one, level, disabled, handlers in before:
            one.handlers[:] = handlers
            set_level(one, level)
            one.disabled = disabled


def set_level(logger: logging.Logger, level: int) -> None:
    """Set a level that differs: each time all loggers of the process, thousands, forget what they are enabled for."""
    if logger.level != level:
        logger.setLevel(level)


def without_clocks(lines: list[str], folder: Path) -> list[str]:
    """Mask what differs between two runs on the same data: times, identities and hashes, addresses, folders."""
    text = "\n".join(lines).replace(str(folder), "<folder>")
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "<time>", text)
    text = re.sub(r"datetime\.datetime\([^)]*\)+", "<time>", text)
    text = re.sub(r"\[(generated in|cached since|no key) [^]]*\]", "<cached>", text)
    text = re.sub(r"\b[0-9a-f]{32,64}\b|0x[0-9a-f]+", "<identity>", text)
    return text.splitlines()
