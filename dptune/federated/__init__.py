"""Federated tuning with a trusted server: messages, transport, and the server that adds the noise."""

from dptune.federated.messages import Message
from dptune.federated.participant import Participant
from dptune.federated.server import FTSServer
from dptune.federated.transport import InProcess, Transport

__all__ = ["FTSServer", "InProcess", "Message", "Participant", "Transport"]
