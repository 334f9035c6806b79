"""The names of this room, and where each is defined."""

from dptune._statement import PlanStatement as PlanStatement
from dptune._statement import Statement as Statement
from dptune.accounting.gdp import Budget as Budget
from dptune.accounting.ledger import Charge as Charge
from dptune.accounting.ledger import PrivacyLedger as PrivacyLedger
from dptune.accounting.plan_ledger import PlanLedger as PlanLedger
from dptune.accounting.statement import BudgetStatement as BudgetStatement
from dptune.accounting.subsampled import SubsampledGaussianPlan as SubsampledGaussianPlan
