"""Where a ledger is kept, as a caller says it."""

from __future__ import annotations

import os

from dptune.errors import InputError


def place(name: str, value: object) -> str:
    """Return a path or URL as text.

    Raises:
        InputError: it is neither text nor a path, or empty. None, an environment variable that is not set, would be a
            file of that name.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not (isinstance(text, str) and text.strip() and "\0" not in text):
        raise InputError(
            f"{name} must say where, as text or a Path; got {value!r}. Is an environment variable not set?"
        )
    return text
