"""Checks of public arguments: each returns the value in plain form, or raises :class:`dptune.InputError` by its name.

The error says what is allowed. NumPy's scalars are converted to Python's numbers; everything else is not a number. Only
exact types count: a subclass may compare, hash and convert in its own way.

Standard library only, because a user's device checks its arguments, too: before NumPy is imported, no value can be its
scalar.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from dptune.errors import BudgetMismatch, DptuneError, InputError

COUNTABLE = 2**53  # up to here a float counts one by one


def _is_of(value: object, plain: tuple[type, ...], codes: tuple[str, ...]) -> bool:
    """Return whether the type is one of ``plain``, or a NumPy scalar type of a kind in ``codes``."""
    return type(value) in plain or (sys.modules.get("numpy") is not None and type(value) in _scalar_types(codes))


@cache
def _scalar_types(codes: tuple[str, ...]) -> frozenset[type]:
    numpy = sys.modules["numpy"]
    return frozenset(numpy.dtype(c).type for kind in codes for c in numpy.typecodes[kind])


def whole(value: Any) -> int | None:
    """Return a whole number as an int, or None if it is something else (a bool, a float, text)."""
    return int(value) if _is_of(value, (int,), ("AllInteger",)) else None


def real(value: Any) -> float | None:
    """Return a finite real number as a float, or None if it is something else."""
    try:
        number = float(value) if _is_of(value, (int, float), ("AllInteger", "Float")) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's, also in tuples, lists and dictionaries; everything else as it is."""
    if type(value) is dict:
        return {name: plain(each) for name, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) not in _scalar_types(("AllInteger", "Float")) | {numpy.bool_, numpy.str_}:
        return value
    return float(value) if isinstance(value, numpy.floating) else value.item()


def tupled(value: Any) -> Any:
    """Return plain JSON data with its lists as tuples, at every depth of lists."""
    return tuple(tupled(each) for each in value) if isinstance(value, list) else value


T = TypeVar("T")
_NOTHING = "Nothing was charged."


@contextmanager
def nothing_charged() -> Iterator[None]:
    """Append "Nothing was charged." to errors raised inside, which come before any charge."""
    try:
        yield
    except (InputError, BudgetMismatch) as error:
        if not str(error).endswith(_NOTHING):
            error.args = (f"{error} {_NOTHING}",)
        raise


def shown(value: object) -> str:
    """Return how an error quotes a public setting: numbers and short texts as they are, all else by :func:`kind`.

    A caller may pass people's rows for a setting by mistake, so the ``repr`` of an object never appears.
    """
    scalar = None if isinstance(value, list | dict) else plain(value)
    brief = type(scalar) in (bool, float) or (type(scalar) is int and abs(scalar) < 10**_LONG)
    return repr(scalar) if brief or (type(scalar) is str and len(scalar) <= _LONG) else kind(value)


_LONG = 200  # characters of a text, and digits of a number


def kind(value: object) -> str:
    """Return an object's type and shape or length: an error says no more about objects that may hold private values."""
    if value is None:
        return "None"
    name = type(value).__name__
    shape = attempt(lambda: tuple(value.shape), failed=None)  # type: ignore[attr-defined]
    size = ""
    if shape is not None and all(type(each) is int for each in shape):
        size = f" of shape {shape}"
    elif isinstance(value, list | tuple | dict | set | frozenset | bytes | str):
        size = f" of length {attempt(len, value, failed=0)}"
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}{size}"


def column_names(X: Any) -> list[Any] | None:
    """Return the names of a table's columns; None if no known attribute holds names.

    The attribute differs: ``columns`` of an Arrow table is its data.
    """
    names = attempt(lambda: X.column_names, failed=None)  # Arrow, and the interchange protocol, where it is a method
    if names is None:
        names = attempt(lambda: X.columns, failed=None)
        names = names if isinstance(names, list) or hasattr(type(names), "get_indexer") else None  # Polars, or pandas
    listed = attempt(lambda: list(names() if callable(names) else names), failed=None)
    shape = attempt(lambda: tuple(X.shape), failed=())
    if listed is None or shape[1:] not in ((), (len(listed),)):
        return None
    return listed if hasattr(type(names), "get_indexer") or all(type(name) is str for name in listed) else None


def attempt(call: Callable[..., T], *args: object, failed: T) -> T:
    """Return the result of the call, or ``failed`` if it raises anything, ``SystemExit`` and panics included.

    Only ``KeyboardInterrupt`` passes, as a new exception: frames of the original hold private values.
    """
    try:
        return call(*args)
    except KeyboardInterrupt:
        pass
    except BaseException:  # noqa: BLE001 - a private entry may have caused it, and its text may quote that
        return failed
    raise KeyboardInterrupt


def length_of(table: Any) -> int | None:
    """Return the number of rows; None if it is unknown. SciPy's sparse matrices have a shape and no length."""
    return attempt(lambda: len(table) if getattr(table, "shape", None) is None else int(table.shape[0]), failed=None)


