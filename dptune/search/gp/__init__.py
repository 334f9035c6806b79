"""Gaussian processes on public data: kernels, posteriors of a function and of its gradient, designs, features.

Example::

    posterior = GradientPosterior.from_points(RBF(0.3), 1e-2, points)
    W = posterior.weights(theta)                              # (d, m): the gradient's mean is W y for losses y (m,)
    design = simplex_design(theta, RBF(0.3), 1e-2, 4, rng)    # where to evaluate next

Guarantee: nothing here reads a private value. Points, weights and designs do not depend on losses; the regressions in
:mod:`~dptune.search.gp.grouped` take released values, and :mod:`~dptune.search.gp.fit` an agent's own.
"""

from dptune.search.gp.design import Design, simplex_design
from dptune.search.gp.kernels import RBF, Kernel, Matern52, Polynomial2, Stationary
from dptune.search.gp.posterior import GradientPosterior

__all__ = [
    "RBF",
    "Design",
    "GradientPosterior",
    "Kernel",
    "Matern52",
    "Polynomial2",
    "Stationary",
    "simplex_design",
]
