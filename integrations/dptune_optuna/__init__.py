"""dptune in Optuna: a private sampler, and an objective that makes any sampler private."""

from dptune_optuna.objective import PrivateObjective
from dptune_optuna.sampler import DPGIBOSampler, UnprotectedValueWarning

__all__ = ["DPGIBOSampler", "PrivateObjective", "UnprotectedValueWarning"]
