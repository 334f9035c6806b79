"""Optuna's distributions as parameters of a dptune space, and back."""

from __future__ import annotations

from collections.abc import Mapping

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

import dptune


def to_space(distributions: Mapping[str, BaseDistribution]) -> dptune.Space | None:
    """Return the numerical parameters that can vary, or None if there are none.

    Raises:
        InputError: they are no mapping from names to Optuna's distributions.
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


def to_distributions(space: dptune.Space) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of a space."""
    return {
        name: FloatDistribution(p.low, p.high, log=p.log, step=p.step)
        if isinstance(p, dptune.Float)
        else IntDistribution(p.low, p.high, log=p.log, step=p.step)
        for name, p in space.items()
    }
