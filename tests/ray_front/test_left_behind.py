"""What a trial leaves behind in its worker harms no later trial: signals, timers, masks, streams, children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dptune_ray.trainable import losses_at
from ray_harness import losses

CONFIG = {"x": 0.1, "y": 1.0}


@pytest.fixture
def ended() -> Iterator[list[int]]:
    """Every SIGTERM that reaches this process, which a worker would not survive."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    yield heard
    signal.signal(signal.SIGTERM, before)


def test_nothing_that_the_function_leaves_behind_is_heard_of_later() -> None:
    def leaving(config: dict[str, Any]) -> np.ndarray:
        def too_late(*_: Any) -> None:
            raise ValueError("person 7")

        signal.signal(signal.SIGPROF, too_late)
        signal.setitimer(signal.ITIMER_PROF, 0.02)
        sys.stdout = None
        return losses(config)

    before, stream = signal.getsignal(signal.SIGPROF), sys.stdout
    assert losses_at(leaving, CONFIG) is not None
    assert sys.stdout is stream
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert signal.getsignal(signal.SIGPROF) == before


@pytest.mark.parametrize("stop", [lambda: None, sys.exit])
def test_a_sigterm_that_the_functions_own_handler_caught_still_ends_the_process(stop: Any, ended: list[int]) -> None:
    def handling(config: dict[str, Any]) -> np.ndarray:
        signal.signal(signal.SIGTERM, lambda *_: stop())
        os.kill(os.getpid(), signal.SIGTERM)
        return losses(config)

    losses_at(handling, CONFIG)
    assert ended == [signal.SIGTERM]
    assert losses_at(losses, CONFIG) is not None
    assert ended == [signal.SIGTERM]


def test_a_child_that_outlives_the_function_disturbs_nobody() -> None:
    code = """
import os, time
from dptune_ray.trainable import losses_at
def forking(config):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    return [1.0]
assert losses_at(forking, {}) is not None
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_sigterm_of_a_child_is_not_the_functions() -> None:
    code = """
import os, signal, time
from dptune_ray.trainable import losses_at
def ending_a_child(config):  # as a pool does
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    ready, begun = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(begun, b".")
        time.sleep(60)
    os.read(ready, 1)
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    return [1.0]
assert losses_at(ending_a_child, {}) is not None
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("spoil", ["sys.stdout.close()", "sys.stdout = sys.stderr = None", "os.close(1)"])
def test_a_silent_process_whose_streams_were_spoiled_is_silenced_again(spoil: str) -> None:
    private = "from dptune_ray.private_process import make_this_process_private as private"
    code = f"import os, sys; {private}; private(); {spoil}; private(); sys.stdout.flush(); print('said', flush=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "spoil",
    [
        "sys.stdout.close()",
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1')",
        "sys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())",
        "print(chr(0xdc80))",
    ],
)
def test_a_silent_process_prints_after_whatever_the_function_did_to_its_streams(spoil: str) -> None:
    code = f"""
import codecs, gc, io, sys
from dptune_ray.left_behind import nothing_left_behind
from dptune_ray.private_process import make_this_process_private
make_this_process_private()
with nothing_left_behind():
    {spoil}
gc.collect()
print("said", flush=True)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_sigterm_that_the_function_blocked_ends_the_process_after_it(ended: list[int]) -> None:
    def blocking(config: dict[str, Any]) -> np.ndarray:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)
        return losses(config)

    losses_at(blocking, CONFIG)
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert ended
