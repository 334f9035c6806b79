"""Check that a call raises an error of the right type, with words that name the input or the remedy."""

from collections.abc import Callable

import pytest

Errors = type[Exception] | tuple[type[Exception], ...]


def refused(error: Errors, words: str | None, *acts: Callable[[], object]) -> None:
    """Each act raises the error, and its message matches the pattern, if there is one."""
    for act in acts:
        with pytest.raises(error, match=words):
            act()
