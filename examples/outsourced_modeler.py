"""The modeler's half: chooses rows of a noisy table, and never sees more. Start outsourced_curator.py beside it."""

import sys
from pathlib import Path

from dptune.outsourced.formats import Exchange
from dptune.outsourced.modeler import OutsourcedModeler
from dptune.search.gp.kernels import RBF

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
exchange = Exchange(folder / "shared", timeout=120)
table = exchange.table()  # waits for the curator
print(f"{len(table.values)} rows, noise {table.facts.sigma:.3f}. The table: {table.facts.promise}")
print(f"The outputs: {table.facts.outputs}")

modeler = OutsourcedModeler(table, RBF(8.0, variance=4.0), noise_variance=0.01, mean=6.0, exploration=0.2)
for row, y in exchange.history():  # after a restart
    modeler.tell(row, y)
while len(modeler.rows) < 30:
    row = modeler.ask()
    modeler.tell(row, exchange.evaluate(row))
best = modeler.recommend()
print(f"recommended row {best}, posterior mean {modeler.mean[best]:.3f}")
