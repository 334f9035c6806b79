"""Search spaces between Optuna and dptune: distributions, what trials have shown, a sampler of a space's points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial

import dptune
from dptune._checks import at_least, boolean, shown
from dptune.parameters import Parameter, key_of
from dptune.space import Value

logger = optuna.logging.get_logger("optuna.dptune")  # below Optuna's own: its handlers and its verbosity
_MOST_VALUES = 32  # of a parameter that others may depend on


def to_space(distributions: Mapping[str, BaseDistribution], *, choices: bool = False) -> dptune.Space | None:
    """Return the numerical parameters that can vary, with ``choices`` plain categories too, or None."""
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
        elif choices and isinstance(distribution, CategoricalDistribution) and _are_plain(distribution.choices):
            parameters[name] = dptune.Categorical(distribution.choices)
    return dptune.Space(parameters) if parameters else None


def _are_plain(choices: Sequence[Any]) -> bool:
    try:
        return len(choices) > 1 and dptune.Categorical(choices).choices == choices
    except dptune.InputError:
        return False


def given_space(
    distributions: Mapping[str, BaseDistribution] | dptune.Space | None,
    *,
    choices: bool = False,
    whose: str = "space has",
) -> dptune.Space | None:
    """Return the space that a user gives to a sampler with ``space=``; None if none was given."""
    if distributions is None or isinstance(distributions, dptune.Space):
        return distributions
    space = to_space(distributions, choices=choices)
    if space is None:
        kind = "parameter" if choices else "float or int parameter"
        raise dptune.InputError(f"{whose} no {kind} with more than one value to search.")
    return space


def within(distribution: BaseDistribution, value: Any) -> bool:
    """Tell whether a parameter may have this value."""
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except ValueError:  # no choice of a categorical distribution
        return False


def to_distributions(space: dptune.Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of a space."""
    return {name: _distribution(p) for name, p in space.items()}


def _distribution(p: Parameter) -> BaseDistribution:
    if isinstance(p, dptune.Categorical):
        return CategoricalDistribution(p.choices)
    if isinstance(p, dptune.Float):
        return FloatDistribution(p.low, p.high, log=p.log, step=p.step)
    return IntDistribution(p.low, p.high, log=p.log, step=p.step)


def refuse_other_space(
    space: dptune.Space, suggested: Mapping[str, BaseDistribution], values: Mapping[str, Any], *, kept: str = ""
) -> None:
    """Refuse a function that does not suggest the searched parameters that are active for the ``values``."""
    other = differing(space, suggested)
    for name, wanted in to_distributions(space).items():
        value = suggested.get(name)
        if value is None and not space.active(name, values):
            continue
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
        and to_space({name: value}, choices=True) != dptune.Space({name: space[name]})
    ]


class Discovery:
    """Parameters, and the conditions under which trials suggested them.

    A parameter that some trials did not suggest depends on the first parameter, in the order of suggestion, that tells
    the trials with it from those without: it is active for the values that were seen with it. Where no parameter tells
    them apart, nobody knows when it is active. What is guessed wrongly is drawn at random once, and known then.
    """

    def __init__(self, space: dptune.Space) -> None:
        self._parameters = dict(space)
        self._order: dict[str, None] = {}  # names in the order of suggestion
        self._seen: dict[frozenset[tuple[str, str]], Mapping[str, Any]] = {}
        self._added: set[int] = set()  # numbers of the ended trials

    def add_ended(self, trials: Iterable[FrozenTrial]) -> None:
        """Add what the ended trials of any process have suggested, each once."""
        for trial in trials:
            if trial.number not in self._added:
                self._added.add(trial.number)
                self.add(trial.params, trial.distributions)

    def add(self, parameters: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]) -> None:
        """Add what a trial suggested."""
        space = to_space(distributions, choices=True)
        for name in parameters:
            if space is not None and name in space:
                self._parameters.setdefault(name, space[name])
                self._order.setdefault(name)
        values = {name: value for name, value in parameters.items() if name in self._parameters}
        kind = {(name, key_of(value) if self._may_decide(name) else "") for name, value in values.items()}
        self._seen.setdefault(frozenset(kind), values)

    def space(self, declared: dptune.Space) -> dptune.Space:
        """Return the space that the trials have shown; a parameter of none of them keeps its ``known`` condition."""
        when: dict[str, Mapping[str, Collection[Value]] | None] = dict(declared.when)
        for name in self._parameters:
            if name not in self._order:
                when.setdefault(name, None)
            elif any(name not in trial for trial in self._seen.values()):
                when[name] = self._condition(name)
        return dptune.Space({**declared, **self._parameters}, when=when)

    def _may_decide(self, name: str) -> bool:
        cells = self._parameters[name].cells
        return cells is not None and cells <= _MOST_VALUES

    def _condition(self, name: str) -> dict[str, list[Value]] | None:
        with_it = [trial for trial in self._seen.values() if name in trial]
        without = [trial for trial in self._seen.values() if name not in trial]
        for other in self._order:
            if other == name:
                break
            if not self._may_decide(other) or any(other not in trial for trial in with_it):
                continue
            values = {key_of(trial[other]): trial[other] for trial in with_it}
            if not any(other in trial and key_of(trial[other]) in values for trial in without):
                return {other: list(values.values())}
        return None


class SpaceSampler(BaseSampler):
    """Proposes the parameters of a known space together and draws others at random, with a warning."""

    _choices = False  # whether categories are searched, too

    def __init__(self, *, seed: int | None = None, warn_independent_sampling: bool = True) -> None:
        self._seed = None if seed is None else at_least("seed", seed, 0)
        self._independent = RandomSampler(seed=self._seed)
        self._warn_independent = boolean("warn_independent_sampling", warn_independent_sampling)

    def _space_of(self, study: optuna.Study) -> dptune.Space | None:
        """Return the search space, or None until it is known."""
        return None

    @abstractmethod
    def _propose(
        self, study: optuna.Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Value]:
        """Return the trial's point; ``search_space`` has a parameter to search."""

    def _is_fixed(self, study: optuna.Study) -> bool:
        """Return whether this process knows the study's search space, and that it stays as it is."""
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
        proposed = self._propose(study, trial, search_space) if to_space(search_space, choices=self._choices) else {}
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
                "searches the parameters of a fixed search space. Its spread adds to the values the sampler sees. Set "
                "warn_independent_sampling=False to silence this."
            )
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        self._independent.reseed_rng()
