"""Refuses a training function that can reach the private examples: early stopping on them, an ``eval_set``, a callback.

With ``loss=`` and ``data=`` the function trains on public data only, so its errors and suggestions may be shown.
Therefore its closure, defaults, named globals and what these hold are searched for memory of ``data=``. That may be the
same object, an array that shares memory, a view, a frame's column, or a list's row. If ``data=`` is a function, it is
searched for, too. The search follows names and calls nothing. It does not find copies of private rows, nor objects that
only an imported module holds.
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from dptune.errors import InputError
from dptune.privacy.seal.holders import attributes, attributes_read, globals_read, is_installed, is_users, reachable
from dptune.privacy.seal.memory import memory, rows_of_list, shares


def refuse_reachable(function: Callable[..., Any], *private: Any, loaded: bool = False) -> None:
    """Refuse a function from which private objects can be reached; the error depends on names and addresses only.

    A partial function's keyword that ends with "=" is the name of an argument.

    Args:
        private: arrays and the like, or one function that loads them.
        loaded: whether ``data=`` is a function that has loaded them.
    """
    if (way := way_to(function, *_each_loader(private))) is None:
        return
    name = way.partition(":")[0]
    if name.endswith("="):
        raise InputError(_way_in_words(way, *private))
    harm = "training, early stopping or an eval_set on private rows would show them without noise"
    if callable(private[0]):
        raise InputError(
            f"the function can reach the private data= through {way}, which loads the private rows: {harm}. "
            "Load public rows outside of the function, or by a function of their own."
        )
    load = "data= be a function that loads the private rows, data=load"
    load = f"the function data= read the private rows from a file instead of from {name}" if loaded else load
    raise InputError(
        f"the function can reach the private data= through {way}: {harm}. Stop early on public rows. Use copies of the "
        f"public part that are made outside of the function (X_train = X[:n].copy()) instead of {name}, or let {load}."
    )


def refuse_shared(*private: Any, **public: Any) -> None:
    """Refuse public objects that hold memory of private ones, or their loader; the error names only the way to it."""
    if (way := way_to(functools.partial(dict, **public), *_each_loader(private))) is not None:
        raise InputError(_way_in_words(way, *private))


def _way_in_words(way: str, *private: Any) -> str:
    if callable(private[0]):
        return (
            f"{way} loads the private rows of data=, which nothing else may load: it would show them without noise. "
            "Load public rows by a function of their own. Nothing was charged."
        )
    return (
        f"{way} shares memory with the private rows of data=, which nothing else may hold: it would show them "
        "without noise. Give public rows, and train on public rows. If both are parts of one table, give copies: "
        "X_train = table[:n].copy(). Nothing was charged."
    )


def way_to(function: Callable[..., Any], *private: Any) -> str | None:
    """Return the way by which a function can reach private objects, or what loads them; None if it cannot."""
    if callable(private[0]):
        return _way_to_loader(function, *private)
    objects = {id(each) for each in private} | {id(row) for each in private for row in rows_of_list(each)}
    arrays = [a for each in private for a in memory(each)]
    for way, value in reachable(function):
        if id(value) in objects or any(shares(a, b) for a in memory(value) for b in arrays):
            return way
    return None


def _way_to_loader(function: Callable[..., Any], *loaders: Any) -> str | None:
    """Return the way by which a function can call a loader, whatever arguments it gives.

    What can reach the object or the class of a method can call it if code of the user's names the method.
    """
    owners: dict[str, str] = {}  # ways to what has a method, by the method's name
    static: set[str] = set()
    functions: list[types.FunctionType] = []
    for way, value in chain([("itself", function)], reachable(function)):
        if type(value) is types.FunctionType and not is_installed(str(value.__module__)):
            functions.append(value)
        for each in loaders:
            if type(each) is types.MethodType and value is each.__self__:
                owners.setdefault(getattr(each.__func__, "__name__", ""), way)
            elif type(value) is staticmethod and value.__func__ is each:
                owners.setdefault(each.__name__, way.rpartition(": ")[0])
                static.add(f"{way}: an entry")
            elif _is_same(value, each) and way not in static:
                return way
    named = {name for each in functions for name in attributes_read(each, each.__code__)} if owners else ()
    return next((f"{way}.{name}" for name, way in owners.items() if name in named), None)


def _each_loader(private: tuple[Any, ...]) -> Sequence[Any]:
    """Return private objects; of a function that loads them, also the user's functions that it wraps or fixes."""
    if not callable(private[0]):
        return private
    loaders, held = [private[0]], _inside(private[0])
    while held is not None and not any(held is each for each in loaders):
        loaders.append(held)
        held = _inside(held)
    return [private[0], *filter(_is_users_function, loaders[1:])]


def _inside(loader: Any) -> Any:
    return loader.func if isinstance(loader, functools.partial) else attributes(loader).get("__wrapped__")


def _is_users_function(function: Any) -> bool:
    if type(function) is types.FunctionType:
        return not is_installed(str(function.__module__))
    return type(function) is types.MethodType or is_users(type(function))


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two objects are one, or one bound method: it is a new object at each access."""
    if type(a) is types.MethodType and type(b) is types.MethodType:
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    return a is b


def undefined(function: Any) -> list[str]:
    """Return the undefined globals that a function reads."""
    if not isinstance(function, types.FunctionType):
        return []
    defined = {*function.__globals__, *vars(builtins)}
    return sorted(globals_read(function.__code__, ("LOAD_GLOBAL",)) - defined)
