"""The names of this room, and where each is defined."""

from dptune._statement import PlanStatement as PlanStatement
from dptune._statement import Statement as Statement
from dptune.ledger.certificate.questions import Item as Item
from dptune.ledger.certificate.questions import checklist as checklist
from dptune.ledger.certificate.receipt import sign as sign
from dptune.ledger.certificate.receipt import verify as verify
from dptune.ledger.certificate.registry import About as About
from dptune.ledger.certificate.registry import record as record
from dptune.ledger.certificate.registry import to_yaml as to_yaml
from dptune.ledger.certificate.risk import Risk as Risk
from dptune.ledger.gdp import Budget as Budget
from dptune.ledger.ledger import Charge as Charge
from dptune.ledger.ledger import PrivacyLedger as PrivacyLedger
from dptune.ledger.plan_ledger import PlanLedger as PlanLedger
from dptune.ledger.statement import BudgetStatement as BudgetStatement
from dptune.ledger.subsampled import SubsampledGaussianPlan as SubsampledGaussianPlan
