"""A marked text and a marked number in every container of the tests' packages, and a search for them.

The number has 12 digits before its point. Printed random numbers have none or are smaller, and
`every_logger.without_clocks` masks identities, so nothing else looks like it.
"""

import re
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp

TEXT, NUMBER = "MARKED-PERSON", 774177417741.25
SEEN = re.compile(r"MARKED|(?<![\d.])774[,_]?17\d[,_]?\d{3}[,_]?\d{3}(?!\d)|7\.7\d*[eE]\+11")


class Loud:
    """An object that shows a person wherever Python writes it."""

    def __repr__(self) -> str:
        return TEXT

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return TEXT


class LoudNumber(float):
    __repr__ = __str__ = lambda self: TEXT


class LoudText(str):
    __slots__ = ()
    __repr__ = __str__ = lambda self: TEXT


class Refuses:
    """A sequence whose every method raises an error that names a person."""

    def _raise(self, *_: object, **__: object) -> Any:
        raise ValueError(f"could not read {TEXT}: {NUMBER}")

    __len__ = __getitem__ = __iter__ = __array__ = __float__ = __bool__ = __index__ = __eq__ = _raise
    __hash__ = None
    shape = dtype = columns = column_names = property(_raise)


class ShapeRefuses(Refuses):
    """The same, but for its length: it passes the first look."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    shape = property(lambda self: (self.n, 2))


class DataAsColumns:
    """A table whose ``columns`` are its data, as of Arrow, and hold text."""

    def __init__(self, columns: list[Any]) -> None:
        self.columns, self.shape = columns, (len(columns[0]), len(columns))

    def __len__(self) -> int:
        return int(self.shape[0])


class Sequence:
    def __init__(self, cells: list[Any]) -> None:
        self.cells = cells

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, i: Any) -> Any:
        return self.cells[i]

    __repr__ = Loud.__repr__


def scalars() -> dict[str, Any]:
    return {
        "number": NUMBER,
        "whole": int(NUMBER),
        "NumPy's number": np.float64(NUMBER),
        "text": TEXT,
        "bytes": TEXT.encode(),
        "0-dimensional": np.array(NUMBER),
        "complex": complex(NUMBER, 1.0),
    }


def _raising(cells: list[Any]) -> Iterator[Any]:
    yield cells[0]
    raise ValueError(f"row of {TEXT}: {NUMBER}")


def vectors(n: int) -> dict[str, Any]:
    """Containers of n cells."""
    numbers, texts = [NUMBER] * n, [TEXT] * n
    mixed = [NUMBER if i % 2 else TEXT for i in range(n)]
    some = [0.5, *numbers[1:]]
    structure = np.array([(TEXT, NUMBER)] * n, dtype=[("name", "U20"), ("age", float)])
    return {
        "list": some,
        "tuple": tuple(numbers),
        "list of texts": texts,
        "mixed list": mixed,
        "list of None": [None, *texts[1:]],
        "ragged": [[NUMBER] * (1 + i % 2) for i in range(n)],
        "dict": {TEXT: numbers, NUMBER: texts},
        "list of dicts": [{"name": TEXT, "age": NUMBER}] * n,
        "array": np.array(some),
        "whole array": np.array(numbers, int),
        "objects": np.array(mixed, dtype=object),
        "texts": np.array(texts),
        "structured": structure,
        "masked": np.ma.masked_array(numbers, mask=[i == 1 for i in range(n)]),
        "complex array": np.array(numbers) * 1j,
        "dates": np.array(["2026-01-01"] * n, dtype="M8[D]"),
        "bytes array": np.array([TEXT.encode()] * n),
        "series": pd.Series(mixed),
        "numbers series": pd.Series(some, index=texts),
        "categories": pd.Series(texts, dtype="category"),
        "Polars series": pl.Series("a", numbers),
        "Polars texts": pl.Series("a", texts),
        "Arrow array": pa.array(numbers),
        "Arrow texts": pa.chunked_array([texts]),
        "generator": iter(mixed),
        "failing generator": _raising(mixed),
        "sequence": Sequence(mixed),
        "loud objects": [Loud()] * n,
        "loud list": type("Loud", (list,), {"__repr__": Loud.__repr__})(some),
        "list that refuses": [Refuses() for _ in range(n)],
        "set": set(mixed),
        "function": lambda: (mixed, mixed),
        "buffer": memoryview(np.array(numbers)),
        "an error": ValueError(TEXT, NUMBER),
    }


def tables(n: int) -> dict[str, Any]:
    """Containers of n rows of two cells."""
    rows: list[list[Any]] = [[NUMBER, 0.5 * i] for i in range(n)]
    mixed: list[list[Any]] = [[TEXT, NUMBER] for _ in range(n)]
    columns = {"a": [TEXT] * n, "b": [NUMBER] * n}
    numbers = {"a": [NUMBER] * n, "b": [0.5] * n}
    return {
        "nested list": rows,
        "nested mixed": mixed,
        "tuples": tuple(map(tuple, mixed)),
        "columns": columns,
        "matrix": np.array(rows).view(np.matrix),
        "2-dimensional": np.array(rows),
        "3-dimensional": np.array([rows]),
        "object table": np.array(mixed, dtype=object),
        "masked table": np.ma.masked_array(rows, mask=False),
        "frame": pd.DataFrame(columns),
        "frame of numbers": pd.DataFrame(numbers),
        "other columns": pd.DataFrame({0: [TEXT] * n}),
        "frame of categories": pd.DataFrame(columns).astype("category"),
        "Polars frame": pl.DataFrame(columns),
        "lazy frame": pl.LazyFrame(columns),
        "Arrow table": pa.table(columns),
        "Arrow numbers": pa.table(numbers),
        "Arrow batch": pa.record_batch(columns),
        "interchange": pa.table(numbers).__dataframe__(),
        "sparse": sp.csr_matrix(rows),
        "sparse array": sp.coo_array(np.array(rows)),
        "data as columns": DataAsColumns([[TEXT] * n, [NUMBER] * n]),
        "text columns": DataAsColumns([TEXT, TEXT]),
        "a pair": (rows, [NUMBER] * n),
        "shape only": ShapeRefuses(n),
    }


def objects() -> dict[str, Any]:
    """What is no container at all."""
    return {"loud": Loud(), "loud number": LoudNumber(NUMBER), "loud text": LoudText("x"), "refuses": Refuses()}


FEW = [
    "list",
    "mixed list",
    "objects",
    "series",
    "structured",
    "columns",
    "generator",
    "frame",
    "Polars frame",
    "Arrow table",
]


def few(n: int) -> dict[str, Any]:
    """Enough for what looks at the type only."""
    made = {**vectors(n), **tables(n)}
    return {"loud": Loud(), "loud number": LoudNumber(NUMBER), **{name: made[name] for name in FEW}}


def everything(n: int) -> dict[str, Any]:
    """All containers of n rows, some with one too many, and numbers and texts."""
    longer = {f"{name}, one more": made for name, made in few(n + 1).items()}
    return {**scalars(), **objects(), **vectors(n), **tables(n), **longer}


def words_of(error: BaseException | None) -> str:
    """All that an error and those that it came from can show: message, arguments, notes and printed traceback."""
    words, seen = "", set[int]()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        words += "".join([str(each), repr(each), *map(repr, each.args), *getattr(each, "__notes__", ())])
        words += "".join(traceback.format_exception(each))
        waiting += [each.__cause__, each.__context__]
    return words
