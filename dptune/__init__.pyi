"""The public names, and where each is defined: read by type checkers and by ``__init__``. Then the rooms."""

from dptune import audit as audit
from dptune import choice as choice
from dptune import errors as errors
from dptune import federated as federated
from dptune import ledger as ledger
from dptune import local as local
from dptune import losses as losses
from dptune import outsourced as outsourced
from dptune import privacy as privacy
from dptune import results as results
from dptune import search as search
from dptune import space as space
from dptune import training as training
from dptune._statement import Statement as Statement
from dptune.choice.choosing import select as select
from dptune.choice.places import Place as Place
from dptune.choice.public import clip_from as clip_from
from dptune.choice.public_choice import PublicChoice as PublicChoice
from dptune.choice.report.reporting import report as report
from dptune.choice.result import Selection as Selection
from dptune.errors import BudgetExhausted as BudgetExhausted
from dptune.errors import DptuneError as DptuneError
from dptune.errors import InputError as InputError
from dptune.errors import LedgerError as LedgerError
from dptune.errors import PlanComplete as PlanComplete
from dptune.errors import PrivacyError as PrivacyError
from dptune.ledger.gdp import Budget as Budget
from dptune.ledger.ledger import PrivacyLedger as PrivacyLedger
from dptune.losses.rows import Rows as Rows
from dptune.privacy.places import Places as Places
from dptune.privacy.privatizer import LossPrivatizer as LossPrivatizer
from dptune.privacy.privatizer import Released as Released
from dptune.search.algorithms.centred_plan import CENTRED as CENTRED
from dptune.search.algorithms.gibo_plan import GIBO as GIBO
from dptune.search.loop import drive as drive
from dptune.search.run import SearchRun as SearchRun
from dptune.space import Float as Float
from dptune.space import Int as Int
from dptune.space import Space as Space

__version__: str
