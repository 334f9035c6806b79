"""Gaussian-process pieces: kernels and the posterior of the gradient."""
