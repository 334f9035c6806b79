"""Whether a model answers a public row alike, whoever else is in the call and however often it was called.

The guarantee of per-example losses needs that: an imputer that draws at random, a scaler that is fitted to the rows it
is given or a layer of batch normalisation in training mode lets one person's row move everybody's loss. What shows on a
few public rows is refused in public. What does not show there is the user's part of the promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array
from dptune._checks import attempt
from dptune.losses.rows import ParsedRows, read_rows
from dptune.privacy.seal.parsing import numbers

Answers: TypeAlias = Callable[[Any, int], Array | None]
_LOOKED_AT, _ROWS = 256, 4  # public rows that are looked through, and of each kind a model is asked about
_ROUNDING = 1e-4  # of the largest answer: what threads that add in another order may change in single precision


def specimens(table: ParsedRows, like: Any) -> ParsedRows | None:
    """A few public rows as a table: the first of ``like``; or of made-up cells, all alike. None: there are none.

    Args:
        table: the private rows, of which the public shape and container are used only.
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
    """Tell whether answers to public rows move when another row of the call is replaced, or when they are asked again.

    Shape and positions stay the same, so that rounding does. The model is asked about rows with missing values among
    them, and without; where it fails nothing is told.

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
    """Tell whether answers to the other rows move when the first one is replaced; False where the model fails."""
    before = ask(public.take(np.array(rows)), len(rows))
    after = None if before is None else ask(public.take(np.array([last, *rows[1:]])), len(rows))
    return before is not None and after is not None and not alike(before[1:], after[1:])


def _first(like: Any) -> ParsedRows:
    rows = like.tocsr() if hasattr(like, "tocsr") else like
    first = (rows.iloc if hasattr(rows, "iloc") else rows)[:_LOOKED_AT]
    return read_rows(first, first)


def alike(a: Array, b: Array) -> bool:
    """Tell whether answers (m, ...) are the same numbers, but for rounding, and the same texts."""
    texts = [(p, q) for p, q in zip(a.ravel(), b.ravel(), strict=False) if isinstance(p, str)]
    if a.shape != b.shape or any(p != q for p, q in texts):
        return False
    x, z = _as_numbers(a), _as_numbers(b)
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(x[np.isfinite(x)]), initial=0.0)
    return x.shape == z.shape and np.allclose(x, z, rtol=0.0, atol=_ROUNDING * scale, equal_nan=True)


def _as_numbers(answers: Array) -> npt.NDArray[np.float64]:
    """Answers as numbers, NaN where there is none; rows of objects as rows, if they are of one length."""
    return attempt(lambda: np.array(answers.tolist(), dtype=np.float64), failed=numbers(answers)[0])
