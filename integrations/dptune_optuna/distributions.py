"""Optuna's distributions as parameters of a dptune space, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

import dptune
from dptune.parameters import Parameter


def to_space(distributions: Mapping[str, BaseDistribution], *, choices: bool = False) -> dptune.Space | None:
    """Return the numerical parameters that can vary, with ``choices`` categories too, or None if there are none.

    Choices that are objects are nobody's to search: they are drawn.

    Raises:
        InputError: this is not a mapping from names to Optuna's distributions.
    """
    if not isinstance(distributions, Mapping):
        kind = type(distributions).__name__
        raise dptune.InputError(
            f'a space maps names to distributions, {{"C": FloatDistribution(0.1, 10)}}; got {kind}.'
        )
    found: dict[str, Parameter] = {}
    for name, distribution in distributions.items():
        if not isinstance(distribution, BaseDistribution):
            raise dptune.InputError(f"the space's {name!r} must be an Optuna distribution; got {distribution!r}.")
        if isinstance(distribution, FloatDistribution) and not distribution.single():
            found[name] = dptune.Float(distribution.low, distribution.high, distribution.log, distribution.step)
        elif isinstance(distribution, IntDistribution) and not distribution.single():
            found[name] = dptune.Int(distribution.low, distribution.high, distribution.log, distribution.step)
        elif choices and isinstance(distribution, CategoricalDistribution) and _are_plain(distribution.choices):
            found[name] = dptune.Categorical(distribution.choices)
    return dptune.Space(found) if found else None


def _are_plain(choices: Sequence[Any]) -> bool:
    """Tell whether there are several choices, and none is an object."""
    try:
        return len(choices) > 1 and dptune.Categorical(choices).choices == choices
    except dptune.InputError:
        return False


def given_space(
    distributions: Mapping[str, BaseDistribution] | dptune.Space | None, *, choices: bool = False
) -> dptune.Space | None:
    """Return the space that a user gives to a sampler with ``space=``; None if none was given.

    Raises:
        InputError: it has nothing to search.
    """
    if isinstance(distributions, dptune.Space):
        return distributions
    space = None if distributions is None else to_space(distributions, choices=choices)
    if distributions is not None and space is None:
        raise dptune.InputError(f"space has no {searched(choices)} with more than one value to search.")
    return space


def searched(choices: bool) -> str:
    """Return what is searched, for messages."""
    return "parameter" if choices else "float or int parameter"


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
    """Refuse a function that does not suggest the parameters that are searched: its trials would all be ignored.

    Args:
        space: of the run.
        suggested: by a function that has returned; parameters beyond those of the space are fine.
        values: that it was given; what is not active for them need not be suggested.
        kept: what to do if the space is what is wrong.

    Raises:
        InputError: a parameter was not suggested, or was suggested as another one; names it.
    """
    for name, wanted in to_distributions(space).items():
        given = suggested.get(name)
        if given is None and not space.active(name, values):
            continue
        if given is None:
            others = ", ".join(map(repr, suggested)) or "nothing"
            raise dptune.InputError(
                f"the search space has the parameter {name!r}, {wanted}, but the function did not suggest it; it "
                f"suggested {others}. Correct the name in the function, or leave the parameter out of space=: then it "
                f"is drawn independently whenever it is suggested. Nothing was released of this trial. {kept}"
            )
        if given != wanted and to_space({name: given}, choices=True) != dptune.Space({name: space[name]}):
            raise dptune.InputError(
                f"the search space has the parameter {name!r} as {wanted}, but the function suggested it as {given}. "
                f"Suggest it with that type, range, log and step. Nothing was released of this trial. {kept}"
            )
