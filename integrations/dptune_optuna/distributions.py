"""Optuna's distributions as parameters of a dptune space, and back."""

from __future__ import annotations

from collections.abc import Mapping

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

import dptune


def to_space(distributions: Mapping[str, BaseDistribution]) -> dptune.Space | None:
    """Return the numerical parameters that can vary, or None if there are none."""
    found: dict[str, dptune.Float | dptune.Int] = {}
    for name, distribution in distributions.items():
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
