"""Per-person losses: pure functions from answers and predictions to one number per person.

Notation: n people, k classes; y (n,) the private answers; every result is a float64 vector (n,),
in the units of the loss (squared_error: units of y squared; log_loss: nats).

Entry i of a result depends on entry i of the arguments only, which is what makes the mean over people
a query of bounded sensitivity. Since y is private, no *value* can raise or warn. A prediction that is not finite, an
answer that is not a number and a label outside `labels` give NaN or inf at that entry. The privatizer later replaces
these by the upper clip. `InputError` depends on public facts only: shapes and settings. An array's dtype is private:
one person's "?" turns a column of numbers into text. So lists and arrays that do not hold numbers are read entry by
entry ("1.5" is the number 1.5), or row by row against the public number of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Indices, Mask, Vector
from dptune._checks import attempt, positive, real, shown
from dptune.errors import InputError
from dptune.privacy.seal.parsing import as_array, as_labels, entries_of, label, number, numbers, numbers_in, says

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """Answers that are known as codes (n,) of public labels already; losses with labels take them as ``y``."""

    codes: Indices

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Indices | slice) -> Coded:
        return Coded(self.codes[rows])


def squared_error(y: npt.ArrayLike, prediction: npt.ArrayLike) -> Vector:
    """Return (y - prediction)^2, (n,). Its mean is the MSE, whose root may be taken after the release."""
    return _of_residual(y, prediction, np.square)


def absolute_error(y: npt.ArrayLike, prediction: npt.ArrayLike) -> Vector:
    """Return |y - prediction|, (n,)."""
    return _of_residual(y, prediction, np.abs)


def huber_loss(y: npt.ArrayLike, prediction: npt.ArrayLike, *, c: float = 1.0) -> Vector:
    """Return r^2/2 where |r| <= c, else c(|r| - c/2), with r = y - prediction, (n,). Source: Huber (1964).

    Raises:
        InputError: c is not positive and finite.
    """
    c = positive("huber_loss: c", c)

    def huber(r: Vector) -> Vector:
        a = np.abs(r)
        return np.where(a <= c, a * a / 2, c * (a - c / 2))

    return _of_residual(y, prediction, huber)


def pinball_loss(y: npt.ArrayLike, prediction: npt.ArrayLike, *, quantile: float) -> Vector:
    """Return max(quantile * r, (quantile - 1) * r) with r = y - prediction, (n,). Source: Koenker & Bassett (1978).

    Raises:
        InputError: quantile is not strictly between 0 and 1.
    """
    quantile = _inside_0_1("pinball_loss: quantile", quantile)
    return _of_residual(y, prediction, lambda r: np.maximum(quantile * r, (quantile - 1) * r))


def log_loss(y: npt.ArrayLike, proba: npt.ArrayLike, *, labels: Sequence[Any], eps: float = EPS) -> Vector:
    """Return -ln P(y), (n,), in nats, with P clipped to [eps, 1]: no entry exceeds ln(1/eps) (36.04 by default).

    Args:
        y: (n,) labels.
        proba: (n, k), column j being P(labels[j]); or (n,), being P(labels[1]) of two labels. In a list each row is
            k numbers, or one number for two labels; any other row gives NaN.
        labels: the k public labels *in the order of the columns* (a fitted model's `classes_`); never sorted.
        eps: public floor of a probability.

    Raises:
        InputError: shapes that do not fit, or eps outside (0, 1).
    """
    eps = _inside_0_1("log_loss: eps", eps)
    codes, p = labels_and_proba(y, proba, labels)
    chosen = p[np.arange(len(p)), codes]  # (n,)
    with np.errstate(all="ignore"):
        return np.where(_valid(codes, p), -np.log(np.clip(chosen, eps, 1.0)), np.nan)


def brier_loss(y: npt.ArrayLike, proba: npt.ArrayLike, *, labels: Sequence[Any]) -> Vector:
    """Return sum_j (P(j) - 1{y = j})^2, (n,), halved for two labels, where both terms of the sum are equal.

    Within [0, 1] for two labels and [0, 2] for more, like scikit-learn's. Arguments and errors as `log_loss`.
    Source: Brier (1950).
    """
    codes, p = labels_and_proba(y, proba, labels)
    truth = np.eye(p.shape[1])[codes]  # (n, k)
    with np.errstate(all="ignore"):
        loss = np.square(p - truth).sum(axis=1) / (2 if p.shape[1] == 2 else 1)
    return np.where(_valid(codes, p), loss, np.nan)


def hinge_loss(y: npt.ArrayLike, decision: npt.ArrayLike, *, labels: Sequence[Any]) -> Vector:
    """Return max(0, 1 - s * decision), (n,), with s = +1 where y = labels[1] and s = -1 where y = labels[0].

    Raises:
        InputError: labels are not exactly two, or decision is not (n,).
    """
    if len(labels) != 2:
        raise InputError("hinge_loss is for exactly two labels; for more, use log_loss or zero_one_loss")
    codes = label_codes(y, labels)
    d = _numbers(decision, "decision", ndim=1)
    _same_length(codes, d, "decision")
    with np.errstate(all="ignore"):
        loss = np.maximum(0.0, 1.0 - (2.0 * codes - 1.0) * d)
    return np.where((codes >= 0) & np.isfinite(d), loss, np.nan)


def zero_one_loss(y: npt.ArrayLike, prediction: npt.ArrayLike, *, labels: Sequence[Any] | None = None) -> Vector:
    """Return 1 where y differs from the predicted label and 0 where it does not, (n,). Accuracy is 1 minus its mean.

    With `labels` (the public label set), a label outside it in y or in prediction gives NaN; so does a NaN.
    """
    if labels is not None:
        a = label_codes(y, labels)
        b = label_codes(prediction, labels, "prediction")
        _same_length(a, b, "prediction")
        return np.where((a >= 0) & (b >= 0), a != b, np.nan)
    left, right = _array(y, "y"), _array(prediction, "prediction")
    _vector(left, "y")
    _vector(right, "prediction")
    _same_length(left, right, "prediction")
    return np.array(list(starmap(_differs, zip(entries_of(left), entries_of(right), strict=True))), dtype=np.float64)


def _of_residual(y: npt.ArrayLike, prediction: npt.ArrayLike, rho: Callable[[Vector], Vector]) -> Vector:
    """Return rho(y - prediction), (n,)."""
    a, b = _numbers(y, "y", ndim=1), _numbers(prediction, "prediction", ndim=1)
    _same_length(a, b, "prediction")
    with np.errstate(all="ignore"):
        return np.asarray(rho(a - b), dtype=np.float64)


def labels_and_proba(y: npt.ArrayLike, proba: npt.ArrayLike, labels: Sequence[Any]) -> tuple[Indices, Vector]:
    """Return codes (n,) of y, and proba as (n, k)."""
    codes = label_codes(y, labels)
    p = _rows_of_numbers(_array(proba, "proba"), len(labels))
    if p.ndim == 1 and len(labels) == 2:
        with np.errstate(all="ignore"):
            p = np.column_stack([1.0 - p, p])  # (n, 2)
    if p.ndim != 2 or p.shape[1] != len(labels):
        raise InputError(
            f"proba has shape {p.shape} for {len(labels)} labels. Allowed: (n, {len(labels)}), one column "
            "per label in the order of `labels`; for two labels also (n,), which is P(labels[1])."
        )
    _same_length(codes, p, "proba")
    return codes, p


def _valid(codes: Indices, p: Vector) -> Mask:
    return (codes >= 0) & np.isfinite(p.T, order="C").all(axis=0)  # row by row it takes ten times as long


def _rows_of_numbers(array: Array, k: int) -> Vector:
    """Return proba (n, k) as float64; rows of objects are read one by one, as k numbers or NaN."""
    if array.dtype.kind == "O" and array.ndim == 1:
        return np.array([_row(entry, k) for entry in array], dtype=np.float64).reshape(-1, k)
    return _numbers(array, "proba")


def _row(entry: Any, k: int) -> list[float]:
    """Return k numbers, also from P(labels[1]) alone for two labels; NaN for anything else."""
    width = attempt(len, entry, failed=None)
    if width in (None, 1) and k == 2:
        p = number(entry)
        return [1.0 - p, p]
    row = as_array(entry) if width == k else None
    return [np.nan] * k if row is None or row.shape != (k,) else [number(value) for value in row]


def label_codes(y: npt.ArrayLike | Coded, labels: Sequence[Any], name: str = "y") -> Indices:
    """Return the index in `labels` of each entry, (n,); -1 for other labels.

    The numbers 1 and 1.0 and the texts "1" and "1.0" are one label, and so is 0.1 in each floating-point type. The form
    of everybody's labels may depend on one person's.
    """
    if isinstance(y, Coded):
        return y.codes
    index: dict[Any, int] = {}
    try:
        for each in list(np.asarray(labels).tolist() if isinstance(labels, np.ndarray) else labels):
            hash(each)  # a list of one label says what its label says
            index.setdefault(label(each), len(index))
    except TypeError:
        raise InputError("labels must be plain values: text, numbers or booleans") from None
    if not index or len(index) < len(labels):
        raise InputError("labels must be distinct as numbers, too, and at least one: 1, 1.0, '1' and True are one")
    array = _array(y, name)
    _vector(array, name)
    if array.dtype.kind in "fiub":
        return _number_codes(numbers_in(np.dtype(np.float64), array)[0], index)
    codes = _Codes(index)
    entries = array.tolist() if array.dtype.kind in "US" else entries_of(array)
    return np.array([codes[e] if type(e) in _PLAIN else codes.of(e) for e in entries], dtype=np.intp)


def _number_codes(values: Vector, index: dict[Any, int]) -> Indices:
    """Return the codes (n,) of numbers (n,), as :class:`_Codes` gives them one by one."""
    values = as_labels(values)
    small = np.min_scalar_type(-len(index) - 1).type
    codes = np.full(len(values), -1, dtype=small)
    for said, code in index.items():
        if isinstance(said, float | None):
            codes += (np.isnan(values) if said is None else values == said) * small(code + 1)
    return codes.astype(np.intp)


_PLAIN = frozenset((bool, int, float, str, bytes, type(None)))  # equal values of these types are equivalent


class _Codes(dict[Any, int]):
    """A cache of the codes of plain entries; ``index`` maps :func:`label` of an entry to its code."""

    def __init__(self, index: dict[Any, int]) -> None:
        super().__init__()
        self._index = index

    def of(self, entry: Any) -> int:
        return attempt(self._index.get, label(entry), -1, failed=-1)

    def __missing__(self, entry: Any) -> int:
        self[entry] = code = self.of(entry)
        return code


def _differs(a: Any, b: Any) -> float:
    return attempt(_unequal, says(a), says(b), failed=np.nan)  # a value of another type may not support comparison


def _unequal(a: Any, b: Any) -> float:
    if a is None or b is None or isinstance(a, str) != isinstance(b, str):
        return np.nan
    return float(a != b and label(a) != label(b))


def _numbers(values: npt.ArrayLike, name: str, ndim: int | None = None) -> Vector:
    """Return float64; entries that are not numbers become NaN."""
    array = _array(values, name)
    if ndim == 1:
        _vector(array, name)
    return array if array.dtype == np.float64 else numbers(array)[0]


def _inside_0_1(name: str, value: object) -> float:
    share = real(value)
    if share is None or not 0 < share < 1:
        raise InputError(f"{name}={shown(value)} must lie strictly between 0 and 1")
    return share


def _array(values: npt.ArrayLike, name: str) -> Array:
    """Return an array of the caller's dtype; sequences without one and matrices of objects become objects (n,).

    Rows of objects make a matrix if all are alike and a vector if one is not: that difference is private.
    """
    array = as_array(values)
    if array is None:
        raise InputError(
            f"{name} cannot be read as an array; it is a {type(values).__name__}. Of a tensor give "
            "x.detach().float().cpu().numpy()"
        )
    return entries_of(array) if array.ndim > 1 and isinstance(values, np.ndarray) and array.dtype.kind == "O" else array


def as_vector(answers: Any) -> Any:
    """Return a column of labels or numbers (n, 1), such as CatBoost's labels, as a vector."""
    array = as_array(answers)
    return answers if array is None or array.shape[1:] != (1,) else array[:, 0]


def _vector(array: Array, name: str) -> None:
    if array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}; allowed: (n,), one entry per person (try .ravel())")


def _same_length(y: Array, other: Array, name: str) -> None:
    if len(y) != len(other):
        raise InputError(
            f"y has shape {y.shape} and {name} has shape {other.shape}; both must describe the same people"
        )
