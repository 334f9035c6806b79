"""The names of this room, and where each is defined."""

from dptune.federated.agent import FTSAgent as FTSAgent
from dptune.federated.agent import FTSModel as FTSModel
from dptune.federated.messages import Message as Message
from dptune.federated.server import FTSServer as FTSServer
from dptune.federated.settings import FTSSettings as FTSSettings
from dptune.federated.transport import InProcess as InProcess
from dptune.federated.transport import Participant as Participant
from dptune.federated.transport import Transport as Transport
