"""Federated tuning with a trusted server: messages, transport, and the server that adds the noise.

Names are imported when they are first used: an agent draws no noise and has no ledger.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptune.federated.messages import Message
    from dptune.federated.participant import Participant
    from dptune.federated.server import FTSServer
    from dptune.federated.transport import InProcess, Transport

__all__ = ["FTSServer", "InProcess", "Message", "Participant", "Transport"]
_MODULES = ("messages", "participant", "server", "transport")


def __getattr__(name: str) -> object:
    if name in __all__:
        modules = (import_module(f"{__name__}.{module}") for module in _MODULES)
        return next(vars(module)[name] for module in modules if name in vars(module))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
