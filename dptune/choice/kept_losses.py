"""Public losses in files next to the ledger: a killed choice continues, and a repeated call trains almost nothing.

They are files of a folder, ``<ledger>.public``, which may be deleted at any time: functions of public rows, and nothing
of a private one. A file's name is a digest of the training, its rows, settings and configuration. Before files are
used, one of their configurations is cross-validated again: if its losses differ, none of the files is used.

The digest covers a training's code, the values that it names, its rows and settings, and the versions of libraries. A
false difference costs a training; so whatever cannot be read is different. Code of libraries and of dptune counts by
name and version. All other code counts by its instructions: in functions, in methods of classes, and in everything that
these name.
"""

from __future__ import annotations

import dis
import hashlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
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
import numpy.typing as npt

from dptune._checks import attempt
from dptune.choice.crossval import Answers, FoldAnswers, as_losses
from dptune.choice.public import rounded
from dptune.losses.named import NamedLoss

Evaluated = npt.ArrayLike | Answers | Exception


class _UnkeptLosses(npt.NDArray[np.float64]):
    """Losses of a model that was loaded."""


class _UnkeptAnswers(list[FoldAnswers]):
    """Answers of a model that was loaded."""


def unkept(one: npt.NDArray[np.float64] | Answers) -> npt.NDArray[np.float64] | Answers:
    """Return losses that no file keeps: a checkpoint may change, and no code or configuration shows it."""
    return _UnkeptAnswers(one) if isinstance(one, list) else one.view(_UnkeptLosses)


class KeptLosses:
    """Public losses, or answers of models, by a digest of what they depend on.

    Args:
        ledger: its file says where the folder is. Of a ledger on a server, or in memory, nothing is kept.
        loss: whose they are.
        evidence: what all losses depend on, and what each candidate's depend on in addition; None: nothing is kept.
    """

    def __init__(self, ledger: Any, loss: NamedLoss, evidence: tuple[object, Sequence[object]] | None) -> None:
        self._loss = loss
        url = getattr(ledger, "url", None)
        in_file = url is not None and url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
        self._folder = Path(f"{url.database}.public") if in_file and url is not None else None
        shared, own = evidence or (None, ())
        common = None if self._folder is None or evidence is None else fingerprint(loss, shared)
        digests = [None if common is None else fingerprint(common, each) for each in own]
        self._names = [None if each is None else f"{each[:40]}.npz" for each in digests]

    def evaluated(
        self, m: int, first: int, train: Callable[[Sequence[int]], Iterable[Evaluated]], say: Callable[[str], object]
    ) -> tuple[list[Evaluated], int, Evaluated]:
        """Return the losses of m candidates, and the place and the second losses of one that was evaluated twice.

        Args:
            first: the place of the candidate that is evaluated twice, if it is not missing among kept ones.
            train: places -> their losses, in this order.
            say: prints a public line.
        """
        found = [self._read(place) for place in range(m)]
        known = [place for place in range(m) if found[place] is not None]
        if not known:
            *evaluated, again = self._trained([*range(m), first], train)
            trained = (place for place, one in enumerate(evaluated) if not isinstance(one, Exception))
            if isinstance(again, Exception) and (other := next(trained, None)) is not None:
                first, (again,) = other, train([other])
            return evaluated, first, again
        twice = first if first in known else known[0]
        (again,) = train([twice])
        if not self._same(found[twice], again):
            say(
                f"{self._folder} has other public losses of a configuration that was trained again: the code, the rows "
                "or a seed differ. This is another choice. All configurations are trained."
            )
            known, found = [], [None] * m
        elif len(known) < m:
            say(f"{self._folder} has the public losses of {len(known)} of {m} configurations: they are not trained.")
        missing = [place for place in range(m) if place not in known]
        for place, one in zip(missing, self._trained(missing, train), strict=True):
            found[place] = one
        return [one for one in found if one is not None], twice, again

    def _trained(
        self, places: Sequence[int], train: Callable[[Sequence[int]], Iterable[Evaluated]]
    ) -> Iterable[Evaluated]:
        for place, one in zip(places, train(places) if places else (), strict=True):
            self._write(place, one)
            yield one

    def _same(self, kept: Any, again: Evaluated) -> bool:
        if isinstance(again, Exception):
            return False
        one, other = as_losses([kept, again], self._loss)
        return rounded(one) == rounded(other)

    def _file(self, place: int) -> Path | None:
        name = self._names[place] if place < len(self._names) else None
        return None if self._folder is None or name is None else self._folder / name

    def _read(self, place: int) -> Evaluated | None:
        file = self._file(place)
        return None if file is None else attempt(_read, file, failed=None)

    def _write(self, place: int, one: Evaluated) -> None:
        file = self._file(place)
        if file is not None and not isinstance(one, Exception | _UnkeptLosses | _UnkeptAnswers):
            attempt(_write, file, one, failed=None)


