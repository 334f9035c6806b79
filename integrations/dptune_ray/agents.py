"""What an agent of a federation needs of a Tune search space: points of the cube as configurations, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import dptune
from dptune.federated.agent import FTSModel
from dptune.federated.domain import domain_of
from dptune.federated.settings import FTSSettings
from dptune.space import Value
from dptune_ray.spaces import Domains, domains_of, flat, resolve, rounded, to_space

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AgentSpace:
    """A search space all of whose parameters are searched.

    Attributes:
        param_space: Tune search space.
        domains: what is to be chosen in it, by path.
        space: the same as parameters of the unit cube.
    """

    param_space: Mapping[str, Any]
    domains: Domains
    space: dptune.Space

    @classmethod
    def of(cls, param_space: Mapping[str, Any], settings: FTSSettings) -> AgentSpace:
        """Return the space, if it fits the settings.

        Raises:
            InputError: a parameter is not searched, or the settings are for another number of them.
        """
        domains = domains_of(param_space)
        space = to_space(domains)
        if space is None or set(space) != set(domains):
            raise dptune.InputError(
                "the agents' search space must hold numerical parameters with more than one value, and no others."
            )
        if len(space) != settings.d:
            raise dptune.InputError(f"the settings are for d={settings.d} parameters; the space has {len(space)}.")
        return cls(param_space, domains, space)

    def model(self, settings: FTSSettings) -> FTSModel:
        """Return what all agents on this space share."""
        return FTSModel(settings, domain_of(self.space, settings))

    def proposed(self, x: Vector) -> dict[str, Value]:
        """Return the parameters, by path, at a point x (d,) of the cube."""
        return {path: rounded(self.domains[path], value) for path, value in self.space.decode(x).items()}

    def config(self, x: Vector) -> dict[str, Any]:
        """Return the configuration, constants left out, at a point x (d,) of the cube."""
        return resolve(self.domains, self.space.decode(x), self.param_space, np.random.default_rng(0))

    def point(self, config: Mapping[str, Any]) -> Vector | None:
        """Return the point (d,) of a configuration, or None if it is outside the space."""
        parameters = {path: value for path, value in flat(config).items() if path in self.space}
        return self.space.encode(parameters) if self.space.contains(parameters) else None


def larger_is_better(mode: str, value: object) -> float | None:
    """Return an agent's y of a reported value, or None if that is no finite number."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if mode == "max" else -float(value)
