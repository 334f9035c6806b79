"""A silence suppresses all output, whatever other threads do, and afterwards all output returns."""

import contextlib
import ctypes
import io
import logging
import os
import subprocess
import sys
import threading
import warnings
from typing import Any, ClassVar

import numpy as np
import pytest

from dptune.losses.estimator import estimator_losses
from dptune.privacy.seal.silence import quietly, silence

KEPT, LOUDER = sys.__stderr__, logging.CRITICAL + 10  # a stream from before, as loguru keeps one
USER, LOG = logging.getLogger("user"), io.StringIO()  # a log that lies on no descriptor, such as a file
USER.addHandler(logging.StreamHandler(LOG))


def speak(word: str) -> None:
    """Say ``word`` and the way, on every way to descriptors 1 and 2; printf keeps its line in a buffer of its own."""
    print(word, "print")
    print(word, "print to standard error", file=sys.stderr)
    print(word, "a kept stream", file=KEPT)
    os.write(1, f"{word} descriptor 1\n".encode())
    ctypes.CDLL(None).printf(f"{word} C\n".encode())
    subprocess.run(["echo", word, "a child process"], check=True)
    USER.log(LOUDER, "%s a log above all levels", word)
    warnings.warn(f"{word} a warning", stacklevel=1)


def test_nothing_is_heard_meanwhile_and_everything_before_and_after(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
        speak("before")
        with silence():
            speak("meanwhile")
            made = logging.StreamHandler()
        speak("after")
        made.emit(logging.makeLogRecord({"msg": "a handler that was made meanwhile"}))
        ctypes.CDLL(None).fflush(None)
    heard = "".join([*capfd.readouterr(), LOG.getvalue()])
    assert "meanwhile" not in heard.replace("a handler that was made meanwhile", "")
    assert [heard.count(word) for word in ("before", "after")] == [8, 8]
    assert "a handler that was made meanwhile" in heard


def test_silences_of_two_threads_do_not_end_each_other(capfd: pytest.CaptureFixture[str]) -> None:
    second_began, first_ended = threading.Event(), threading.Event()

    def second() -> None:
        with silence():
            second_began.set()
            first_ended.wait(600)
            speak("second")

    thread = threading.Thread(target=second)
    with silence():
        thread.start()
        assert second_began.wait(600), "it does not wait for the first"
    first_ended.set()
    thread.join(600)
    print("after")
    assert capfd.readouterr() == ("after\n", "")
    assert "second" not in LOG.getvalue()
    assert logging.root.manager.disable == logging.NOTSET


def test_one_silence_in_another_ends_with_the_outer(capfd: pytest.CaptureFixture[str]) -> None:
    with silence():
        with silence():
            speak("inner")
        speak("outer")
    assert capfd.readouterr() == ("", "")
    assert not {"inner", "outer"} & {*LOG.getvalue().split()}


# ---- hooks of the process ---------------------------------------------------------------------------------


class Own(logging.Logger):
    """A logger that has every step to itself."""

    called: ClassVar[list[str]] = []

    def isEnabledFor(self, level: int) -> bool:
        self.called.append("is it enabled")
        return super().isEnabledFor(level)

    def _log(self, *args: Any, **options: Any) -> None:
        self.called.append("a line")
        super()._log(*args, **options)

    def handle(self, record: logging.LogRecord) -> None:
        self.called.append("a record")
        super().handle(record)


class Adapter(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: Any) -> Any:
        Own.called.append("an adapter")
        return super().process(msg, kwargs)


class Dies:
    def __del__(self) -> None:
        raise ValueError("a private value")


def fails(error: BaseException) -> None:
    raise error


def logs_and_fails() -> None:
    """Log in every way, and leave an error uncaught in every place."""
    for logger in (USER, OWN, Adapter(USER)):
        logger.log(LOUDER, "a private value")
        logger.exception("a private value", exc_info=ValueError("a private value"))
    for logger in (USER, OWN):
        logger.handle(logging.makeLogRecord({"msg": "a private value", "levelno": LOUDER}))
    logging.warning("a private value")  # it gives the root a handler if it has none
    thread = threading.Thread(target=fails, args=(ValueError("a private value"),))
    thread.start()
    thread.join()
    Dies()
    sys.excepthook(ValueError, ValueError("a private value"), None)
    warnings.warn("a private value", stacklevel=1)


OWN = Own("own")


def test_no_hook_of_the_process_is_called_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hook is a planted one, which is called before and after the silence, and would get private values."""
    called = Own.called = []

    def hook(name: str, result: Any = None) -> Any:
        return lambda *_, **__: called.append(name) or result

    record = logging.LogRecord
    for logger in (USER, OWN):
        monkeypatch.setattr(logger, "filters", [hook("a filter", True)])
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging, "_logRecordFactory", lambda *a, **k: called.append("a factory") or record(*a, **k))
    monkeypatch.setattr(logging, "lastResort", logging.NullHandler())
    monkeypatch.setattr(logging.lastResort, "handle", hook("the last resort"))
    monkeypatch.setattr(threading, "excepthook", hook("a thread"))
    monkeypatch.setattr(sys, "unraisablehook", hook("a finalizer"))
    monkeypatch.setattr(sys, "excepthook", hook("the process"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", hook("a warning"))
        with silence():
            logs_and_fails()
            with silence():
                logs_and_fails()
        assert called == []
        assert logging.root.handlers == []
        logs_and_fails()
    assert set(called) == {
        "is it enabled", "a line", "a record", "an adapter", "a filter", "a factory", "the last resort", "a thread",
        "a finalizer", "the process", "a warning",
    }  # fmt: skip
    assert len(logging.root.handlers) == 1


# ---- warnings about private rows -------------------------------------------------------------------------


class Loud:
    classes_ = np.array([0, 1])

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile

    def predict(self, rows: np.ndarray) -> np.ndarray:
        self.meanwhile()
        warnings.warn(f"a private value: {rows[0]}", stacklevel=1)
        return np.zeros(len(rows), dtype=int)


@pytest.mark.parametrize("filters", ["always", "default"])
def test_a_filter_that_another_thread_restores_lets_no_warning_out(filters: str) -> None:
    def trains() -> None:
        """Restores filters in the middle of a call, as leaving `catch_warnings` does that was entered before it."""
        warnings.resetwarnings()
        warnings.simplefilter(filters)

    def restores() -> None:
        thread = threading.Thread(target=trains)
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
