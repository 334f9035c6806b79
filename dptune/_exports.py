"""Lazy imports: the stub next to a package's ``__init__`` lists its public names, imported at first use.

One list serves type checkers and the interpreter. Lazy imports keep packages apart: a user's device needs neither NumPy
nor SQLAlchemy, and an algorithm neither the ledger nor the noise.

Example, in ``dptune/privacy/__init__.py``::

    __all__, __getattr__, __dir__ = exports(__name__, __file__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def public_names(stub: Path) -> dict[str, str]:
    """Return what a stub lists as ``from module import name as name``: name -> module."""
    body = ast.parse(stub.read_text(encoding="utf-8")).body
    return {alias.name: str(node.module) for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}


def exports(package: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of the package whose ``__init__`` is this file.

    A name listed as imported from the package itself is one of its modules. It loads when it is first used, too, and
    is not in ``__all__``.
    """
    modules = public_names(Path(file).with_suffix(".pyi"))
    names = sorted(name for name, module in modules.items() if module != package)

    def attribute(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return names, attribute, lambda: sorted({*vars(sys.modules[package]), *modules})
