"""The wrapper of one private vector: it guards against accidents, not against intent."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from dptune.errors import InputError, PrivacyError
from dptune.privacy.seal.parsing import as_array, numbers, odd_type

_REFUSED = (
    "PerExampleLosses hold private values and can only be given to LossPrivatizer.observe(); "
    "they are not copied, pickled, converted, compared, iterated or formatted."
)


class PerExampleLosses:
    """One private loss per example, shape (rows,). Only the privatizer reads inside.

    Any code in the same process can still get at the values if it means to: Python has no walls.

    Args:
        values: real numbers, one per example; NaN and infinities are allowed and will be clipped.

    Raises:
        InputError: not one-dimensional, empty, or not real numbers. Depends on shape and dtype only.
    """

    __slots__ = ("__values",)

    def __init__(self, values: object) -> None:
        self.__values = loss_vector(values)

    def __len__(self) -> int:
        return len(self.__values)

    def __repr__(self) -> str:
        return "PerExampleLosses(<private values>)"

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise PrivacyError(_REFUSED)

    __array__ = __iter__ = __getitem__ = __contains__ = _refuse
    __copy__ = __deepcopy__ = __getstate__ = __reduce__ = __reduce_ex__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __str__ = __format__ = __float__ = __bool__ = _refuse
    __hash__ = None  # type: ignore[assignment]  # so Python says that a class has no hash


def reveal(losses: PerExampleLosses) -> npt.NDArray[np.float64]:
    """Return the private vector (rows,). Only ``dptune.privacy.privatizer`` may call it; a test checks that."""
    return losses._PerExampleLosses__values  # type: ignore[attr-defined,no-any-return]  # mangled: private


P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def without_traceback(error: E) -> E:
    """Return the error without its frames and its cause: both may hold private values.

    Raise the returned error outside the ``except`` block: inside, Python would attach the error being handled.
    """
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def without_frames(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function of private values, whose errors have no frames of its callees: those may hold such values.

    NumPy's floating-point errors are ignored inside, whatever the user's ``numpy.seterr`` says: they depend on values.
    """

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            with np.errstate(all="ignore"):
                return function(*arguments, **options)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised without its frames
            failure = without_traceback(error)
        del arguments, options
        raise failure

    return call


def loss_vector(values: Any) -> npt.NDArray[np.float64]:
    """Return a float64 copy (rows,).

    Entries that are not numbers, or are masked, become NaN: no value raises. Lists and arrays of objects, text or
    complex numbers are read entry by entry, since one entry suffices to make NumPy choose these types.

    Raises:
        InputError: not one-dimensional, empty, or of dates or structures. The error depends on shape and dtype only.
    """
    array = as_array(values)
    if array is None:
        raise InputError(
            f"per-example losses must be an array of real numbers; got {type(values).__name__}, which cannot be "
            "read as one. Of a tensor give losses.detach().float().cpu().numpy()."
        )
    if odd := odd_type(values) or odd_type(array):
        raise InputError(f"per-example losses must be an array of real numbers; got {type(values).__name__} of {odd}.")
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"per-example losses must be a vector with one loss per example; got {type(values).__name__} of shape "
            f"{array.shape}. Return the losses before averaging, not a mean, a score or an empty result. Of a column "
            "return losses.ravel(). With loss= and data= return the fitted model."
        )
    return numbers(array)[0]
