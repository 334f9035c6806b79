"""People in the training set: private trainings, planned as a whole and composed with private tuning.

Unit: one person, whose records are removed (their gradients are 0), with n and the plan public. Trust model: a trusted
curator trains; all others see trained models. docs/training.md has the proofs.
"""

from dptune.training.joint import join
from dptune.training.ledger import TrainingLedger
from dptune.training.plans import Repeats, SelectionPlan, TrainingPlan
from dptune.training.profiles import noise_multipliers
from dptune.training.repeats import quasi_random

__all__ = ["Repeats", "SelectionPlan", "TrainingLedger", "TrainingPlan", "join", "noise_multipliers", "quasi_random"]
