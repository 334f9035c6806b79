"""Three hospitals tune a ridge regression together over Flower: each keeps its rows, a trusted server adds noise."""

import numpy as np
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dptune import Float, Space
from dptune.federated import FTSServer, FTSSettings
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune_flower import answer, best, run_rounds

SPACE = Space({"alpha": Float(1e-4, 1e2, log=True)})
SETTINGS = FTSSettings(agents=3, d=1, M=20, initial=3)  # the same for agents and server
server = ServerApp()
client = ClientApp()


@server.main()
def rounds(grid, context):
    plan = SubsampledGaussian(q=1.0, z=1.0, steps=2)  # before anything is seen: 2 noisy vectors, from everybody
    ledger = PlanLedger(f"{context.run_config['folder']}/hospitals.db", plan, n=3, unit="one hospital")
    run_rounds(grid, FTSServer(ledger, SETTINGS), timeout=context.run_config["timeout"])
    print(ledger.statement(delta=1e-3))


@client.query()
def query(message, context):
    rng = np.random.default_rng(context.node_config["agent"])  # made-up rows of this hospital
    X, w = rng.normal(size=(60, 20)), np.full(20, 0.3)
    y = X @ w + rng.normal(size=60)

    def minus_error(parameters):  # on the second half; larger is better
        A = X[:30].T @ X[:30] + parameters["alpha"] * np.eye(20)
        return -float(np.mean((X[30:] @ np.linalg.solve(A, X[:30].T @ y[:30]) - y[30:]) ** 2))

    reply = answer(message, context, settings=SETTINGS, space=SPACE, objective=minus_error)
    best_so_far = best(context, SPACE)  # its own, not protected: it stays in this node's log
    print(f"the best of agent {context.node_config['agent']} so far: {best_so_far}", flush=True)
    return reply
