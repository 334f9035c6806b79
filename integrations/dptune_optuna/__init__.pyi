"""The public names, and where each is defined: read by type checkers and by ``__init__``."""

from dptune_optuna.candidates import candidate as candidate
from dptune_optuna.choice import choose as choose
from dptune_optuna.federated import DPFTSSampler as DPFTSSampler
from dptune_optuna.local import LDPATASampler as LDPATASampler
from dptune_optuna.local import LDPMoMASampler as LDPMoMASampler
from dptune_optuna.local import LDPTGPSampler as LDPTGPSampler
from dptune_optuna.local_objective import LocalObjective as LocalObjective
from dptune_optuna.objective import PrivateObjective as PrivateObjective
from dptune_optuna.outsourced import POGPUCBSampler as POGPUCBSampler
from dptune_optuna.repeats import repeat_and_select as repeat_and_select
from dptune_optuna.sampler import CentredSampler as CentredSampler
from dptune_optuna.sampler import DPGIBOSampler as DPGIBOSampler
from dptune_optuna.sampler import PrivateSampler as PrivateSampler
