"""The input of private examples: loaded once per process, checked, and read once into the form that models take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Mask
from dptune._checks import kind, length_of, not_a_vector, readable
from dptune._store import ForkSafeLock
from dptune.errors import InputError, ObjectiveRefused
from dptune.losses.functions import label_codes
from dptune.losses.rows import ParsedRows, Rows, needs_columns, read_rows
from dptune.losses.steady import specimens
from dptune.privacy.seal.parsing import as_array, numbers_in, odd_type, says
from dptune.privacy.seal.reachable import refuse_reachable, refuse_shared
from dptune.privacy.seal.silence import silence

Data: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike] | Rows


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """Private examples after reading.

    Attributes:
        rows: the rows in the form that models take.
        answers: (n,), private.
        public: a few public rows of the same columns, or None.
        made_up: whether these are not the user's.
    """

    rows: ParsedRows
    answers: Array
    public: ParsedRows | None
    made_up: bool
    _by_labels: dict[object, tuple[Array, Mask]] = field(default_factory=dict)

    def read_as(self, labels: list[Any] | None) -> tuple[Array, Mask]:
        """Return the answers (n,) as numbers or as codes of these labels, and where a label is unknown (n,).

        An unknown label has the code of a known one. Answers are read once for all models of these labels.
        """
        key = None if labels is None else tuple(map(says, labels))
        if key not in self._by_labels:
            if labels is None:
                read = numbers_in(np.dtype(np.float64), self.answers)[0], np.zeros(len(self.answers), dtype=bool)
            else:
                codes = label_codes(self.answers, labels)
                read = np.maximum(codes, 0), codes < 0
            self._by_labels[key] = read
        return self._by_labels[key]

    @classmethod
    def of(cls, data: Rows, columns: int | None = None) -> Examples:
        """Read examples; ``columns`` is the model's number of columns, for a list of rows without ``like``.

        Raises:
            InputError: X needs ``like``, y is not an array, or the shapes do not match. No private cell matters.
        """
        wanted = columns if needs_columns(data.X, data.like) else None
        if wanted not in data._read:
            read = readable("X, y or like=", lambda *_: cls._of(data, columns), data.X, data.y, data.like)
            data._read[wanted] = read
        examples: Examples = data._read[wanted]
        return examples

    @classmethod
    def _of(cls, data: Rows, columns: int | None) -> Examples:
        rows = read_rows(data.X, data.like, columns, data._names)
        answers = as_array(data.y)
        if mistake := _of_odd_type(data.y):
            raise InputError(mistake)
        if answers is None:
            raise InputError(f"y cannot be read as an array; it is a {type(data.y).__name__}")
        if answers.shape != (len(rows),):
            raise InputError(f"X has {len(rows)} rows and y has shape {answers.shape}; allowed: (n, d) and (n,)")
        return cls(rows, answers, specimens(rows, data.like), made_up=data.like is None)


class PrivateExamples:
    """The ``data=`` of a user's function; a copy in another process loads the examples there.

    Args:
        function: the training function; it must not reach the examples.
        data: the examples, or a function that loads them.
        rows: number of examples.
        loss: the loss function, which must not reach them: a person's loss depends on that person's row only.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        data: Data | Callable[[], Data],
        rows: int,
        loss: Callable[..., Any] | None = None,
    ) -> None:
        self._function, self._data, self._rows, self._loss = function, data, rows, loss
        self._loaded: Rows | None = None
        self._loading = ForkSafeLock()
        if callable(data):
            refuse_reachable(function, data)
            refuse_shared(data, **{"the loss": loss})
        else:
            self.load()

    def load(self) -> Rows:
        """Return the given examples; read them if that needs no model."""
        with self._loading, nullcontext() if self._loaded is not None else silence():
            if self._loaded is None:
                data = as_rows(_load(self._data) if callable(self._data) else self._data)
                _check(data, self._rows)
                self._refuse(data)
                self._loaded = data
            return self._loaded

    def refuse_model(self, model: Any) -> None:
        """Refuse a model that holds the examples, or what loads them: its recipient would get them."""
        given, named = self.load(), {f"the {type(model).__name__}": model}
        refuse_shared(given.X, given.y, **named)
        if callable(self._data):
            refuse_shared(self._data, **named)

    def _refuse(self, given: Rows) -> None:
        def reach(X: Any, y: Any, like: Any) -> None:
            refuse_reachable(self._function, X, y, loaded=callable(self._data))
            refuse_shared(X, y, **{"like=": like, "the loss": self._loss})

        try:
            readable("X, y or like=", reach, given.X, given.y, given.like)
            if not needs_columns(given.X, given.like):
                Examples.of(given)
        except InputError as error:
            mistake = str(error)
        else:
            return
        raise ObjectiveRefused(mistake)

    def read(self, columns: int | None) -> Examples:
        """Return the examples for a model that was fitted on ``columns`` columns, if known."""
        return Examples.of(self.load(), columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}


def _load(loader: Callable[[], Data]) -> Data:
    try:
        return loader()
    except KeyboardInterrupt:
        failure = None
    except BaseException as error:  # noqa: BLE001 - its message and its frames may hold private values
        failure = type(error).__name__
    if failure is None:
        raise KeyboardInterrupt
    raise ObjectiveRefused(
        f"the function given as data= failed ({failure}); nothing was trained or charged. Call it yourself to see why."
    )


def as_rows(data: Any) -> Rows:
    """Return the examples of ``data=``; nothing of them is read."""
    examples = Rows(*data) if isinstance(data, tuple | list) and len(data) == 2 else data
    if isinstance(examples, Rows):
        return examples
    raise ObjectiveRefused(
        f"data= must be (X, y), Rows(X, y, like=...), or a function that returns them; got {type(data).__name__}."
    )


def _check(examples: Rows, rows: int) -> None:
    """Refuse X and y that have not this number of rows; all checks are public."""
    if mistake := _of_odd_type(examples.y):
        raise ObjectiveRefused(mistake)
    y = as_array(examples.y)  # once: an unreadable y must not fail in every charged trial
    if y is None:
        raise ObjectiveRefused(
            f"the y of data= cannot be read as an array of {rows} answers; it is a {type(examples.y).__name__}. Give "
            "an array or a list (of a tensor, y.detach().cpu().numpy())."
        )
    if length_of(examples.X) != rows or y.shape[:1] != (rows,):
        raise ObjectiveRefused(
            f"X and y of data= must have {rows} rows each, as the y given, n= or groups= says; got {kind(examples.X)} "
            f"and {kind(examples.y)}."
        )
    if mistake := not_a_vector("the y of data=", y):
        raise ObjectiveRefused(mistake)


def _of_odd_type(y: Any) -> str:
    """Return why answers of this type cannot be read; "" if they can."""
    odd = odd_type(y)
    return odd and (
        f"y has the type {odd}; allowed: numbers, text and labels. Of dates give numbers, such as days, and of a "
        'structure one field, such as y["answer"].'
    )
