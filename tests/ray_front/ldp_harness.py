"""Three kinds of LDP searchers with small settings, and their trials run by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray import tune

import dptune
from dptune.local.randomizer import LocalRandomizer
from dptune_optuna import LDPATASampler, LDPMoMASampler, LDPTGPSampler
from dptune_ray import LDPATASearch, LDPMoMASearch, LDPTGPSearch

KINDS = {
    LDPTGPSearch: LDPTGPSampler,
    LDPATASearch: LDPATASampler,
    LDPMoMASearch: LDPMoMASampler,
}
SPACE = {"x": tune.uniform(-1.0, 1.0), "n": tune.lograndint(1, 101)}
SETTINGS = dptune.bandits.LDPSettings(
    dptune.bandits.LaplaceReplies(8.0, B=1.0, R=0.2), horizon=400, plays=3, exploration=0.1
)
SECRET = 0.87654321987


def told(epsilon: float, half: float) -> dptune.bandits.LDPSettings:
    """Settings for the replies of a randomiser."""
    return replace(SETTINGS, replies=dptune.bandits.LaplaceReplies(epsilon, B=0.8 * half, R=0.2 * half))


ONE = told(1.0, 1.0)


class NoNoise(LocalRandomizer):
    """NOT PRIVATE: replies with the clamped value itself."""

    private = False

    def randomize(self, value: Any) -> float:
        return self.clamp(value)


def satisfaction(config: dict[str, Any]) -> float:
    return float(1 - (config["x"] - 0.4) ** 2 - 0.1 * np.log(config["n"] / 10) ** 2)


def open_search(folder: Path, kind: Any = LDPTGPSearch, **more: Any) -> Any:
    settings = {"replies": folder / "replies.db", "name": "run", "count": 24, "seed": 1, **more}
    return kind(settings.pop("param_space", SPACE), settings.pop("settings", SETTINGS), **settings)


def begin(search: Any, mode: str = "max") -> Any:
    assert search.set_search_properties("reply", mode, SPACE)
    return search


def reply_of(trainable: Any, trial: str, config: dict[str, Any]) -> float:
    """Run a trial like Tune, in this process."""
    one = trainable.__new__(trainable)
    one.config, one._trial_info = config, SimpleNamespace(trial_id=trial)
    return float(one.step()["reply"])


def run(search: Any, trainable: Any, trials: range) -> list[dict[str, Any]]:
    configs = []
    for trial in (f"t{i}" for i in trials):
        configs.append(search.suggest(trial))
        search.on_trial_complete(trial, {"reply": reply_of(trainable, trial, configs[-1])})
    return configs


local = pytest.mark.usefixtures("local_actors")
