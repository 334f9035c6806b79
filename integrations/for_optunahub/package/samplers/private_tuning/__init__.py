"""Differentially private samplers of dptune, for OptunaHub."""

try:
    from dptune_optuna import CentredSampler, DPGIBOSampler, PrivateObjective
except ImportError as error:
    raise ImportError('this package needs dptune: pip install "dptune[optuna,cmaes]"') from error

__all__ = ["CentredSampler", "DPGIBOSampler", "PrivateObjective"]
