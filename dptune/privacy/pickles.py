"""Pickles that frameworks store, without the memory that nobody wrote.

``cmaes`` gives its optimizers an array of ``np.empty`` that fills up in the course of a search; Optuna's
``CmaEsSampler`` stores the pickle of its optimizer with every generation. Where nothing was written yet the array holds
what the process freed last: the losses of a trial, all of them, where its size is theirs.
"""

from __future__ import annotations

import copyreg
import functools
from typing import Any

_RECENT = "_funhist_values"  # the best and the worst value of each of the last generations: two places for each


@functools.cache
def write_whole_pickles() -> None:
    """From now on pickle and copy the optimizers of cmaes with zeros where nothing was written.

    Nothing that they do depends on it: they read the array when all of it is written. Without cmaes nothing is done.
    """
    try:
        from cmaes import CMA, SepCMA  # CMAwM, the third that Optuna stores, holds a CMA
    except ImportError:
        return
    copyreg.pickle(CMA, _whole)
    copyreg.pickle(SepCMA, _whole)


def _whole(optimizer: Any) -> tuple[Any, ...]:
    make, arguments, state, *more = optimizer.__reduce_ex__(2)
    values, written = state[_RECENT].copy(), 2 * optimizer.generation + 2  # generation g writes 2g and 2g + 1 ...
    if written <= len(values):  # ... modulo the length, so that places 0 and 1 come last
        values[:2] = values[written:] = 0.0
    return make, arguments, {**state, _RECENT: values}, *more
