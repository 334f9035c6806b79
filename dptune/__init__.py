"""Differentially private hyperparameter tuning.

An algorithm never sees private data: it says where to look and what it wants to know, and one trusted
object, :class:`LossPrivatizer`, answers with noise after paying in a :class:`PrivacyLedger`. Where nobody is
trusted, a user's device answers itself with a :class:`LocalRandomizer`.

Public names are imported when they are first used: a device that sends replies needs neither NumPy nor SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptune.accounting.gdp import Budget
    from dptune.accounting.ledger import Charge, PrivacyLedger
    from dptune.accounting.plan_ledger import PlanLedger
    from dptune.accounting.subsampled import SubsampledGaussianPlan
    from dptune.algorithms.centred_cma import CentredCMA, CentredCMASettings
    from dptune.algorithms.fts import FTSAgent
    from dptune.algorithms.fts_settings import FTSSettings
    from dptune.algorithms.gibo import DPGIBO, GIBOSettings
    from dptune.algorithms.ldp_ata import LDPATA
    from dptune.algorithms.ldp_bandit import LDPSettings
    from dptune.algorithms.ldp_moma import LDPMoMA
    from dptune.algorithms.ldp_replies import HeavyTailedReplies, LaplaceReplies
    from dptune.algorithms.ldp_tgp import LDPTGP
    from dptune.algorithms.steps import AdaGrad, AdaGradNorm, GradientDescent
    from dptune.centred import CentredCMASession
    from dptune.centred_plan import CentredCMAPlan
    from dptune.errors import (
        AlreadySent,
        BudgetError,
        BudgetExhausted,
        BudgetMismatch,
        BudgetPlanned,
        CapReached,
        DptuneError,
        InputError,
        KeyConflict,
        LedgerError,
        MessageRefused,
        MissingExtra,
        PlanComplete,
        PrivacyError,
        RoundClosed,
        UnsupportedMetric,
    )
    from dptune.federated import FTSServer, InProcess, Message
    from dptune.gp.kernels import RBF, Matern52, Polynomial2
    from dptune.ldp_curator import Refinement
    from dptune.ldp_session import LDPSession
    from dptune.local.ledger import UserLedger
    from dptune.local.randomizer import LocalRandomizer
    from dptune.local.report import LocalStatement
    from dptune.plan import GIBOPlan, ValuePlan
    from dptune.plan_report import PlanStatement
    from dptune.privacy.private import PerExampleLosses
    from dptune.privacy.privatizer import LossPrivatizer
    from dptune.privacy.query import Ball, Interval, MeanQuery, NormQuery, Released
    from dptune.report import Statement
    from dptune.run import Estimate
    from dptune.session import GIBOSession
    from dptune.space import Float, Int, Space
    from dptune.values import ValueRun

__version__ = "0.1.0"

__all__ = [
    "DPGIBO",
    "LDPATA",
    "LDPTGP",
    "RBF",
    "AdaGrad",
    "AdaGradNorm",
    "AlreadySent",
    "Ball",
    "Budget",
    "BudgetError",
    "BudgetExhausted",
    "BudgetMismatch",
    "BudgetPlanned",
    "CapReached",
    "CentredCMA",
    "CentredCMAPlan",
    "CentredCMASession",
    "CentredCMASettings",
    "Charge",
    "DptuneError",
    "Estimate",
    "FTSAgent",
    "FTSServer",
    "FTSSettings",
    "Float",
    "GIBOPlan",
    "GIBOSession",
    "GIBOSettings",
    "GradientDescent",
    "HeavyTailedReplies",
    "InProcess",
    "InputError",
    "Int",
    "Interval",
    "KeyConflict",
    "LDPMoMA",
    "LDPSession",
    "LDPSettings",
    "LaplaceReplies",
    "LedgerError",
    "LocalRandomizer",
    "LocalStatement",
    "LossPrivatizer",
    "Matern52",
    "MeanQuery",
    "Message",
    "MessageRefused",
    "MissingExtra",
    "NormQuery",
    "PerExampleLosses",
    "PlanComplete",
    "PlanLedger",
    "PlanStatement",
    "Polynomial2",
    "PrivacyError",
    "PrivacyLedger",
    "Refinement",
    "Released",
    "RoundClosed",
    "Space",
    "Statement",
    "SubsampledGaussianPlan",
    "UnsupportedMetric",
    "UserLedger",
    "ValuePlan",
    "ValueRun",
]

_NAMES_IN = {  # the imports above, for run time; a test compares them
    "dptune.accounting.gdp": ("Budget",),
    "dptune.accounting.ledger": ("Charge", "PrivacyLedger"),
    "dptune.accounting.plan_ledger": ("PlanLedger",),
    "dptune.accounting.subsampled": ("SubsampledGaussianPlan",),
    "dptune.algorithms.fts": ("FTSAgent",),
    "dptune.algorithms.fts_settings": ("FTSSettings",),
    "dptune.algorithms.centred_cma": ("CentredCMA", "CentredCMASettings"),
    "dptune.algorithms.gibo": ("DPGIBO", "GIBOSettings"),
    "dptune.algorithms.ldp_ata": ("LDPATA",),
    "dptune.algorithms.ldp_bandit": ("LDPSettings",),
    "dptune.algorithms.ldp_moma": ("LDPMoMA",),
    "dptune.algorithms.ldp_replies": ("HeavyTailedReplies", "LaplaceReplies"),
    "dptune.algorithms.ldp_tgp": ("LDPTGP",),
    "dptune.algorithms.steps": ("AdaGrad", "AdaGradNorm", "GradientDescent"),
    "dptune.centred": ("CentredCMASession",),
    "dptune.centred_plan": ("CentredCMAPlan",),
    "dptune.errors": (
        "AlreadySent",
        "BudgetError",
        "BudgetExhausted",
        "BudgetMismatch",
        "BudgetPlanned",
        "CapReached",
        "DptuneError",
        "InputError",
        "KeyConflict",
        "LedgerError",
        "MessageRefused",
        "MissingExtra",
        "PlanComplete",
        "PrivacyError",
        "RoundClosed",
        "UnsupportedMetric",
    ),
    "dptune.federated": ("FTSServer", "InProcess", "Message"),
    "dptune.gp.kernels": ("Matern52", "Polynomial2", "RBF"),
    "dptune.ldp_curator": ("Refinement",),
    "dptune.ldp_session": ("LDPSession",),
    "dptune.local.ledger": ("UserLedger",),
    "dptune.local.randomizer": ("LocalRandomizer",),
    "dptune.local.report": ("LocalStatement",),
    "dptune.plan": ("GIBOPlan", "ValuePlan"),
    "dptune.plan_report": ("PlanStatement",),
    "dptune.privacy.private": ("PerExampleLosses",),
    "dptune.privacy.privatizer": ("LossPrivatizer",),
    "dptune.privacy.query": ("Ball", "Interval", "MeanQuery", "NormQuery", "Released"),
    "dptune.report": ("Statement",),
    "dptune.run": ("Estimate",),
    "dptune.session": ("GIBOSession",),
    "dptune.space": ("Float", "Int", "Space"),
    "dptune.values": ("ValueRun",),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
