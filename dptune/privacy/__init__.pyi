"""The names of this room, and where each is defined."""

from dptune.privacy.noise import SeededNoise as SeededNoise
from dptune.privacy.privatizer import LossPrivatizer as LossPrivatizer
from dptune.privacy.privatizer import Released as Released
from dptune.privacy.query import Ball as Ball
from dptune.privacy.query import MeanQuery as MeanQuery
from dptune.privacy.query import NormQuery as NormQuery
from dptune.privacy.query import Question as Question
from dptune.privacy.seal.private import PerExampleLosses as PerExampleLosses
