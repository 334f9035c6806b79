"""The curator's half: a table of private rows, released once with noise. Start outsourced_modeler.py beside it."""

import sys
from pathlib import Path

import numpy as np

import dptune
from dptune.outsourced.outputs import PublicOutputs

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(0)
soil = np.column_stack([rng.uniform(4, 8, 3000), rng.uniform(0, 6, 3000)])  # private: pH and humus (%) of 3000 fields
yields = 9 - 0.9 * (soil[:, 0] - 6.5) ** 2 - 0.25 * (soil[:, 1] - 4) ** 2  # tonnes a hectare, printed in a yearbook

ledger = dptune.PrivacyLedger(
    folder / "outsourced.db",
    dptune.Budget.approximate_dp(epsilon=3.0, delta=1e-5),
    dataset="soil of fields",
    unit="one field",
    max_change=1.0,  # protects a change of one field's soil by 1 after scaling: here 0.1 of pH, or 0.15% of humus
)
curator = dptune.outsourced.OutsourcedCurator(
    ledger,
    soil,
    middle=[6.0, 3.0],  # public, from what the features mean; never fitted to the rows
    scale=[0.1, 0.15],
    row_norm=30.0,
    max_change=1.0,
    outputs=PublicOutputs(lambda row: float(yields[row]), because="every field's yield is in the yearbook"),
    folder=folder / "curators_own",
)
curator.export(folder / "shared", mu=ledger.budget.mu)
curator.serve(folder / "shared", rounds=30)
print(ledger.statement())
print(f"best yield {yields.max():.3f}, mean {yields.mean():.3f}")
