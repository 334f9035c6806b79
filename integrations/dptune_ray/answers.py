"""What an actor answers: an exception that crossed processes would carry a traceback to consoles and error files.

So dptune's own errors, whose text is public, travel as data, and of any other exception only its type is told.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dptune
from dptune.privacy.private import bare


@dataclass(frozen=True)
class Answer:
    """A public value, or a public error.

    Attributes:
        value: what was asked for; plain data.
        error: why there is none.
    """

    value: Any = None
    error: dptune.DptuneError | None = None

    def get(self) -> Any:
        """Return the value.

        Raises:
            DptuneError: what the vault refused.
        """
        if self.error is not None:
            raise bare(self.error)
        return self.value


def answered(method: Callable[..., Any]) -> Callable[..., Answer]:
    """Make a method return an :class:`Answer`."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Answer:
        try:
            return Answer(method(*args, **kwargs))
        except dptune.DptuneError as error:
            return Answer(error=bare(error))
        except Exception as error:  # noqa: BLE001 - its text could quote a private value
            return Answer(error=dptune.DptuneError(f"the {_name(args)} failed with {type(error).__name__}."))

    return call


def _name(args: tuple[Any, ...]) -> str:
    return type(args[0]).__name__.lower()
