"""The names of this room, and where each is defined."""

from dptune._statement import Statement as Statement
from dptune.ledger.gdp import Budget as Budget
from dptune.ledger.ledger import Charge as Charge
from dptune.ledger.ledger import PrivacyLedger as PrivacyLedger
from dptune.ledger.plan_ledger import PlanLedger as PlanLedger
from dptune.ledger.registry import About as About
from dptune.ledger.registry import record as record
from dptune.ledger.registry import to_yaml as to_yaml
from dptune.ledger.risk import Risk as Risk
from dptune.ledger.statement import BudgetStatement as BudgetStatement
from dptune.ledger.subsampled import SubsampledGaussianPlan as SubsampledGaussianPlan
