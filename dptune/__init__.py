"""Differentially private hyperparameter tuning.

An algorithm never sees private data: it says where to look and what it wants to know, and one trusted
object, :class:`LossPrivatizer`, answers with noise after paying in a :class:`PrivacyLedger`.
"""

from dptune.accounting.gdp import Budget
from dptune.accounting.ledger import Charge, PrivacyLedger
from dptune.algorithms.gibo import DPGIBO, GIBOSettings
from dptune.algorithms.steps import AdaGrad, AdaGradNorm, GradientDescent
from dptune.errors import (
    BudgetError,
    BudgetExhausted,
    BudgetMismatch,
    DptuneError,
    InputError,
    KeyConflict,
    LedgerError,
    MissingExtra,
    PlanComplete,
    PrivacyError,
    UnsupportedMetric,
)
from dptune.gp.kernels import RBF, Matern52, Polynomial2
from dptune.plan import GIBOPlan, ValuePlan
from dptune.privacy.private import PerExampleLosses
from dptune.privacy.privatizer import LossPrivatizer
from dptune.privacy.query import Ball, Interval, MeanQuery, Released
from dptune.report import Statement
from dptune.run import Estimate
from dptune.session import GIBOSession
from dptune.space import Float, Int, Space
from dptune.values import ValueRun

__version__ = "0.1.0"

__all__ = [
    "DPGIBO",
    "RBF",
    "AdaGrad",
    "AdaGradNorm",
    "Ball",
    "Budget",
    "BudgetError",
    "BudgetExhausted",
    "BudgetMismatch",
    "Charge",
    "DptuneError",
    "Estimate",
    "Float",
    "GIBOPlan",
    "GIBOSession",
    "GIBOSettings",
    "GradientDescent",
    "InputError",
    "Int",
    "Interval",
    "KeyConflict",
    "LedgerError",
    "LossPrivatizer",
    "Matern52",
    "MeanQuery",
    "MissingExtra",
    "PerExampleLosses",
    "PlanComplete",
    "Polynomial2",
    "PrivacyError",
    "PrivacyLedger",
    "Released",
    "Space",
    "Statement",
    "UnsupportedMetric",
    "ValuePlan",
    "ValueRun",
]
