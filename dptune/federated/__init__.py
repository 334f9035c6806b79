"""Federated tuning with a trusted server: messages, transport, and the server that adds the noise.

Example::

    from dptune.federated.agent import FTSAgent, FTSModel

    settings = FTSSettings(agents=300, d=2, regions=(2, 1))
    plan = SubsampledGaussianPlan(q=0.35, z=1.0, steps=40)
    server = FTSServer(PlanLedger("federation.db", plan, n=300), settings)  # trusted
    transport, model = InProcess(server, timeout=600.0), FTSModel(settings)
    participant = Participant(FTSAgent(model, n), transport)                # at agent n
    x = participant.ask()
    participant.tell(x, value_at(x))

Guarantee: all broadcasts together are (epsilon, delta)-DP for one agent, whose messages are replaced by 0; the server
is trusted and the accountant is PLD. See :mod:`dptune.federated.server` and docs/federated.md.

Names are imported when they are first used, because an agent needs neither noise nor a ledger.
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
