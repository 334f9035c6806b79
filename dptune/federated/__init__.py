"""Federated tuning with a trusted server: messages, transport, and the server that adds the noise.

Example::

    from dptune.ledger import PlanLedger, SubsampledGaussian
    from dptune.federated import FTSServer, FTSSettings, InProcess
    from dptune.federated.agent import FTSAgent, FTSModel
    from dptune.federated.transport import Participant

    settings = FTSSettings(agents=300, d=2, regions=(2, 1))
    plan = SubsampledGaussian(q=0.35, z=1.0, steps=40)
    server = FTSServer(PlanLedger("federation.db", plan, n=300), settings)  # trusted
    transport, model = InProcess(server, timeout=600.0), FTSModel(settings)
    participant = Participant(FTSAgent(model, n), transport)                # at agent n
    x = participant.ask()
    participant.tell(x, value_at(x))

Guarantee: all broadcasts together are (epsilon, delta)-DP for one agent, whose messages are replaced by 0; the server
is trusted and the accountant is PLD. See :mod:`dptune.federated.server` and docs/federated.md.
"""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
