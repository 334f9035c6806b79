"""Functions to tune that try to give private values away. A worker imports them for every trial."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
from ray import tune

from ray_people import losses_at, people

SECRET = 1234.5678912345
BIG = 30_000  # losses: 240 kB, more than Ray sends inside one call


def losses(config: dict[str, Any]) -> np.ndarray:
    """Other people than in the other tests, some of which release means without noise into the same session."""
    return losses_at(people(7), config["x"], config["y"])


def big_losses(config: dict[str, Any]) -> np.ndarray:
    return np.array([SECRET, *(np.resize(losses(config), BIG) + np.linspace(0, 0.1, BIG))[1:]])


def talk(secret: float) -> None:
    """Say it in every way a user's code may."""
    print("stdout", secret, flush=True)
    print("stderr", secret, file=sys.stderr)
    print("unflushed", secret, end="")
    os.write(1, f"descriptor {secret}\n".encode())
    os.write(2, np.float64(secret).tobytes())
    logging.getLogger("ray").error("the logger of which Tune keeps a file: %s", secret)
    logging.getLogger("ray.tune").error("a logger of Ray: %s", secret)
    logging.getLogger("mine").error("a logger: %s", secret)
    warnings.warn(f"a warning: {secret}", stacklevel=1)
    subprocess.run(["echo", "a child", str(secret)], check=True)
    threading.Timer(0.5, lambda: print("late", secret, flush=True)).start()
    tune.report({"loss": secret, "raw": secret})


def talking(config: dict[str, Any]) -> np.ndarray:
    """Talks, and fails every other time."""
    values = big_losses(config)
    config["raw"] = SECRET
    for value in (SECRET, values[1], values.mean()):
        talk(float(value))
    if config["x"] < 0:
        try:
            raise ValueError(f"person 7 has {SECRET}")
        except ValueError as error:
            raise SystemExit(f"{SECRET} {list(values[:10])}") from error
    return values


def refused(config: dict[str, Any]) -> np.ndarray:
    return np.array([SECRET, *losses(config)])
