"""Differentially private hyperparameter tuning.

An algorithm never sees private data: it says where to look and what it wants to know, and one trusted
object, :class:`LossPrivatizer`, answers with noise after paying in a :class:`PrivacyLedger`. Where nobody is
trusted, a user's device answers itself with a :class:`LocalRandomizer`.

The public names are listed in ``__init__.pyi`` and imported when they are first used: a device that sends replies
needs neither NumPy nor SQLAlchemy.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"

_MODULE_OF = {
    alias.name: str(node.module)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
