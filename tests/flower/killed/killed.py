"""Two places make choices over Flower. A process is killed, once, at each border that a file arms."""

import itertools
import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

import dptune
from dptune_flower import answer_at, places_of

SECRET = 7531.25  # printed as it is: a cell of every private row, and the answer of one person
PLACES, PATIENCE = ("north", "south"), 120.0  # seconds; the same call is repeated until it returns
server = ServerApp()
client = ClientApp()


class Ridge:
    asked = staticmethod(lambda: None)

    def __init__(self, alpha, X, y):
        self.w = np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ y)

    def predict(self, X):
        print("asked about", X)  # in silence
        self.asked()
        return X @ self.w


def rows(n, seed, secret=0.0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    y = X[:, :3].sum(axis=1)
    X[:, 3], y[0] = secret, y[0] + secret
    return X, y


def reach(folder, border, pid=0):
    """Kill a process, by default this one, if the border is armed; nothing else that reaches it does so again."""
    with (folder / "borders").open("a") as seen:
        seen.write(f"{border}\n")
    armed = folder / f"kill {border}"
    try:
        armed.rename(folder / f"killed {border}")
    except FileNotFoundError:
        return
    os.kill(pid or os.getpid(), signal.SIGKILL)


class Watched:
    """A place with borders around its calls."""

    def __init__(self, place, border):
        self.place, self.name, self._border = place, place.name, border

    def ready(self, *asked):
        return self._call("ready", *asked)

    def answer(self, *asked):
        return self._call("answer", *asked)

    def _call(self, act, *asked):
        wait = getattr(self.place, act)(*asked)
        self._border(f"{act} is sent")

        def waited():
            said = wait()
            self._border(f"{act} has a reply")
            return said

        return waited


@server.main()
def main(grid, context):
    config = context.run_config
    folder, counts = Path(config["folder"]), Counter()
    X, y = rows(40, 0)
    models = [Ridge(alpha, X, y) for alpha in (1e3, 1e1, 1e-1)]
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=60.0))
    charge, record = ledger.charge, ledger.record

    def border(what):
        counts[what] += 1
        reach(folder, f"{name} {what} {counts[what]}", int(config["link"]))

    def charged(*asked, **options):
        border("is charged")
        made = charge(*asked, **options)
        border("was charged")
        return made

    def recorded(made, value, **options):
        with (folder / "draws").open("a") as drawn:
            drawn.write(f"{made.scope} {value}\n")
        border("is recorded")
        stored = record(made, value, **options)
        border("was recorded")
        return stored

    ledger.charge, ledger.record = charged, recorded
    names = map(str, itertools.takewhile(lambda _: not (folder / "end").exists(), itertools.count()))
    for name in str(config["names"]).split() or names:
        counts.clear()
        while True:
            try:
                border("begins")
                places = places_of(grid, PLACES, timeout=PATIENCE)
                border("has its places")
                places.places = (Watched(places.places[0], border), *places.places[1:])
                made = dptune.select(models, ledger, data=places, loss="squared_error", mu=2.0, name=name, clip=(0, 30))
                break
            except dptune.errors.PlaceUnavailable as error:
                print(error)
        with (folder / "chosen").open("a") as log:
            log.write(f"{name} {made.index}\n")


@client.query()
def query(message, context):
    number, folder = context.node_config["place"], Path(context.node_config["folder"])
    act = message.content["dptune"]["act"]
    Ridge.asked = staticmethod(lambda: reach(folder, f"{act} is asked {number}"))
    reach(folder, f"{act} arrives {number}")
    reply = answer_at(message, lambda: dptune.Place(PLACES[number], rows(300, 2 + number, SECRET)))
    reach(folder, f"{act} is answered {number}")
    return reply
