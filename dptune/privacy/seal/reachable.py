"""Refuses a training function that can reach the private examples: early stopping on them, an ``eval_set``, a callback.

With ``loss=`` and ``data=`` the function trains on public data only, so its errors and suggestions may be shown.
Therefore its closure, defaults and named globals are searched for memory of ``data=``. That may be the same object, an
array that shares memory, a view, a frame's column, or a list's row. The search follows names and calls nothing. It does
not find copies of private rows, nor objects that only an imported module holds.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dptune._arrays import Array
from dptune._checks import attempt
from dptune.errors import InputError

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.BuiltinFunctionType)
_MOST = 100_000  # objects that are searched
_WORK = 10_000  # limit of NumPy's exact search for shared memory; harder cases count as shared if their bounds overlap


def refuse_reachable(function: Callable[..., Any], *private: Any, loaded: bool = False) -> None:
    """Refuse a function from which private objects can be reached; the error depends on names and addresses only.

    A partial function's keyword that ends with "=" is the name of an argument.

    Args:
        loaded: whether ``data=`` is a function that has loaded them.
    """
    if (way := way_to(function, *private)) is None:
        return
    name = way.partition(":")[0]
    if name.endswith("="):
        raise InputError(_way_in_words(way))
    load = "data= be a function that loads the private rows, data=load"
    load = f"the function data= read the private rows from a file instead of from {name}" if loaded else load
    raise InputError(
        f"the function can reach the private data= through {way}: training, early stopping or an eval_set on private "
        "rows would show them without noise. Stop early on public rows. Use copies of the public part that are made "
        f"outside of the function (X_train = X[:n].copy()) instead of {name}, or let {load}."
    )


def refuse_shared(*private: Any, **public: Any) -> None:
    """Refuse public objects that hold memory of private ones; the error names only the way to it."""
    if (way := way_to(functools.partial(dict, **public), *private)) is not None:
        raise InputError(_way_in_words(way))


def _way_in_words(way: str) -> str:
    return (
        f"{way} shares memory with the private rows of data=, which nothing else may hold: it would show them "
        "without noise. Give public rows, and train on public rows. If both are parts of one table, give copies: "
        "X_train = table[:n].copy(). Nothing was charged."
    )


def way_to(function: Callable[..., Any], *private: Any) -> str | None:
    """Return the way by which a function can reach private objects, in words; None if there is none."""
    objects = {id(each) for each in private} | {id(row) for each in private for row in _rows(each)}
    none: list[Array] = []
    arrays = [a for each in private for a in attempt(_arrays, each, failed=none)]
    for way, value in _reachable(function):
        # a proxy may raise on any access, and a trial of dptune remembers accesses
        theirs = none if _keeps_its_own(value) else attempt(_arrays, value, failed=none)
        if id(value) in objects or any(_shares(a, b) for a in theirs for b in arrays):
            return way
    return None


def _reachable(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield objects that the function can name, and their contents, each with the way to it."""
    stack = [("itself", function)]
    seen = {id(function)}
    while stack and len(seen) < _MOST:
        way, each = stack.pop()
        if each is not function:
            yield way, each
        for name, held in _held(each):
            if not isinstance(held, _PLAIN) and id(held) not in seen:
                seen.add(id(held))
                stack.append((name if each is function else f"{way}: {name}", held))