def not_a_vector(name: str, answers: Any) -> str:
    """Return what is wrong with answers that have columns, and what to do; "" if they have none."""
    shape = attempt(lambda: tuple(answers.shape), failed=())
    if len(shape) < 2:
        return ""
    remedy = "Of one-hot columns give the labels, such as y.argmax(axis=1). Of several targets use one at a time, each "
    remedy += "under a name= of its own."
    if shape[1:] == (1,):
        remedy = "Give a vector, such as numpy.ravel(y)."
    return f"{name} has shape {shape}; allowed: ({shape[0]},), one answer a row. {remedy}"


def readable(name: str, read: Callable[..., T], *given: object) -> T:
    """Return the result of ``read`` on private objects; replace errors that are not dptune's, which may quote them."""
    try:
        return read(*given)
    except DptuneError:
        raise
    except KeyboardInterrupt:
        failure = ""
    except BaseException as error:  # noqa: BLE001 - the container's own, whose text may quote a private entry
        failure = type(error).__name__
    if not failure:
        raise KeyboardInterrupt
    raise InputError(f"{name} cannot be read ({failure}); got {' and '.join(map(kind, given))}. {_NOTHING}")


def text(name: str, value: object, quote: Callable[[object], str] = shown) -> str:
    """Return a text that is not empty and that a database can store; an error quotes the given value by ``quote``."""
    if not (isinstance(value, str) and value):
        raise InputError(f"{name} must be a text that is not empty; got {quote(value)}.")
    if "\0" in value or value.encode(errors="ignore").decode() != value:
        raise InputError(f"{name} must be a text without NUL characters and lone surrogates; got {quote(value)}.")
    return value


def json_data(name: str, value: object) -> Any:
    """Return a copy of JSON data in the form that a database returns; refuse arrays, NaN and objects."""
    copy = attempt(lambda: (json.loads(json.dumps(value, allow_nan=False)),), failed=None)
    if copy is None:
        raise InputError(
            f"{name} must be JSON data: None, bool, int, finite float, str, lists and dicts of these; got "
            f"{kind(value)}."
        )
    return copy[0]


def at_least(name: str, value: object, least: int, most: int = COUNTABLE) -> int:
    """Return a whole number from ``least`` to ``most`` as an int."""
    number = whole(value)
    if number is None or number < least:
        raise InputError(f"{name} must be a whole number >= {least}; got {shown(value)}.")
    if number > most:
        raise InputError(f"{name} must be at most {most}; got a number of {number.bit_length()} bits.")
    return number


def positive(name: str, value: object) -> float:
    """Return a number that is finite and above 0 as a float."""
    number = real(value)
    if number is None or number <= 0:
        raise InputError(f"{name} must be a number, positive and finite; got {shown(value)}.")
    return number


def share(name: str, value: object) -> float:
    """Return a number in [0, 1) as a float."""
    number = real(value)
    if number is None or not 0 <= number < 1:
        raise InputError(f"{name} must lie in [0, 1); got {shown(value)}.")
    return number


def between(name: str, value: object, low: float, high: float) -> float:
    """Return a number in [low, high] as a float."""
    number = real(value)
    if number is None or not low <= number <= high:
        raise InputError(f"{name} must lie in [{low:.3g}, {high:.3g}]; got {shown(value)}.")
    return number


def boolean(name: str, value: object) -> bool:
    """Return a bool, also NumPy's; refuse all else, because "no" and NaN would count as true."""
    kind = type(value)
    if kind is not bool and not (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")):
        raise InputError(f"{name} must be True or False; got {shown(value)}.")
    return bool(value)


def function(name: str, value: T, what: str = "") -> T:
    """Return the value if it can be called."""
    if not callable(value):
        raise InputError(f"{name} must be a function{what}; got {shown(value)}. Nothing was charged.")
    return value


def users_function(name: str, value: T, what: str = "") -> T:
    """Return the value if it can be called and is not a class; ``what`` says of what it is a function."""
    if isinstance(value, type):
        raise InputError(
            f"{name} must be a function{what}; got the class {value.__name__}. Give a function that makes one, trains "
            "it and returns the result. Nothing was charged."
        )
    return function(name, value, what)


def place(name: str, value: object) -> str:
    """Return a path or URL as text. Refuse None, as from an unset environment variable: it would name a file "None"."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not (isinstance(text, str) and text.strip() and "\0" not in text):
        raise InputError(
            f"{name} must say where, as text or a Path; got {shown(value)}. Is an environment variable not set?"
        )
    return text


def at_home(path: str | Path) -> Path:
    """Return a path whose first folder "~" is the home folder; any other path as it is, such as a file "~x.db"."""
    given = Path(path)
    if given.parts[:1] != ("~",):
        return given
    try:
        return given.expanduser()
    except RuntimeError:
        raise InputError("the home folder ~ is not known: give the whole path.") from None


def check(rule: Callable[..., Any], *limits: Any) -> dict[str, Any]:
    """Return metadata for a field of a :class:`Checked`: ``rule(name, value, *limits)`` returns its value or raises."""
    return {"check": lambda name, value: rule(name, value, *limits)}


def check_fields(made: Any) -> None:
    """Check every field that has a rule, also in frozen classes; None may stay where it is the default."""
    for field in fields(made):
        value = getattr(made, field.name)
        if "check" in field.metadata and not (value is None and field.default is None):
            object.__setattr__(made, field.name, field.metadata["check"](field.name, value))


class Checked:
    """A dataclass whose fields go through their checks when it is made."""

    def __post_init__(self) -> None:
        check_fields(self)
