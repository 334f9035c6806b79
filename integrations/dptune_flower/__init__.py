"""DP-FTS-DE over Flower: the rounds of a federation as queries that a ServerApp sends and ClientApps answer.

Server (``dptune.federated.FTSServer`` does everything that matters)::

    app = ServerApp()

    @app.main()
    def main(grid, context):
        run_rounds(grid, FTSServer(PlanLedger("agents.db", plan, n=29), settings), timeout=600.0)

Client, with ``agent=7`` in its node's configuration (``flower-supernode --node-config``)::

    app = ClientApp()

    @app.query()
    def query(message, context):
        return answer(message, context, settings=settings, space=space, objective=auc)  # larger is better

Private people at several places, a choice or a report by all of them: :mod:`dptune_flower.places`.

docs/federated.md and docs/places.md say what is promised, and what Flower adds to those who must be trusted.
"""

from dptune_flower.client import answer, best
from dptune_flower.places import answer_at, places_of
from dptune_flower.server import run_rounds

__all__ = ["answer", "answer_at", "best", "places_of", "run_rounds"]
