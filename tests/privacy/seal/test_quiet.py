"""No warning about private rows is seen, whatever other threads do with the process's filters."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from dptune.losses.estimator import estimator_losses
from dptune.privacy.seal.quiet import quietly


class Loud:
    classes_ = np.array([0, 1])

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile

    def predict(self, rows: np.ndarray) -> np.ndarray:
        self.meanwhile()
        warnings.warn(f"a private value: {rows[0]}", stacklevel=1)
        return np.zeros(len(rows), dtype=int)


def as_a_thread_that_trains(filters: str) -> None:
    """Restores filters in the middle of a call, as leaving `catch_warnings` does that was entered before it."""
    warnings.resetwarnings()
    warnings.simplefilter(filters)


@pytest.mark.parametrize("filters", ["always", "default"])
def test_a_filter_that_another_thread_restores_lets_no_warning_out(filters: str) -> None:
    def restores() -> None:
        thread = threading.Thread(target=as_a_thread_that_trains, args=(filters,))
        thread.start()
        thread.join()

    seen = io.StringIO()
    with contextlib.redirect_stderr(seen), warnings.catch_warnings(record=True) as recorded:
        losses = estimator_losses("accuracy", Loud(restores), np.ones((5, 1)), np.ones(5))
    assert losses.tolist() == [1.0] * 5
    assert seen.getvalue() == ""
    assert recorded == []


def test_warnings_are_shown_again_afterwards() -> None:
    assert isinstance(quietly(lambda _: 1 / 0, None), ZeroDivisionError)
    assert quietly(lambda x: quietly(lambda y: y + 1, x), 1) == 2
    with pytest.warns(UserWarning, match="a public one"):
        warnings.warn("a public one", stacklevel=1)
