"""Public models, of which one at a time is in memory if they are large."""

from __future__ import annotations

import pickle
import tempfile
from contextlib import ExitStack
from typing import IO, Any
from weakref import finalize

from dptune._checks import attempt

SMALL = 1 << 18  # pickled bytes of a model that stays in memory: 200 of them take 50 MB


class KeptModels:
    """Public models by a key, in memory if they are small, else in temporary files without a name.

    The model that returns is the one that was kept, also where a training has no seed.
    """

    def __init__(self) -> None:
        self._small = dict[int, Any]()
        self._large = dict[int, IO[bytes]]()
        self._files = ExitStack()
        finalize(self, self._files.close)

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def __contains__(self, key: int) -> bool:
        return key in self._small or key in self._large

    def put(self, key: int, model: Any) -> None:
        """Keep a model; one that pickle or the disk refuses stays in memory."""
        if (file := attempt(self._written, model, failed=None)) is None:
            self._small[key] = model
        else:
            self._large[key] = file

    def _written(self, model: Any) -> IO[bytes] | None:
        """Return a file with the model; None if it is small."""
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile())
            pickle.dump(model, file, pickle.HIGHEST_PROTOCOL)
            file.flush()
            if file.tell() > SMALL:
                self._files.enter_context(stack.pop_all())
                return file
        return None

    def get(self, key: int) -> Any:
        if key in self._small:
            return self._small[key]
        self._large[key].seek(0)
        return pickle.load(self._large[key])
