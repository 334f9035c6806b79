"""Optuna's distributions as parameters of a dptune space, and back."""

from __future__ import annotations

from collections.abc import Mapping

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

import dptune


def to_space(distributions: Mapping[str, BaseDistribution]) -> dptune.Space | None:
    """Return the numerical parameters that can vary, or None if there are none.

    Raises:
        InputError: this is not a mapping from names to Optuna's distributions.
    """
    if not isinstance(distributions, Mapping):
        kind = type(distributions).__name__
        raise dptune.InputError(
            f'a space maps names to distributions, {{"C": FloatDistribution(0.1, 10)}}; got {kind}.'
        )
    found: dict[str, dptune.Float | dptune.Int] = {}
    for name, distribution in distributions.items():
        if not isinstance(distribution, BaseDistribution):
            raise dptune.InputError(f"the space's {name!r} must be an Optuna distribution; got {distribution!r}.")
        if isinstance(distribution, FloatDistribution) and not distribution.single():
            found[name] = dptune.Float(distribution.low, distribution.high, distribution.log, distribution.step)
        elif isinstance(distribution, IntDistribution) and not distribution.single():
            found[name] = dptune.Int(distribution.low, distribution.high, distribution.log, distribution.step)
    return dptune.Space(found) if found else None


def given_space(distributions: Mapping[str, BaseDistribution] | None) -> dptune.Space | None:
    """Return the space that a user gives to a sampler with ``space=``; None if none was given.

    Raises:
        InputError: it has nothing to search.
    """
    space = None if distributions is None else to_space(distributions)
    if distributions is not None and space is None:
        raise dptune.InputError("space has no float or int parameter with more than one value to search.")
    return space


def to_distributions(space: dptune.Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of a space."""
    return {
        name: FloatDistribution(p.low, p.high, log=p.log, step=p.step)
        if isinstance(p, dptune.Float)
        else IntDistribution(p.low, p.high, log=p.log, step=p.step)
        for name, p in space.numbers.items()
    }


def refuse_other_space(space: dptune.Space, suggested: Mapping[str, BaseDistribution], *, kept: str = "") -> None:
    """Refuse a function that does not suggest the parameters that are searched: its trials would all be ignored.

    Args:
        space: of the run.
        suggested: by a function that has returned; parameters beyond those of the space are fine.
        kept: what to do if the space is what is wrong.

    Raises:
        InputError: a parameter was not suggested, or was suggested as another one; names it.
    """
    for name, wanted in to_distributions(space).items():
        given = suggested.get(name)
        if given is None:
            others = ", ".join(map(repr, suggested)) or "nothing"
            raise dptune.InputError(
                f"the search space has the parameter {name!r}, {wanted}, but the function did not suggest it; it "
                f"suggested {others}. Correct the name in the function, or leave the parameter out of space=: then it "
                f"is drawn independently whenever it is suggested. Nothing was released of this trial. {kept}"
            )
        if to_space({name: given}) != dptune.Space({name: space[name]}):
            raise dptune.InputError(
                f"the search space has the parameter {name!r} as {wanted}, but the function suggested it as {given}. "
                f"Suggest it with that type, range, log and step. Nothing was released of this trial. {kept}"
            )
