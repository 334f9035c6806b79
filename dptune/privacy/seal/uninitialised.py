"""Memory that another library leaves unwritten and a framework stores.

The optimizers of ``cmaes`` have an array of ``np.empty`` that fills up in the course of a search, and Optuna's
``CmaEsSampler`` stores the pickle of its optimizer with every generation. Until something is written the array holds
what the process freed last: the losses of a trial, all of them, where its size is theirs.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_VALUES = "_funhist_values"  # of the last generations


@functools.cache
def write_memory_of_cmaes() -> None:
    """From now on the optimizers that cmaes exports begin with zeros where they began with what was in memory.

    Nothing that they do depends on it: they read the array once all of it is written. Where cmaes is not imported yet,
    it is changed when it is: to import it takes a second, and few processes do.
    """
    if "cmaes" in sys.modules:
        _write(sys.modules["cmaes"])
    else:
        sys.meta_path.insert(0, _Changed())


class _Changed(MetaPathFinder):
    """Finds cmaes, once, with a loader that changes its optimizers as soon as it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "cmaes":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _write(module)

            loader.exec_module = exec_module
        return spec


def _write(cmaes: ModuleType) -> None:
    kinds: list[Any] = [kind for kind in vars(cmaes).values() if inspect.isclass(kind)]
    for kind in kinds:
        kind.__init__ = _written(kind.__init__)


def _written(begin: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(begin)
    def begun(optimizer: Any, *args: Any, **settings: Any) -> None:
        begin(optimizer, *args, **settings)
        if _VALUES in vars(optimizer):  # not in one that is made of others
            vars(optimizer)[_VALUES].fill(0.0)

    return begun
