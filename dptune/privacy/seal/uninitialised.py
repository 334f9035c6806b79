"""Memory that another library leaves unwritten and a framework stores.

The optimizers of ``cmaes`` have an array of ``np.empty`` that fills up in the course of a search, and Optuna's
``CmaEsSampler`` stores the pickle of its optimizer with every generation. Until something is written the array holds
what the process freed last: the losses of a trial, all of them, where its size is theirs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_VALUES = "_funhist_values"  # of the last generations


@functools.cache
def write_memory_of_cmaes() -> None:
    """From now on the optimizers that cmaes exports begin with zeros where they began with what was in memory.

    Nothing that they do depends on it: they read the array once all of it is written. Without cmaes nothing is done.
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
        if _VALUES in vars(optimizer):  # not in one that is made of others
            vars(optimizer)[_VALUES].fill(0.0)

    return begun
