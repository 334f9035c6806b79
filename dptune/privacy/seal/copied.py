"""Copies of models: the copy that predicts on private rows is discarded; the returned model never saw them.

A model may remember its inputs: trees of nearest neighbours count the nodes that a query visits, batch normalisation
averages over rows, and imputers draw random numbers. Such a state would leave with the model and depend on private rows
without noise.
"""

from __future__ import annotations

import io
import pickle
import types
from typing import Any

from dptune.errors import InputError
from dptune.privacy.seal.silence import quietly


def copied(model: Any) -> Any:
    """Return a copy of a fitted model, by its own pickling; functions, classes and modules in it are shared.

    ``copy.deepcopy`` is not used: with LightGBM it loses the iteration at which a booster stopped. Errors depend on the
    model only.
    """
    result = quietly(_round_trip, model)
    if isinstance(result, tuple):
        return result[0]
    raise InputError(
        f"this {type(model).__name__} cannot be copied ({type(result).__name__}: {result}). dptune reads private "
        "losses from a copy, so that the model you keep holds nothing of private rows. Return a model that pickle can "
        "store; or leave loss= and data= out and return the losses yourself. Nothing was charged for this model."
    )


def _round_trip(model: Any) -> tuple[Any]:
    try:
        return (pickle.loads(pickle.dumps(model, pickle.HIGHEST_PROTOCOL)),)
    except Exception:  # noqa: BLE001 - a class or function of it has no importable name
        pass
    written = io.BytesIO()
    writer = _Writer(written, pickle.HIGHEST_PROTOCOL)
    writer.dump(model)
    written.seek(0)
    return (_Reader(written, writer.shared).load(),)


class _Writer(pickle.Pickler):
    """Writes a number instead of a function, class or module, which may have no importable name."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.shared: list[Any] = []

    def persistent_id(self, each: Any) -> int | None:
        if not isinstance(each, types.FunctionType | types.ModuleType | type):
            return None
        self.shared.append(each)
        return len(self.shared) - 1


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, place: int) -> Any:
        return self._shared[place]
