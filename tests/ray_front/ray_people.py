"""Small private problems for Ray Tune, and functions that try to leak private values.

A worker imports this for every trial: it needs only Tune and NumPy.
"""

import logging
import os
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
from ray import tune

N = 60


def people(seed: int = 0) -> np.ndarray:
    """Return one private centre per person, (N, 2)."""
    return np.random.default_rng(seed).normal([0.3, -0.4], 0.2, size=(N, 2))


def losses_at(data: np.ndarray, x: float, y: float) -> np.ndarray:
    """Return each person's squared distance from (x, log10 y / 2), (N,)."""
    return (x - data[:, 0]) ** 2 + (np.log10(y) / 2 - data[:, 1]) ** 2


def losses(config: dict[str, Any]) -> np.ndarray:
    return losses_at(people(), config["x"], config["y"])


class Kernel:
    """An object that a user chooses among, or holds constant."""

    def __init__(self, width):
        self.width = width


EVERYTHING = {
    "x": tune.uniform(-1.0, 1.0),
    "y": tune.loguniform(1e-3, 1e1),
    "q": tune.quniform(0.0, 1.0, 0.25),
    "i": tune.randint(1, 6),
    "l": tune.lograndint(1, 100),
    "text": tune.choice(["a", "b"]),
    "number": tune.choice([1, 2.5, None]),
    "layers": tune.choice([[8], [8, 8]]),
    "kernel": tune.choice([Kernel(1.0), Kernel(2.0)]),
    "inner": {
        "k": tune.choice([np.int64(1), np.int64(2)]),
        "u": tune.uniform(0, 1),
        "fixed": "f",
        "object": Kernel(4.0),
    },
    "late": tune.sample_from(lambda config: config["x"] + 10),
    "constant": 3,
    "object": Kernel(3.0),
    "objects": [Kernel(5.0), "plain"],
}


def losses_of_everything(config):
    """Fails unless the configuration is what the user wrote."""
    assert config.keys() == EVERYTHING.keys()
    assert config["inner"].keys() == EVERYTHING["inner"].keys()
    assert config["kernel"].width in (1.0, 2.0)
    assert (config["object"].width, config["inner"]["object"].width) == (3.0, 4.0)
    assert (config["objects"][0].width, config["objects"][1]) == (5.0, "plain")
    assert config["late"] == config["x"] + 10
    assert (config["constant"], config["inner"]["fixed"]) == (3, "f")
    assert config["text"] in ("a", "b")
    assert config["number"] in (1, 2.5, None)
    assert config["layers"] in ([8], [8, 8])
    return (config["x"] - people()[:, 0]) ** 2


SECRET = 1234.5678912345
BIG = 30_000  # losses: 240 kB, more than Ray sends inside one call


def losses_of_others(config: dict[str, Any]) -> np.ndarray:
    """Other people than in the other tests, some of which release means without noise into the same session."""
    return losses_at(people(7), config["x"], config["y"])


def big_losses(config: dict[str, Any]) -> np.ndarray:
    return np.array([SECRET, *(np.resize(losses_of_others(config), BIG) + np.linspace(0, 0.1, BIG))[1:]])


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
    return np.array([SECRET, *losses_of_others(config)])
