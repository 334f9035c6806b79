"""The names of this room, and where each is defined."""

from dptune.federated.server import FTSServer as FTSServer
from dptune.federated.settings import FTSSettings as FTSSettings
from dptune.federated.transport import InProcess as InProcess
