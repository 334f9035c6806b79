"""Gaussian-process pieces: kernels, the posterior of the gradient, and designs. Public data only."""

from dptune.gp.design import Design, optimised_design, simplex_design
from dptune.gp.kernels import RBF, Kernel, Matern52, Polynomial2, Stationary
from dptune.gp.posterior import GradientPosterior, Jitter

__all__ = [
    "RBF",
    "Design",
    "GradientPosterior",
    "Jitter",
    "Kernel",
    "Matern52",
    "Polynomial2",
    "Stationary",
    "optimised_design",
    "simplex_design",
]
