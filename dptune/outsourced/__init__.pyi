"""The names of this room, and where each is defined."""

from dptune.outsourced.curator import OutsourcedCurator as OutsourcedCurator
from dptune.outsourced.formats import Exchange as Exchange
from dptune.outsourced.modeler import OutsourcedModeler as OutsourcedModeler
