"""A digest of a training: its code, the values that it names, its rows and settings, and the versions of libraries.

It recognises losses that were computed before. A false difference costs a training; so whatever cannot be read is
different. Code of libraries and of dptune counts by name and version. All other code counts by its instructions: in
functions, in methods of classes, and in everything that these name.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Iterable
from functools import cached_property, partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from dptune._checks import attempt

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_SKIPPED = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "_abc_impl", "__slots__"}
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def fingerprint(*things: object) -> str | None:
    """Return a digest of all parts of the objects; None if a part cannot be read."""
    return attempt(_digest, things, failed=None)


def _digest(things: Iterable[object]) -> str:
    digest = _Digest()
    digest.add(tuple(things))
    return digest.hash.hexdigest()


class _Digest:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._seen = dict[int, tuple[int, object]]()  # the objects, too: a number of one that is gone is used again

    def add(self, each: Any) -> None:
        if isinstance(each, _PLAIN):
            return self._write(type(each).__name__, repr(each))
        if id(each) in self._seen:
            return self._write("again", self._seen[id(each)][0])
        self._seen[id(each)] = len(self._seen), each
        if isinstance(each, np.ndarray):
            return self._array(each)
        if isinstance(each, list | tuple):
            return self._all(type(each).__qualname__, *each)
        if isinstance(each, dict | MappingProxyType):
            return self._all(type(each).__qualname__, *each.items())
        if isinstance(each, set | frozenset):
            return self._all("set", *sorted(_digest([one]) for one in each))
        if isinstance(each, type | FunctionType | BuiltinFunctionType | ModuleType):
            return self._named(each)
        return self._object(each)

    def _write(self, *words: object) -> None:
        for word in map(str, words):
            self.hash.update(f"{len(word)}:{word}".encode(errors="surrogatepass"))

    def _all(self, kind: str, *parts: object) -> None:
        self._write(kind, len(parts))
        for part in parts:
            self.add(part)

    def _array(self, array: Any) -> None:
        self._write(type(array).__qualname__, array.dtype.str, array.shape)
        if array.dtype.hasobject:
            return self._all("objects", *array.ravel().tolist())
        return self.hash.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")

    def _named(self, each: Any) -> None:
        """Add a class, function or module: by its name if it is a library's, else by its content."""
        module = each.__name__ if isinstance(each, ModuleType) else str(each.__module__)
        top = module.partition(".")[0]
        self._write(module, getattr(each, "__qualname__", ""), getattr(sys.modules.get(top), "__version__", ""))
        if isinstance(each, BuiltinFunctionType | ModuleType) or _installed(module, top):
            return
        if isinstance(each, type):
            parts = {name: part for name, part in vars(each).items() if name not in _SKIPPED}
            skipped = GetSetDescriptorType | MemberDescriptorType | WrapperDescriptorType
            self._all("class", each.__bases__, *(item for item in parts.items() if not isinstance(item[1], skipped)))
            return
        cells = [cell.cell_contents for cell in each.__closure__ or ()]
        self._all("function", each.__code__, each.__defaults__, each.__kwdefaults__, cells, *self._of_globals(each))

    def _of_globals(self, function: FunctionType) -> Iterable[object]:
        """Return the names that a function's code uses of its module, and their values."""
        names = _names(function.__code__)
        for name in names & function.__globals__.keys():
            value = function.__globals__[name]
            own = isinstance(value, ModuleType) and not _installed(value.__name__, value.__name__.partition(".")[0])
            read = sorted(names & vars(value).keys()) if own else ()
            yield name, value, [(part, vars(value)[part]) for part in read]

    def _object(self, each: Any) -> None:
        if isinstance(each, CodeType):
            self._all("code", each.co_code, each.co_consts, each.co_names, each.co_varnames, each.co_freevars)
        elif isinstance(each, MethodType | staticmethod | classmethod):
            self._all("method", each.__func__, getattr(each, "__self__", None))
        elif isinstance(each, property):
            self._all("property", each.fget, each.fset, each.fdel)
        elif isinstance(each, cached_property):
            self.add(each.func)
        elif isinstance(each, partial):
            self._all("partial", each.func, each.args, each.keywords)
        else:
            reduced = each.__reduce_ex__(4)
            parts = (reduced,) if isinstance(reduced, str) else (*reduced[:3], *map(_listed, reduced[3:5]))
            self._all(type(each).__qualname__, getattr(each, "__wrapped__", None), *parts)


def _listed(items: Any) -> list[Any]:
    return list(items or ())


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _installed(module: str, top: str) -> bool:
    if top == "dptune" or top.startswith("dptune_") or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and file.startswith(_INSTALLED)
