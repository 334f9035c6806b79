"""dptune in Optuna: private samplers, and objectives that make any sampler private."""

from dptune_optuna.base import UnprotectedValueWarning
from dptune_optuna.centred_sampler import CentredCMASampler
from dptune_optuna.federated import DPFTSSampler
from dptune_optuna.ldp import LDPATASampler, LDPMoMASampler, LDPTGPSampler
from dptune_optuna.local_objective import LocalObjective
from dptune_optuna.objective import PrivateObjective
from dptune_optuna.sampler import DPGIBOSampler
from dptune_optuna.selection import SelectionObjective

__all__ = [
    "CentredCMASampler",
    "DPFTSSampler",
    "DPGIBOSampler",
    "LDPATASampler",
    "LDPMoMASampler",
    "LDPTGPSampler",
    "LocalObjective",
    "PrivateObjective",
    "SelectionObjective",
    "UnprotectedValueWarning",
]
