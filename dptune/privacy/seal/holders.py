"""Searches what code can name, and what objects hold, without calling any code of the user's.

Attributes are read from the instance's dictionary, and contents of other objects as the garbage collector sees them.
So no property, `__getattr__` or `__iter__` runs. Classes are searched if they are the user's: of no installed package.
"""

from __future__ import annotations

import collections
import dis
import functools
import gc
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from dptune._checks import attempt

_PLAIN = (str, bytes, int, float, complex, bool, type(None), types.CodeType, np.generic)
_AT_ONCE = frozenset(map(id, _PLAIN))  # identities, as a metaclass may define a hash
_OPAQUE = (types.ModuleType, types.FrameType)  # a module holds everything; only what code names of it is searched
_MOST = 100_000  # objects that are searched, the nearest first
_OWN = ("dptune", "dptune_optuna", "dptune_ray", "dptune_sklearn")
_KEEPING = (*_OWN, "optuna", "ray", "IPython", "ipykernel", "_pytest")  # a notebook's streams know all its variables
_LIBRARY = os.path.dirname(os.__file__)
_METHODS = (types.FunctionType, staticmethod, classmethod, property)
_PROTOCOLS = frozenset(
    [
        "fit",
        "partial_fit",
        "fit_transform",
        "fit_predict",
        "transform",
        "inverse_transform",
        "predict",
        "predict_proba",
        "predict_log_proba",
        "decision_function",
        "score",
        "forward",
        "split",
        "get_n_splits",
        "get_params",
        "set_params",
        "step",
        "setup",
        "cleanup",
    ]
)  # methods that libraries call

_bases: Any = type.__dict__["__mro__"].__get__  # as type defines them, whatever a metaclass does
_members: Any = type.__dict__["__dict__"].__get__
_module: Any = type.__dict__["__module__"].__get__
_dtype: Any = np.ndarray.__dict__["dtype"].__get__


