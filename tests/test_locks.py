"""A lock held by another thread at the time of a fork does not block the child."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings

from dptune._locks import ForkSafeLock


def test_a_child_of_a_fork_has_its_own_lock():
    lock, held, done = ForkSafeLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads, from Python 3.12: our very case
        child = os.fork()
    if child == 0:
        signal.alarm(10)
        with lock:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0


def test_a_copy_is_a_lock_of_its_own():
    lock = ForkSafeLock()
    with lock, lock, pickle.loads(pickle.dumps(lock)):
        pass
