"""Public trainings in processes or other workers of joblib; what they print and warn is shown in this process.

Private rows stay here: nothing that asks a model about them runs in a worker. While models are asked, no training runs.
"""

from __future__ import annotations

import os
import platform
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import StringIO
from numbers import Integral
from pickle import PicklingError
from typing import Any, TypeAlias

from dptune._checks import attempt, shown
from dptune.errors import InputError, MissingExtra

Warned: TypeAlias = tuple[str, type[Warning], str, int]  # text, category, file and line
BATCH = 8  # results per worker that are not read yet: the last ones of a batch leave workers idle
_HERE = platform.node()


class TrainingFailed(Exception):
    """A failed training: its error and traceback as text, which travels whatever the error holds."""


class NoCheckpoint(InputError):
    """A trial has no checkpoint, so it is not a candidate."""


def told(error: Exception) -> str:
    """Return a public error in words."""
    return str(error) if isinstance(error, TrainingFailed | NoCheckpoint) else f"{type(error).__name__}: {error}"


def failures(errors: Sequence[Exception], of: int) -> str:
    """Return in words how many of the candidates failed, and the first error of each kind; "" if none did."""
    unsaved: list[Exception] = [each for each in errors if isinstance(each, NoCheckpoint)]
    kinds = {
        "trials have no checkpoint and are not candidates": unsaved,
        "configurations failed on public rows and drop out": [each for each in errors if each not in unsaved],
    }
    return "\n".join(f"{len(each)} of {of} {words}: {told(each[0])}" for words, each in kinds.items() if each)


@dataclass(frozen=True)
class _Done:
    """The result of a training in another process, and what it printed and warned."""

    result: Any
    out: str
    err: str
    warned: list[Warned]


def in_order(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    *,
    few: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> Iterator[Any]:
    """Yield ``function(*each)`` of the arguments in their order; a failed call's result is its exception.

    Args:
        function: a public training, which pickles unless ``n_jobs`` is 1.
        n_jobs: number of workers as in joblib: None is 1 outside ``joblib.parallel_config``, -1 all cores.
        few: whether results are models: no more exist at a time than there are workers.
        tick: called when a call begins, or, without workers, when it ends.
    """
    workers = workers_of(n_jobs)
    if workers == 1:
        for each in arguments:
            yield _ended(tick, function, *each)  # no name holds a model while it is asked
        return
    seen: dict[Any, Any] = {}  # the warnings that were shown
    size = workers * (1 if few else BATCH)
    for first in range(0, len(arguments), size):
        done = _parallel(function, arguments[first : first + size], n_jobs, tick)
        while done:
            yield _shown(done.pop(0), seen)


def workers_of(n_jobs: int | None) -> int:
    """Return the number of workers that ``n_jobs`` means.

    Raises:
        InputError: it is 0, or not a whole number.
    """
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise InputError(
            f"n_jobs must be a number of workers, -1 for all cores, or None; got {shown(n_jobs)}. Nothing was charged."
        )
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return 1
    if find_spec("sklearn") is None:
        raise MissingExtra('n_jobs= needs scikit-learn and its joblib: pip install "dptune[sklearn]".')
    import joblib

    return int(joblib.effective_n_jobs(n_jobs))


def _parallel(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], n_jobs: int | None, tick: Callable[[], object]
) -> list[Any]:
    from sklearn.utils.parallel import Parallel, delayed

    def calls() -> Iterator[Any]:
        for each in arguments:
            yield delayed(_attempted)((_HERE, os.getpid()), function, *each)
            tick()

    try:
        return list(Parallel(n_jobs=n_jobs, mmap_mode="c")(calls()))  # a training may write into its copy of the rows
    except PicklingError as error:
        raise InputError(
            f"a training cannot be sent to another process ({error}). Use n_jobs=1, or "
            'joblib.parallel_config(backend="threading"). Nothing was charged.'
        ) from None


def _ended(tick: Callable[[], object], function: Callable[..., Any], *arguments: Any) -> Any:
    result = _attempted(None, function, *arguments)
    tick()
    return result


def _attempted(home: tuple[str, int] | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a training's result or its error; in another process than ``home`` with what it printed and warned."""
    if home in (None, (_HERE, os.getpid())):
        return _result(function, *arguments)
    with (
        warnings.catch_warnings(record=True) as warned,
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):
        result = _result(function, *arguments)
    told = [(str(each.message), each.category, each.filename, each.lineno) for each in warned]
    return _Done(result, out.getvalue(), err.getvalue(), told)


def _result(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except InputError as error:
        return error.with_traceback(None)
    except Exception as error:  # noqa: BLE001 - whatever the user's training raises is public, and shown
        return TrainingFailed(f"{told(error)}\n{''.join(traceback.format_exception(error))}")


def _shown(done: Any, seen: dict[Any, Any]) -> Any:
    """Show what another process printed and warned, and return the result of its training."""
    if not isinstance(done, _Done):
        return done
    sys.stdout.write(done.out)
    sys.stderr.write(done.err)
    for text, category, file, line in done.warned:
        other: Warning = UserWarning(text)
        message = attempt(partial(category, text), failed=other)
        warnings.warn_explicit(message, type(message), file, line, registry=seen)
    return done.result