def _write(file: Path, one: Any) -> None:
    arrays: dict[str, Any] = _arrays(one)
    if any(array.dtype.hasobject for array in arrays.values()):
        return
    file.parent.mkdir(exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as stream:
        np.savez(stream, check=_check(arrays), **arrays)
    part.replace(file)


def _read(file: Path) -> Evaluated:
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    if arrays.pop("check").item() != _check(arrays).item():
        raise ValueError
    if "losses" in arrays:
        losses: npt.NDArray[np.float64] = arrays["losses"]
        return losses
    folds = range(sum(name.endswith("test") for name in arrays))
    return [
        FoldAnswers(
            arrays[f"{i} test"], arrays[f"{i} y"], arrays[f"{i} output"],
            arrays[f"{i} labels"].tolist() if f"{i} labels" in arrays else None,
        )
        for i in folds
    ]  # fmt: skip


def _arrays(one: Any) -> dict[str, npt.NDArray[Any]]:
    if isinstance(one, np.ndarray):
        return {"losses": one}
    arrays = {f"{i} {name}": part for i, fold in enumerate(one) for name, part in vars(fold).items()}
    return {name: np.asarray(part) for name, part in arrays.items() if part is not None}


def _check(arrays: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return a digest of the arrays: a file that was cut or changed is not used."""
    parts = (
        f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes() for name, array in sorted(arrays.items())
    )
    return np.array(hashlib.sha256(b"".join(parts)).hexdigest())


_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_SKIPPED = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "_abc_impl", "__slots__"}
_INSTALLED = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


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
        self._open = set[int]()  # modules whose parts are being read
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
        if isinstance(each, BuiltinFunctionType | ModuleType) or _installed(module):
            return
        if isinstance(each, type):
            parts = {name: part for name, part in vars(each).items() if name not in _SKIPPED}
            skipped = GetSetDescriptorType | MemberDescriptorType | WrapperDescriptorType
            self._all("class", each.__bases__, *(item for item in parts.items() if not isinstance(item[1], skipped)))
            return
        cells = [cell.cell_contents for cell in each.__closure__ or ()]
        self._all("function", each.__code__, each.__defaults__, each.__kwdefaults__, cells, *self._of_globals(each))

    def _of_globals(self, function: FunctionType) -> Iterable[object]:
        """Return the names that a function's code uses of its module, or imports, and their values, in order."""
        names, imported = _names(function.__code__)
        values = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
        values |= {name: import_module(name) for name in imported}
        return [(name, values[name], self._of_module(values[name], names)) for name in sorted(values)]

    def _of_module(self, module: Any, names: set[str]) -> list[object]:
        """Return what these names are in a module outside of libraries, and in modules within it."""
        if not isinstance(module, ModuleType) or _installed(module.__name__) or id(module) in self._open:
            return []
        self._open.add(id(module))
        parts = [(name, vars(module)[name]) for name in sorted(names & vars(module).keys())]
        found: list[object] = [(name, part, self._of_module(part, names)) for name, part in parts]
        self._open.discard(id(module))
        return found

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


def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the names in a function's code, and the modules that it imports."""
    names = set(code.co_names)
    imported, package = set[str](), ""
    for each in dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":
            package = str(each.argval)
            imported.add(package)
        elif each.opname == "IMPORT_FROM" and attempt(find_spec, f"{package}.{each.argval}", failed=None):
            imported.add(f"{package}.{each.argval}")  # a module, and no value of the package
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names, imported = (old | new for old, new in zip((names, imported), _names(inner), strict=True))
    return names, imported


def _installed(module: str) -> bool:
    top = module.partition(".")[0]
    if top == "dptune" or top.startswith("dptune_") or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and file.startswith(_INSTALLED)
