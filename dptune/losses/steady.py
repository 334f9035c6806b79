"""A model that is asked: a copy of it, whose answer to a row is independent of other rows and of earlier calls.

The guarantee of per-example losses needs that. One person's row moves everybody's loss through a random imputer, a
scaler that is fitted at prediction, or batch normalisation in training mode. Violations on a few public rows are
refused in public. For all else, the guarantee depends on the user.

The copy that predicts on private rows is discarded; the returned model never saw them. A model may remember its inputs:
trees of nearest neighbours count the nodes that a query visits, batch normalisation averages over rows, and imputers
draw random numbers. Such a state would leave with the model and depend on private rows without noise.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array
from dptune._checks import attempt
from dptune.errors import InputError
from dptune.losses.rows import ParsedRows, read_rows
from dptune.privacy.seal.parsing import numbers
from dptune.privacy.seal.silence import quietly

Answers: TypeAlias = Callable[[Any, int], Array | None]
_LOOKED_AT, _ROWS = 256, 4  # public rows that are searched, and rows of each kind that a model predicts
_ROUNDING = 1e-4  # share of the largest answer: rounding of threads in single precision


def specimens(table: ParsedRows, like: Any) -> ParsedRows | None:
    """Return a few public rows as a table, the first of ``like`` or equal synthetic ones; None if there are none.

    Args:
        table: the private rows; only their public shape and container are used.
        like: public rows, or None.
    """
    if like is not None:
        return attempt(_first, like, failed=None)
    if not table.synthetic_counts:
        return None
    made_up = [table.synthetic_row(cell) for cell in (None, 1.0, 10.0, np.nan)]
    if hasattr(made_up[0], "tocsr"):
        from scipy.sparse import vstack

        return read_rows(vstack(made_up))
    return read_rows(np.concatenate(made_up))


def depends_on_others(ask: Answers, public: ParsedRows) -> bool:
    """Return whether answers to public rows change when another row is replaced, or in a second call.

    Shape and positions stay the same, and so does rounding. The model predicts rows with and without missing values;
    the answer is False if it fails.

    Args:
        ask: (rows, m) -> answers (m, ...), or None if the model fails.
        public: what :func:`specimens` returned.
    """
    gaps = public.gaps.any(axis=1)
    usable = ~(public.unreadable | public.infinite)
    whole = np.flatnonzero(usable & ~gaps)[:_ROWS]
    odd = np.flatnonzero(usable & gaps)[:_ROWS]
    last = [*odd[-1:], *whole[-1:]]
    others = whole[:-1] if len(whole) > 1 else whole
    calls = [[odd[0], *others, *odd]] if len(odd) else []
    calls += [[whole[0], *others]] if len(whole) else []
    return any(_moves(ask, public, rows, last[-1]) for rows in calls)


def _moves(ask: Answers, public: ParsedRows, rows: list[int], last: int) -> bool:
    """Return whether answers to the other rows change when the first one is replaced; False if the model fails."""
    before = ask(public.take(np.array(rows)), len(rows))
    after = None if before is None else ask(public.take(np.array([last, *rows[1:]])), len(rows))
    return before is not None and after is not None and not alike(before[1:], after[1:])


def _first(like: Any) -> ParsedRows:
    rows = like.tocsr() if hasattr(like, "tocsr") else like
    first = (rows.iloc if hasattr(rows, "iloc") else rows)[:_LOOKED_AT]
    return read_rows(first, first)


def alike(a: Array, b: Array) -> bool:
    """Return whether answers (m, ...) are the same numbers up to rounding, and the same texts."""
    texts = [(p, q) for p, q in zip(a.ravel(), b.ravel(), strict=False) if isinstance(p, str)]
    if a.shape != b.shape or any(p != q for p, q in texts):
        return False
    x, z = _as_numbers(a), _as_numbers(b)
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(x[np.isfinite(x)]), initial=0.0)
    return x.shape == z.shape and np.allclose(x, z, rtol=0.0, atol=_ROUNDING * scale, equal_nan=True)


def _as_numbers(answers: Array) -> npt.NDArray[np.float64]:
    """Return answers as numbers, or NaN; rows of objects become a matrix if their lengths are equal."""
    return attempt(lambda: np.array(answers.tolist(), dtype=np.float64), failed=numbers(answers)[0])


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
    arrays: list[bytearray] = []  # copied once; inside the pickle they would be copied twice

    def keep(array: pickle.PickleBuffer) -> None:
        arrays.append(bytearray(array.raw()))

    try:
        return (pickle.loads(pickle.dumps(model, pickle.HIGHEST_PROTOCOL, buffer_callback=keep), buffers=arrays),)
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
