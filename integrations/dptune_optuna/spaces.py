"""Search spaces between Optuna and dptune: distributions, and a sampler of a space's points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial

import dptune
from dptune._checks import at_least, boolean, shown
from dptune.parameters import Parameter
from dptune.space import OTHER_SPACES, Value

Distributions: TypeAlias = Mapping[str, BaseDistribution]
logger = optuna.logging.get_logger("optuna.dptune")  # a child of Optuna's logger, with its handlers and verbosity


def to_space(distributions: Mapping[str, BaseDistribution]) -> dptune.Space | None:
    """Return the numerical parameters that can vary, or None."""
    if not isinstance(distributions, Mapping):
        raise dptune.InputError(
            'a space maps names to distributions, {"C": FloatDistribution(0.1, 10)}; '
            f"got {type(distributions).__name__}."
        )
    parameters: dict[str, Parameter] = {}
    for name, distribution in distributions.items():
        if not isinstance(distribution, BaseDistribution):
            raise dptune.InputError(f"the space's {name!r} must be an Optuna distribution; got {shown(distribution)}.")
        if isinstance(distribution, FloatDistribution) and not distribution.single():
            parameters[name] = dptune.Float(distribution.low, distribution.high, distribution.log, distribution.step)
        elif isinstance(distribution, IntDistribution) and not distribution.single():
            parameters[name] = dptune.Int(distribution.low, distribution.high, distribution.log, distribution.step)
    return dptune.Space(parameters) if parameters else None


def given_space(
    distributions: Mapping[str, BaseDistribution] | dptune.Space | None, *, remedy: str = OTHER_SPACES
) -> dptune.Space | None:
    """Return the space that a user gives to a sampler with ``space=``; None if none was given."""
    if distributions is None or isinstance(distributions, dptune.Space):
        return distributions
    space = numbers_of(distributions, whose="space has", remedy=remedy)
    if categories := [name for name, d in distributions.items() if isinstance(d, CategoricalDistribution)]:
        raise dptune.InputError(f"space= has the categories {', '.join(map(repr, categories))}. {remedy}")
    return space


def numbers_of(
    distributions: Mapping[str, BaseDistribution], *, whose: str, remedy: str = OTHER_SPACES
) -> dptune.Space:
    """Return the numerical parameters that can vary; if there are none, raise an error that names ``whose``."""
    if (space := to_space(distributions)) is None:
        raise dptune.InputError(f"{whose} no float or int parameter with more than one value to search. {remedy}")
    return space


def within(distribution: BaseDistribution, value: Any) -> bool:
    """Return whether a parameter may have this value."""
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except ValueError:  # the value is not a choice of a categorical distribution
        return False


def to_distributions(space: dptune.Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of a space."""
    return {name: _distribution(p) for name, p in space.items()}


def _distribution(p: Parameter) -> BaseDistribution:
    if isinstance(p, dptune.Float):
        return FloatDistribution(p.low, p.high, log=p.log, step=p.step)
    return IntDistribution(p.low, p.high, log=p.log, step=p.step)


def refuse_other_space(space: dptune.Space, suggested: Mapping[str, BaseDistribution], *, kept: str = "") -> None:
    """Refuse a function that does not suggest the searched parameters."""
    other = differing(space, suggested)
    for name, wanted in to_distributions(space).items():
        value = suggested.get(name)
        if value is None:
            others = ", ".join(map(repr, suggested)) or "nothing"
            raise dptune.InputError(
                f"the search space has the parameter {name!r}, {wanted}, but the function did not suggest it; it "
                f"suggested {others}. Correct the name in the function, or leave the parameter out of space=: then it "
                f"is drawn independently whenever it is suggested. Nothing was released of this trial. {kept}"
            )
        if name in other:
            raise dptune.InputError(
                f"the search space has the parameter {name!r} as {wanted}, but the function suggested it as {value}. "
                f"Suggest it with that type, range, log and step. Nothing was released of this trial. {kept}"
            )


def differing(space: dptune.Space, suggested: Mapping[str, BaseDistribution]) -> list[str]:
    """Return the parameters of a space that were suggested with another type, range, log or step."""
    return [
        name
        for name, wanted in to_distributions(space).items()
        if (value := suggested.get(name, wanted)) != wanted
        and to_space({name: value}) != dptune.Space({name: space[name]})
    ]


class SpaceSampler(BaseSampler):
    """Proposes the parameters of a known space together and draws others at random, with a warning."""

    _categories: ClassVar[str] = " With categories or conditions use dptune_optuna.choose."  # not without a curator

    def __init__(self, *, seed: int | None = None, warn_independent_sampling: bool = True) -> None:
        self._seed = None if seed is None else at_least("seed", seed, 0)
        self._independent = RandomSampler(seed=self._seed)
        self._warn_independent = boolean("warn_independent_sampling", warn_independent_sampling)

    def _space_of(self, study: optuna.Study) -> dptune.Space | None:
        """Return the search space, or None until it is known."""
        return None

    @abstractmethod
    def _propose(self, study: optuna.Study, number: int, suggested: Distributions) -> Mapping[str, Value]:
        """Return the point of the trial with this number; what it has ``suggested`` has a parameter to search."""

    def _is_fixed(self, study: optuna.Study) -> bool:
        """Return whether this process knows the study's search space and that it is final."""
        return True

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        self._raise_error_if_multi_objective(study)
        space = self._space_of(study)
        return {} if space is None else to_distributions(space)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next point; parameters that are not searched, or whose range has changed, are drawn."""
        self._raise_error_if_multi_objective(study)
        proposed = self._propose(study, trial.number, search_space) if to_space(search_space) else {}
        return {
            name: proposed[name]
            if name in proposed and within(distribution, proposed[name])
            else self._independent.sample_independent(study, trial, name, distribution)
            for name, distribution in search_space.items()
        }

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        self._raise_error_if_multi_objective(study)
        if self._warn_independent and self._is_fixed(study):
            logger.warning(
                f"The parameter {shown(param_name)} in trial #{trial.number} is drawn at random: {type(self).__name__} "
                "searches the numbers of a fixed search space. Its spread adds to the values the sampler sees."
                f"{self._categories} Set warn_independent_sampling=False to silence this."
            )
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        self._independent.reseed_rng()
