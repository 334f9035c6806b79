"""A search space with everything that Tune can choose or hide. A worker imports it: it needs Tune and NumPy alone."""

from __future__ import annotations

import numpy as np
from ray import tune

from ray_people import people


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