def reachable(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield objects that the function can name, and their contents, each with the way to it.

    A method of a class that no library extends is searched if code that was searched reads its name, or if libraries
    call methods of this name.
    """
    queue = collections.deque([("itself", function)])
    seen = {id(function)}
    kept = []  # the search makes some objects; a later one must not get their identity
    named, unnamed = set[str](), collections.defaultdict[str, list[tuple[str, Any]]](list)
    for _ in range(_MOST):
        if not queue:
            return
        way, each = queue.popleft()
        if each is not function:
            yield way, each
        if type(each) is types.FunctionType:
            for name in sorted(names_in(each.__code__) - named):
                named.add(name)
                queue += unnamed.pop(name, [])
        own = issubclass(type(each), type) and not _extends_a_library(each)
        for name, held in _held(each):
            if id(type(held)) not in _AT_ONCE and id(held) not in seen and not _is_plain(held):
                seen.add(id(held))
                kept.append(held)
                found = (name if each is function else f"{way}: {name}", held)
                if own and type(held) in _METHODS and not (name in named or _is_called_by_libraries(name)):
                    unnamed[name].append(found)
                    queue += [(f"{found[0]}: {inner}", kept_by_it) for inner, kept_by_it in _kept_by(held)]
                else:
                    queue.append(found)


def _kept_by(method: Any) -> Iterator[tuple[str, Any]]:
    """Yield the closure and defaults of a class's method or property, without the globals that it names."""
    parts = (method.fget, method.fset, method.fdel) if type(method) is property else (_unwrapped(method),)
    for part in parts:
        if type(part) is types.FunctionType:
            yield from _closed_over(part)


def _unwrapped(method: Any) -> Any:
    return method.__func__ if type(method) in (staticmethod, classmethod) else method


def _closed_over(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, attempt(getattr, cell, "cell_contents", failed=None)
    yield from (("a default", held) for held in function.__defaults__ or ())
    yield from list((function.__kwdefaults__ or {}).items())


def _extends_a_library(cls: type) -> bool:
    return any(not is_users(base) and package(base) not in sys.stdlib_module_names for base in _bases(cls))


def _is_called_by_libraries(name: str) -> bool:
    return name.startswith(("__", "on_", "before_", "after_")) or name in _PROTOCOLS


def attributes(each: Any) -> dict[str, Any]:
    """Return the dictionary of an instance or a module; empty if it has no dictionary."""
    none: dict[str, Any] = {}
    descriptors = (_members(cls).get("__dict__") for cls in _bases(type(each)))
    builtin = (d for d in descriptors if type(d) in (types.GetSetDescriptorType, types.MemberDescriptorType))
    get = next(builtin, None)
    held = none if get is None else attempt(get.__get__, each, failed=none)
    return held if type(held) is dict else none


def offers(each: Any, name: str) -> bool:
    """Return whether an installed class defines an attribute of an object, such as `iloc` of a frame."""
    return any(name in _members(cls) and not is_users(cls) for cls in _bases(type(each)))


def package(cls: type) -> str:
    """Return the name of the package that defines a class."""
    module = attempt(_module, cls, failed="")
    return module.partition(".")[0] if isinstance(module, str) else ""


def is_users(cls: type) -> bool:
    """Return whether a class is the user's: of no installed package."""
    module = attempt(_module, cls, failed="")
    return not (isinstance(module, str) and is_installed(module))


@functools.lru_cache(maxsize=4096)
def is_installed(module: str) -> bool:
    """Return whether a module is part of Python, of dptune or of an installed package."""
    top = module.partition(".")[0]
    file = attempt(getattr, sys.modules.get(module), "__file__", failed=None)
    if top in _OWN or not isinstance(file, str):
        return top in (*_OWN, *sys.stdlib_module_names)
    return "site-packages" in file or "dist-packages" in file or file.startswith(_LIBRARY + os.sep)


def keeps_its_own(each: Any) -> bool:
    """Return whether an object is a sampler, study or objective: they hold private data and never return them."""
    return package(type(each)) in _KEEPING and attempt(_module, type(each), failed="") != "dptune.losses.rows"


def _is_plain(each: Any) -> bool:
    cls = type(each)
    if issubclass(cls, type):
        return not is_users(each)
    if cls is types.BuiltinFunctionType:
        return each.__self__ is None or issubclass(type(each.__self__), types.ModuleType)
    return issubclass(cls, _PLAIN) and not is_users(cls)


def _held(each: Any) -> Iterable[tuple[str, Any]]:
    cls = type(each)
    if cls is types.FunctionType:
        return _named(each)
    if cls is dict or cls is list or cls is tuple:
        return _entries(each)
    if issubclass(cls, _OPAQUE) or keeps_its_own(each):
        return ()
    if issubclass(cls, type):
        return [*_of_classes(each), ("its class", cls)]
    if cls is types.MethodType:
        return [("its object", each.__self__), ("its function", each.__func__)]
    if cls is functools.partial:
        return [("its function", each.func), *_entries(each.args), *each.keywords.items()]
    return [*_entries(each), *attributes(each).items(), *_slots(each), ("its class", cls), *_contents(each)]


def _of_classes(cls: type) -> list[tuple[str, Any]]:
    """Return what the user's classes define among a class and its bases."""
    return [pair for base in _bases(cls) if is_users(base) for pair in list(_members(base).items())]


def _slots(each: Any) -> Iterator[tuple[str, Any]]:
    for name, slot in _of_classes(type(each)):
        if type(slot) is types.MemberDescriptorType:
            yield name, attempt(slot.__get__, each, failed=None)


def _entries(each: Any) -> Iterator[tuple[str, Any]]:
    """Yield entries of a list, of an array of objects, and of a dictionary: its keys may be people's names."""
    if issubclass(type(each), dict):
        yield from (("an entry", held) for held in list(dict.values(each)))
        yield from (("a key", key) for key in list(dict.keys(each)))
    elif issubclass(type(each), tuple | list):
        yield from (("an entry", held) for held in gc.get_referents(each))
    elif issubclass(type(each), np.ndarray) and _dtype(each).hasobject:
        yield "an entry", np.ndarray.tolist(each)


def _contents(each: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an instance of a container, of Python's own classes or of the user's holds, slots included."""
    cls = type(each)
    if issubclass(cls, dict | list | tuple) and not is_users(cls):
        return
    if is_users(cls) or package(cls) in sys.stdlib_module_names or issubclass(cls, Mapping | Sequence | Set):
        yield from (("an entry", held) for held in gc.get_referents(each))


def _named(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield a function's closure, defaults and attributes, and the globals and attributes of modules that it names."""
    names = names_in(function.__code__)
    yield from _closed_over(function)
    for name in sorted(globals_read(function.__code__)):
        if dict.__contains__(function.__globals__, name):
            held = dict.__getitem__(function.__globals__, name)
            yield name, held
            yield from _of_module(name, held, names)
    for name, held in list(vars(function).items()):
        yield "what it wraps" if name == "__wrapped__" else name, held


def _of_module(way: str, module: Any, names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield attributes of a module that are named; also of modules in it, if they are the user's."""
    modules, seen = [(way, module)], {id(module)}
    while modules:
        way, module = modules.pop()
        held = attributes(module) if issubclass(type(module), types.ModuleType) else {}
        for name in sorted(names & held.keys()):
            yield f"{way}.{name}", held[name]
            if issubclass(type(held[name]), types.ModuleType) and id(held[name]) not in seen:
                seen.add(id(held[name]))
                inner = attributes(held[name]).get("__name__")
                modules += [] if is_installed(str(inner)) else [(f"{way}.{name}", held[name])]


@functools.lru_cache(maxsize=4096)  # every search reads every reachable function
def names_in(code: types.CodeType) -> frozenset[str]:
    """Return the names of globals, attributes and modules in code."""
    inner = (names_in(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return frozenset(code.co_names).union(*inner)


@functools.lru_cache(maxsize=4096)
def globals_read(code: types.CodeType, loads: tuple[str, ...] = ("LOAD_GLOBAL", "LOAD_NAME")) -> frozenset[str]:
    """Return the globals that code reads, without attributes of the same name (``model.score``)."""
    own = frozenset(each.argval for each in dis.get_instructions(code) if each.opname in loads)
    inner = (globals_read(each, loads) for each in code.co_consts if isinstance(each, types.CodeType))
    return own.union(*inner)


def attributes_read(function: types.FunctionType, code: types.CodeType) -> Iterator[str]:
    """Yield the attributes that a function's code reads, but for those of a module (``np.load``)."""
    before, imported = None, set[Any]()  # names of modules that the code imports itself
    for each in dis.get_instructions(code):
        if before is not None and before.opname == "IMPORT_NAME":
            imported.add(each.argval)
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            owner = before.argval if before is not None and before.opname == "LOAD_GLOBAL" else ""
            of_module = isinstance(function.__globals__.get(owner), types.ModuleType)
            if not (of_module or (before is not None and before.argval in imported)):
                yield each.argval
        before = each
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from attributes_read(function, inner)