def _held(each: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(each, types.FunctionType):
        return _named(each)
    if isinstance(each, types.MethodType):
        return [("its object", each.__self__), ("its function", each.__func__)]
    if isinstance(each, functools.partial):
        return [("its function", each.func), *_entries(each.args), *each.keywords.items()]
    if isinstance(each, Mapping | list | tuple | set | frozenset):
        return _entries(each)
    if isinstance(each, np.ndarray | types.ModuleType) or _keeps_its_own(each):
        return ()
    call = vars(type(each)).get("__call__")
    return [*_attributes(each).items(), *([("its __call__", call)] if call is not None else [])]


def _attributes(each: Any) -> dict[str, Any]:
    none: dict[str, Any] = {}
    return attempt(lambda: vars(each), failed=none)


def _keeps_its_own(each: Any) -> bool:
    """Return whether an object is a sampler, study or objective: they hold private data and never return them."""
    package = type(each).__module__.partition(".")[0]
    return type(each).__module__ != "dptune.losses.rows" and package in (
        "dptune",
        "dptune_optuna",
        "dptune_ray",
        "dptune_sklearn",
        "optuna",
        "ray",
    )


def _entries(each: Any) -> Iterable[tuple[str, Any]]:
    none: list[tuple[Any, Any]] = []
    pairs = attempt(lambda: list(each.items() if isinstance(each, Mapping) else enumerate(each)), failed=none)
    return [(name if isinstance(name, str) else "an entry", held) for name, held in pairs]


def _named(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield a function's closure, its defaults, and the globals and attributes of modules that it names."""
    names = names_in(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, attempt(getattr, cell, "cell_contents", failed=None)
    yield from (("a default", held) for held in function.__defaults__ or ())
    yield from (function.__kwdefaults__ or {}).items()
    for name in sorted(globals_read(function.__code__) & function.__globals__.keys()):
        held = function.__globals__[name]
        yield name, held
        if isinstance(held, types.ModuleType):
            yield from ((f"{name}.{n}", vars(held)[n]) for n in sorted(names & vars(held).keys()))
    if wrapped := getattr(function, "__wrapped__", None):
        yield "what it wraps", wrapped


def names_in(code: types.CodeType) -> set[str]:
    """Return the names of globals, attributes and modules in code."""
    inner = (names_in(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*inner)


def _rows(each: Any) -> Iterable[Any]:
    """Yield rows of a list that are distinct objects; equal numbers and texts may be shared by chance."""
    rows = each if isinstance(each, list | tuple) else ()
    return [row for row in rows if isinstance(row, list | dict | np.ndarray)]


def _arrays(each: Any) -> list[Array]:
    """Yield the memory of an array, a tensor, a sparse matrix, a series, a frame or an Arrow table."""
    if isinstance(each, np.ndarray):
        return [each]
    if isinstance(each, bytearray | memoryview | array):
        return [np.asarray(memoryview(each))]
    if hasattr(each, "untyped_storage"):
        return [each.detach().numpy()]
    if hasattr(each, "tocsr"):
        held = _attributes(each).items()
        return [a for name, a in held if isinstance(a, np.ndarray) and (name == "data" or a.dtype.kind == "f")]
    if hasattr(each, "iloc") and hasattr(each, "dtypes"):
        columns = [each.iloc[:, j] for j in range(each.shape[1])] if each.ndim == 2 else [each]
        return _of_all(map(_column, columns))
    if hasattr(each, "get_columns"):  # a frame of polars
        return _of_all(each.get_columns())
    if hasattr(each, "to_arrow"):
        return _arrays(each.to_arrow())
    if type(each).__module__.partition(".")[0] == "pyarrow":
        return _of_arrow(each)
    return []


def _of_all(parts: Iterable[Any]) -> list[Array]:
    none: list[Array] = []
    return [a for part in parts for a in attempt(_arrays, part, failed=none)]


def _column(column: Any) -> Any:
    """Return the memory of a pandas column, or a copy if it is not accessible."""
    names = ("_pa_array", "_ndarray", "_data", "_codes")
    held = (attempt(getattr, column.array, name, failed=None) for name in names)
    return next((each for each in held if each is not None), None)


def _of_arrow(each: Any) -> list[Array]:
    """Yield bytes of the values, or of texts' offsets; slices of one table share buffers."""
    if not hasattr(each, "buffers"):
        return _of_all(getattr(each, "chunks", None) or getattr(each, "columns", None) or ())
    bits = attempt(lambda: each.type.bit_width, failed=64 if "large" in str(each.type) else 32)
    parts = np.frombuffer(each.buffers()[1], np.uint8)
    return [parts[each.offset * bits // 8 : (each.offset + len(each)) * bits // 8]]


def _shares(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    exact: Callable[..., bool] = np.shares_memory
    return attempt(lambda: exact(a, b, max_work=_WORK), failed=True)


def undefined(function: Any) -> list[str]:
    """Return the undefined globals that a function reads."""
    if not isinstance(function, types.FunctionType):
        return []
    defined = {*function.__globals__, *vars(builtins)}
    return sorted(globals_read(function.__code__, ("LOAD_GLOBAL",)) - defined)


@functools.lru_cache(maxsize=4096)  # every search reads every reachable function
def globals_read(code: types.CodeType, loads: tuple[str, ...] = ("LOAD_GLOBAL", "LOAD_NAME")) -> frozenset[str]:
    """Return the globals that code reads, without attributes of the same name (``model.score``)."""
    own = frozenset(each.argval for each in dis.get_instructions(code) if each.opname in loads)
    inner = (globals_read(each, loads) for each in code.co_consts if isinstance(each, types.CodeType))
    return own.union(*inner)
