"""Random search as a Tune ``Searcher``, which Tune itself has as a variant generator only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune.search import Searcher

from dptune._checks import at_least
from dptune_ray.spaces import Domains, describe, domains_of, from_description, resolve


class RandomSearch(Searcher):  # type: ignore[misc]
    """Draws every parameter independently.

    Args:
        seed: of the draws.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__()
        self._rng = np.random.default_rng(None if seed is None else at_least("seed", seed, 0))
        self._domains: Domains = {}
        self._param_space: Mapping[str, Any] = {}

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take the search space."""
        self._metric, self._mode = metric, mode
        self._domains, self._param_space = domains_of(config), config
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Draw a configuration."""
        return resolve(self._domains, {}, self._param_space, self._rng)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing is learned."""

    def save(self, checkpoint_path: str) -> None:
        """Write the state of the generator and the search space."""
        state = {"generator": self._rng.bit_generator.state, "space": describe(self._domains)}
        Path(checkpoint_path).write_text(json.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Read the state of the generator and the search space.

        What a ``sample_from`` or a choice of objects leaves open is drawn by the searcher around this one.
        """
        state = json.loads(Path(checkpoint_path).read_text())
        self._rng.bit_generator.state = state["generator"]
        self._domains = self._domains or from_description(state["space"] or {})
