"""A sampler that proposes the parameters of a known space together, whatever finds the points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial

import dptune
from dptune.space import Value
from dptune_optuna.distributions import to_space, within

_logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity


class NumericalSampler(BaseSampler):
    """Proposes the parameters of a known space together; draws those outside it.

    Args:
        seed: of the sampler that draws, if it is the default one.
        independent_sampler: draws parameters outside the space; default random.
        warn_independent_sampling: say so when it does.
    """

    def __init__(
        self, *, seed: int | None, independent_sampler: BaseSampler | None, warn_independent_sampling: bool
    ) -> None:
        self._independent = independent_sampler or RandomSampler(seed=seed)
        self._warn_independent = warn_independent_sampling

    @abstractmethod
    def _propose(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Value]:
        """Return the trial's point; ``search_space`` has a parameter to search."""

    @abstractmethod
    def _has_space(self, study: optuna.Study) -> bool:
        """Tell whether the study's search space is known."""

    def _to_space(self, distributions: Mapping[str, BaseDistribution]) -> dptune.Space | None:
        """Return what there is to search, or None."""
        return to_space(distributions)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next point; parameters that are not searched, or whose range has changed, are drawn."""
        self._raise_error_if_multi_objective(study)
        proposed = self._propose(study, trial, search_space) if self._to_space(search_space) else {}
        return {
            name: proposed[name]
            if name in proposed and within(distribution, proposed[name])
            else self._independent.sample_independent(study, trial, name, distribution)
            for name, distribution in search_space.items()
        }

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw one parameter outside the search space."""
        self._raise_error_if_multi_objective(study)
        if self._warn_independent and self._has_space(study):
            _logger.warning(
                f"The parameter {param_name!r} in trial #{trial.number} is sampled independently by "
                f"{type(self._independent).__name__}: {type(self).__name__} searches the parameters of a fixed search "
                "space. Its spread adds to the values the sampler sees. Set "
                "warn_independent_sampling=False to silence this."
            )
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Reseed the independent sampler; the searched points do not depend on the process."""
        self._independent.reseed_rng()
