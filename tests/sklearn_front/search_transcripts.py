"""All that a search leaves behind when every answer is a constant: what of it depends on private rows is a leak."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_tools import dump
from every_logger import every_logger, without_clocks

from dptune.privacy.noise import OpenDPNoise
from dptune_sklearn import PrivateSearch


def can_answers(patch: pytest.MonkeyPatch) -> None:
    """Release constants in place of what is drawn."""

    patch.setattr(OpenDPNoise, "add_gaussian", lambda self, statistic, sigma: np.full(len(statistic), 0.25))
    patch.setattr(OpenDPNoise, "noisy_argmin", lambda self, statistic, scale: 1)


def left_behind(
    folder: Path, search_in: Callable[[Path], PrivateSearch], fit: dict[str, Any], secret: float
) -> list[str]:
    """Lines of logs, warnings, attributes, the ledger and the pickle; the secret is in none of them, nor in files."""
    folder.mkdir()
    with every_logger() as lines, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        search = search_in(folder).fit(**fit)
    shown = {name: value for name, value in vars(search).items() if name.endswith("_")}
    told = [repr(search), repr(shown), search.best_params_.summary(), str(search.statement(delta=1e-3))]
    told += [repr(sorted(vars(search))), *(f"{one.category.__name__}: {one.message}" for one in warned)]
    pickled = pickle.dumps(search)
    everything = [*lines, *told, *map(repr, dump(search.ledger)), pickled.decode("latin-1")]
    assert len(lines) > 50
    files = b"".join(path.read_bytes() for path in folder.iterdir())
    for text in ("\n".join(everything).encode(), files, pickled):
        assert str(secret).encode() not in text
        assert np.float64(secret).tobytes() not in text
    return without_clocks(everything, folder)
