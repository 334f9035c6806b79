"""What tells two searches, or two candidates, apart: a digest of everything public, the same in another process.

A search's default name in the ledger is such a digest, and a ledger returns recorded answers under a name. So what
decides an answer must be part of it: values, the code of the user's functions and classes with all that it refers to,
and for code of an installed package the name and the package's version. An object that cannot be read raises.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import importlib.metadata
import platform
import site
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from dptune._numbers import plain
from dptune.errors import InputError
from dptune.privacy.seal.reachable import globals_read, names_in

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_KEPT_BY_CLONE = ("_metadata_request", "_sklearn_output_config")  # of an estimator, beside its parameters
_OF_EVERY_CLASS = {  # made by Python, and no part of what the user wrote
    *("__module__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"),
    *("__abstractmethods__", "_abc_impl", "__annotations__", "__annotate_func__", "__annotations_cache__"),
    "__slotnames__",  # by copyreg, when an object of the class is pickled
}
_OWN = ("dptune", "dptune_flower", "dptune_mlflow", "dptune_optuna", "dptune_ray", "dptune_sklearn")  # in checkouts


def digest(*public: Any, code: bool = True, versions: bool = True, strict: bool = True) -> str:
    """Return twelve digits: of types, parameters, contents and code, never of addresses.

    Args:
        code: whether the code of the user's functions and classes counts, or only their names.
        versions: whether those of installed packages count.
        strict: whether an object that cannot be read raises. If not, its type stands for it.

    Raises:
        InputError: an object cannot be read; says which, and what to do.
    """
    reader = _Reader(code=code, versions=versions, strict=strict)
    try:
        for each in public:
            reader.read(each)
    except RecursionError:
        raise _unreadable("an object is nested too deeply to be read") from None
    return reader.found.hexdigest()[:12]


def of_parameters(parameters: Mapping[str, Any]) -> str:
    """Return the digest of one candidate; NumPy's numbers are Python's."""
    return digest({name: plain(value) for name, value in parameters.items()}, strict=False)


def _unreadable(what: str) -> InputError:
    return InputError(
        f"{what}, so two different searches could get the same default name in the ledger. Give PrivateSearch name=, "
        "and another name= whenever you change what the search depends on. Nothing was charged."
    )


class _Reader:
    """Hashes objects. Functions and classes are read once; later mentions count as their place."""

    def __init__(self, **how: bool) -> None:
        self.found = hashlib.sha256()
        self._how = how
        self._code = how["code"]
        self._strict = how["strict"]
        self._places: dict[int, int] = {}  # of functions and classes, which no copy duplicates
        self._within: list[int] = []  # objects that are being read
        self._way: list[str] = []  # the names that lead to the present one

    def read(self, each: Any) -> None:
        if isinstance(each, _PLAIN) and type(each) in _PLAIN:
            self._word(type(each).__name__, repr(each))
        elif isinstance(each, type | types.FunctionType):
            self._read_code(each)
        elif id(each) in self._within:
            self._word("within", len(self._within) - self._within.index(id(each)))
        else:
            self._within.append(id(each))
            self._read_object(each)
            self._within.pop()

    def _word(self, *words: object) -> None:
        self.found.update(hashlib.sha256(repr(words).encode()).digest())

    def _named(self, what: str, held: Iterable[tuple[Any, Any]]) -> None:
        pairs = list(held)
        self._word(what, len(pairs))
        for name, each in pairs:
            self._way.append(str(name))
            self.read(name)
            self.read(each)
            self._way.pop()

    # ---- values ------------------------------------------------------------------------------------------

    def _read_object(self, each: Any) -> None:
        if isinstance(each, list | tuple):
            self._word(type(each).__name__, len(each))
            for held in each:
                self.read(held)
        elif isinstance(each, Mapping):
            self._word(type(each).__name__)
            self._named("entries", sorted(each.items(), key=lambda item: str(item[0])))
        elif isinstance(each, set | frozenset):
            self._word("set", *sorted(digest(held, **self._how) for held in each))
        elif hasattr(each, "get_params"):
            self._read_estimator(each)
        elif hasattr(each, "tocsr"):
            rows = each.tocsr()
            self._named("sparse", ((name, getattr(rows, name)) for name in ("shape", "data", "indices", "indptr")))
        elif hasattr(each, "iloc") and hasattr(each, "dtypes"):
            self._read_frame(each)
        elif hasattr(each, "shape") and hasattr(each, "__array__"):
            self._read_array(each)
        elif (ways := _CODE_IN.get(type(each))) is not None:
            self._named(type(each).__name__, ((name, getattr(each, name, None)) for name in ways))
        elif isinstance(each, types.ModuleType):
            self._word("module", each.__name__, *self._version(each.__name__))
        else:
            self._read_instance(each)

    def _read_estimator(self, each: Any) -> None:
        self.read(type(each))
        self._named("parameters", sorted(each.get_params(deep=False).items()))
        self._named("kept", ((name, getattr(each, name, None)) for name in _KEPT_BY_CLONE))
        if getattr(type(each), "__sklearn_clone__", _CLONED) is not _CLONED:  # FrozenEstimator is used as it was fitted
            for name, held in sorted(vars(each).items()):
                fitted = vars(held) if hasattr(held, "get_params") and hasattr(held, "__dict__") else held
                self._named("frozen", [(name, fitted)])

    def _read_frame(self, each: Any) -> None:
        self._named("index", [("index", np.asarray(each.index))])
        named = [(str(each.name), each)] if each.ndim == 1 else []
        columns = named or [(str(name), each.iloc[:, j]) for j, name in enumerate(each.columns)]
        for name, column in columns:
            categories = getattr(column.dtype, "categories", None)
            kind = () if categories is None else (list(map(repr, categories)), column.dtype.ordered)
            self._word(name, str(column.dtype), *kind)
            self._read_array(np.asarray(column))

    def _read_array(self, each: Any) -> None:
        try:
            array = np.asarray(each)
        except Exception:  # noqa: BLE001 - of any library's arrays, as those on a graphics card
            self._give_up(each)
            return
        self._word("array", array.shape, str(array.dtype), list(map(str, getattr(each, "columns", ()))))
        if array.dtype.hasobject:
            for held in array.ravel().tolist():
                self.read(held)
        else:
            self.found.update(hashlib.sha256(array.tobytes()).digest())

    def _read_instance(self, each: Any) -> None:
        """Read what pickle would store, of an object of any class."""
        try:
            by_type: Callable[[Any], Any] | None = copyreg.dispatch_table.get(type(each))
            reduced = by_type(each) if by_type is not None else each.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - whatever an object raises that cannot be pickled
            reduced = None
        wrapped = getattr(each, "__wrapped__", None)
        if wrapped is not None:
            self._named("wraps", [(type(each).__qualname__, wrapped)])
        elif isinstance(reduced, str):  # pickled by its name
            module = getattr(each, "__module__", None) or type(each).__module__
            if not _installed(module):
                self._give_up(each)
            self._word("global", module, reduced, *self._version(module))
        elif reduced is None:
            self._give_up(each)
        else:
            made, arguments, state, *items = (*reduced, None, None, None)[:5]
            if hasattr(each, "rvs") and isinstance(state, Mapping):  # a distribution's generator is NumPy's global one
                state = {name: held for name, held in state.items() if name != "_random_state"}
            parts = [list(held) if isinstance(held, Iterator) else held for held in items]
            self.read(type(each))
            self._named("made", [("made", made), ("arguments", arguments), ("state", state), ("items", parts)])

    def _give_up(self, each: Any) -> None:
        if self._strict:
            way = " > ".join(self._way)
            raise _unreadable(f"dptune cannot read a {type(each).__qualname__}{f' (at {way})' if way else ''}")
        self._word("unreadable", type(each).__qualname__)

    # ---- code --------------------------------------------------------------------------------------------

    def _read_code(self, each: Any) -> None:
        module = each.__globals__.get("__name__", "") if isinstance(each, types.FunctionType) else each.__module__
        self._word("code", each.__qualname__)
        if id(each) in self._places:
            self._word("place", self._places[id(each)])
            return
        self._places[id(each)] = len(self._places)
        installed = _installed(module)
        if installed:
            self._word(module, *self._version(module))
        if isinstance(each, types.FunctionType):
            self._read_function(each, installed=installed)
        elif not installed and self._code:
            self._named("bases", ((base.__qualname__, base) for base in each.__bases__))
            held = {name: value for name, value in vars(each).items() if name not in _OF_EVERY_CLASS}
            self._named(each.__qualname__, sorted(held.items()))

    def _read_function(self, each: types.FunctionType, *, installed: bool) -> None:
        cells = zip(each.__code__.co_freevars, each.__closure__ or (), strict=True)
        self._named("closure", ((name, _in_cell(cell)) for name, cell in cells))
        self._named("defaults", [("defaults", each.__defaults__), ("keywords", each.__kwdefaults__)])
        if installed or not self._code:
            return
        self._bytecode(each.__code__)
        self._named("attributes", sorted(vars(each).items()))
        names = names_in(each.__code__)
        scope = each.__globals__
        read = sorted(globals_read(each.__code__) & scope.keys())
        self._named("globals", ((name, scope[name]) for name in read))
        modules = [held for name in read if isinstance(held := scope[name], types.ModuleType)]
        for held in [*modules, *_imported(each.__code__, scope)]:
            if not _installed(held.__name__):  # what the function may use of a module of the user's own
                self._named(held.__name__, ((name, vars(held)[name]) for name in sorted(names & vars(held).keys())))

    def _bytecode(self, code: types.CodeType) -> None:
        self._word(code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags)
        self._word(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._bytecode(constant)
            else:
                self.read(constant)

    def _version(self, module: str) -> tuple[str, ...]:
        return (_version(module.partition(".")[0]),) if self._how["versions"] else ()


_CLONED = getattr(BaseEstimator, "__sklearn_clone__", None)
_CODE_IN: Mapping[type, tuple[str, ...]] = {
    types.MethodType: ("__self__", "__func__"),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.cached_property: ("func",),
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    types.MemberDescriptorType: ("__name__",),
    types.GetSetDescriptorType: ("__name__",),
}


def _in_cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _imported(code: types.CodeType, scope: Mapping[str, Any]) -> list[types.ModuleType]:
    """Return the modules that a function imports when it is called, as far as they were imported before."""
    names = globals_read(code, ("IMPORT_NAME",))
    within = {f"{scope.get('__package__')}.{name}" for name in names}
    return [sys.modules[name] for name in sorted((names | within) & sys.modules.keys())]


def _installed(module: str | None) -> bool:
    """Tell whether a module is Python's or belongs to an installed package, which has a version."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top in _OWN:
        return top != "__main__"
    package = sys.modules.get(top)
    places = [getattr(package, "__file__", None), *getattr(package, "__path__", ())]
    return any(Path(place).is_relative_to(folder) for place in places if place for folder in _folders())


@functools.cache
def _folders() -> list[str]:
    paths = sysconfig.get_paths()
    return [paths["purelib"], paths["platlib"], site.getusersitepackages(), *site.getsitepackages()]


@functools.cache
def _version(top: str) -> str:
    """Return the version of the package that a module belongs to, the user's own, too; "" if it has none."""
    if top in sys.stdlib_module_names:
        return platform.python_version()

    try:
        return str(getattr(sys.modules.get(top), "__version__", "")) or importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:
        names = importlib.metadata.packages_distributions().get(top, [])
        return ",".join(sorted(f"{name} {importlib.metadata.version(name)}" for name in names))
