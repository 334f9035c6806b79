"""A search's name in the ledger, where the user gives none: the same for the same question, another for another one.

A ledger tells recorded answers again under a name. So everything public that an answer depends on is in the name: the
estimator with its parameters, what is searched and how, and the training rows. Private rows are not; a ledger is
theirs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def name_of(estimator: Any, *public: Any) -> str:
    """Return a name: the estimator's, and a digest of everything public."""
    digest = hashlib.sha256()
    for word in _words((estimator, *public)):
        digest.update(hashlib.sha256(word).digest())
    return f"{type(estimator).__name__}-{digest.hexdigest()[:12]}"


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
