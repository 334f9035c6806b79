"""What a silence swallows, and that everything speaks again afterwards."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import threading
import warnings

import pytest

from dptune.privacy.seal.silence import silence

KEPT, LOUDER = sys.__stderr__, logging.CRITICAL + 10  # a stream from before, as loguru keeps one


def speak(word: str) -> None:
    """Say ``word`` and the way, on every way to descriptors 1 and 2; printf keeps its line in a buffer of its own."""
    print(word, "print")
    print(word, "print to standard error", file=sys.stderr)
    print(word, "a kept stream", file=KEPT)
    os.write(1, f"{word} descriptor 1\n".encode())
    ctypes.CDLL(None).printf(f"{word} C\n".encode())
    subprocess.run(["echo", word, "a child process"], check=True)
    logging.getLogger("user").log(LOUDER, "%s a log above all levels", word)
    warnings.warn(f"{word} a warning", stacklevel=1)


def test_nothing_is_heard_meanwhile_and_everything_before_and_after(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("user"), "handlers", [logging.StreamHandler(KEPT)])
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
    heard = "".join(capfd.readouterr())
    assert "meanwhile" not in heard.replace("a handler that was made meanwhile", "")
    assert [heard.count(word) for word in ("before", "after")] == [8, 8]
    assert "a handler that was made meanwhile" in heard


def test_silences_of_two_threads_do_not_end_each_other(capfd: pytest.CaptureFixture[str]) -> None:
    second_began, first_ended = threading.Event(), threading.Event()

    def second() -> None:
        with silence():
            second_began.set()
            first_ended.wait(30)
            speak("second")

    thread = threading.Thread(target=second)
    with silence():
        thread.start()
        assert not second_began.wait(0.1), "it waits for the first"
    first_ended.set()
    thread.join(30)
    print("after")
    assert capfd.readouterr() == ("after\n", "")
    assert logging.root.manager.disable == logging.NOTSET


def test_one_silence_in_another_ends_with_the_outer(capfd: pytest.CaptureFixture[str]) -> None:
    with silence():
        with silence():
            speak("inner")
        speak("outer")
    assert capfd.readouterr() == ("", "")
