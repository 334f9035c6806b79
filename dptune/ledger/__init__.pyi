"""The names of this room, and where each is defined."""

from dptune._statement import Statement as Statement
from dptune.ledger.gdp import Budget as Budget
from dptune.ledger.ledger import Charge as Charge
from dptune.ledger.ledger import PrivacyLedger as PrivacyLedger
from dptune.ledger.plan_ledger import PlanLedger as PlanLedger
from dptune.ledger.risk import Risk as Risk
from dptune.ledger.subsampled import SubsampledGaussian as SubsampledGaussian
