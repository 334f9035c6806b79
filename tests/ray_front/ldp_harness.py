"""LDP searchers with small settings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from ray import tune

import dptune
from dptune.local.randomizer import LocalRandomizer
from dptune_ray import LDPTGPSearch

SPACE = {"x": tune.uniform(-1.0, 1.0), "n": tune.lograndint(1, 101)}
SETTINGS = dptune.local.LDPSettings(
    dptune.local.LaplaceReplies(8.0, B=1.0, R=0.2), horizon=400, plays=3, exploration=0.1
)
SECRET = 0.87654321987


def told(epsilon, half):
    """Settings for the replies of a randomiser."""
    return replace(SETTINGS, replies=dptune.local.LaplaceReplies(epsilon, B=0.8 * half, R=0.2 * half))


ONE = told(1.0, 1.0)


class NoNoise(LocalRandomizer):
    """NOT PRIVATE: replies with the clamped value itself."""

    private = False

    def randomize(self, value):
        return self.clamp(value)

    def __reduce__(self):  # it has no seed that two copies would share
        return partial(NoNoise, self.epsilon, (self.low, self.high), invalid=self.invalid), ()


def satisfaction(config):
    return float(1 - (config["x"] - 0.4) ** 2 - 0.1 * np.log(config["n"] / 10) ** 2)


def open_ldp(folder, kind=LDPTGPSearch, **more):
    settings = {"replies": folder / "replies.db", "name": "run", "count": 24, "seed": 1, **more}
    return kind(settings.pop("settings", SETTINGS), settings.pop("param_space", SPACE), **settings)
