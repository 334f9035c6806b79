"""What tells two searches, or two candidates, apart: a digest of everything public, the same in another process."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dptune._numbers import plain

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def digest(*public: Any) -> str:
    """Return twelve digits: of types, parameters and contents, never of addresses."""
    found = hashlib.sha256()
    for word in _words(public):
        found.update(hashlib.sha256(word).digest())
    return found.hexdigest()[:12]


def of_parameters(parameters: Mapping[str, Any]) -> str:
    """Return the digest of one candidate; NumPy's numbers are Python's."""
    return digest({name: plain(value) for name, value in parameters.items()})


def _words(each: Any) -> Iterator[bytes]:
    """What tells two objects apart: types, parameters and contents, never addresses."""
    yield type(each).__qualname__.encode()
    if hasattr(each, "get_params") and not isinstance(each, type):
        yield from _words(each.get_params(deep=False))
    elif hasattr(each, "dist") and hasattr(each, "kwds"):  # a frozen distribution
        yield from _words((each.dist.name, each.args, each.kwds))
    elif hasattr(each, "tocsr"):
        rows = each.tocsr()
        yield from _words((rows.shape, rows.data, rows.indices, rows.indptr))
    elif isinstance(each, Mapping):
        yield from _words(sorted(each.items(), key=lambda item: str(item[0])))
    elif isinstance(each, list | tuple):
        for held in each:
            yield from _words(held)
    elif hasattr(each, "shape"):
        array = np.asarray(each)
        yield repr((array.shape, array.dtype, list(map(str, getattr(each, "columns", ()))))).encode()
        yield repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes()
    elif callable(each):
        yield f"{getattr(each, '__module__', '')}.{getattr(each, '__qualname__', '')}".encode()
    else:
        yield _ADDRESS.sub("", repr(each)).encode()
