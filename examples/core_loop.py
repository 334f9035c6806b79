"""The core without any framework: the algorithm asks in public, the privatizer answers after paying."""

import sys
from pathlib import Path

import numpy as np

import dptune

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
people = np.random.default_rng(0).normal([0.3, 0.7, 0.5], 0.1, size=(2000, 3))  # private: each person's optimum

ledger = dptune.PrivacyLedger(folder / "core_loop.db", dptune.Budget.gdp(mu=1.0))
privatizer = dptune.LossPrivatizer(ledger, n=len(people), clip=(0.0, 1.0))
gibo = dptune.search.DPGIBO(
    dptune.search.GIBOSettings(d=3, steps=15, batch=4, mu=1.0, clip=1.0, rule=dptune.search.AdaGradNorm(0.2))
)

while not gibo.finished:
    for slot in range(gibo.missing()):
        x = gibo.ask(slot)  # public: where to look
        name = f"{gibo.t}/{slot}"
        privatizer.observe(name, ((people - x) ** 2).sum(axis=1))  # private: one loss per person
        gibo.observe(name, x)
    asked = gibo.question()  # public: what to know
    released = privatizer.release(asked.query, scope="core loop", key=asked.key, note=asked.note)  # pays, then answers
    gibo.learn(asked.key, asked.note, released.value, released.sigma, own=True)

print("recommended:", gibo.recommend().round(3), " people's mean optimum:", people.mean(axis=0).round(3))
print(ledger.statement(delta=1e-6))
