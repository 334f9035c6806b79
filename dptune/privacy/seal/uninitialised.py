"""Uninitialised memory of another library that a framework stores.

The optimizers of ``cmaes`` have an array of ``np.empty`` that fills up during a search. Optuna's ``CmaEsSampler``
stores the pickle of its optimizer with every generation. The unwritten array contains memory that the process freed
before, possibly all losses of a trial.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_VALUES = "_funhist_values"  # values of the last generations


@functools.cache
def write_memory_of_cmaes() -> None:
    """Make cmaes' optimizers begin with zeros instead of uninitialised memory.

    Their results do not change: they read the array only after writing all of it. Without cmaes, do nothing.
    """
    try:
        import cmaes
    except ImportError:
        return
    kinds: list[Any] = [kind for kind in vars(cmaes).values() if inspect.isclass(kind)]
    for kind in kinds:
        kind.__init__ = _written(kind.__init__)


def _written(begin: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(begin)
    def begun(optimizer: Any, *args: Any, **settings: Any) -> None:
        begin(optimizer, *args, **settings)
        if _VALUES in vars(optimizer):  # an optimizer that wraps others has none
            vars(optimizer)[_VALUES].fill(0.0)

    return begun
