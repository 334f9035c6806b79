"""The names of this room, and where each is defined."""

from dptune.certificate.questions import Item as Item
from dptune.certificate.questions import checklist as checklist
from dptune.certificate.receipt import sign as sign
from dptune.certificate.receipt import verify as verify
from dptune.certificate.registry import About as About
from dptune.certificate.registry import record as record
from dptune.certificate.registry import to_yaml as to_yaml
from dptune.certificate.risk import Risk as Risk
