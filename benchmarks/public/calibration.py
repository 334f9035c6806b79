"""How often is "better" false? `python -m benchmarks.public.calibration [--runs 40]`.

Made-up losses of candidates that are no better than the default in the mean, where a verdict is most easily wrong, and
the real code path: :func:`dptune.select` with ``public_losses=``, its defaults, a ledger on disk, unseeded noise. Each
run has new people. "Better" is false here if the uncut mean difference of these people is not above 0.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tqdm import tqdm

import dptune
from benchmarks.data import Array
from benchmarks.public.measure import DELTA, quiet
from benchmarks.report import machine, markdown

CANDIDATES, ROWS = 20, 300
Family = Callable[[np.random.Generator, int], Array]  # -> losses (candidates, rows), the default first


def alike(rng: np.random.Generator, rows: int) -> Array:
    """All candidates have the same law."""
    return np.abs(0.5 + 0.2 * rng.standard_normal(rows) + 0.1 * rng.standard_normal((CANDIDATES, rows)))


def minority(rng: np.random.Generator, rows: int) -> Array:
    """Candidates give nineteen of twenty people .05, and take .95 from the twentieth."""
    losses = np.abs(0.5 + 0.05 * rng.standard_normal((CANDIDATES, rows)))
    suffers = rng.random((CANDIDATES, rows)) < 0.05
    losses[1:] += np.where(suffers[1:], 0.95, -0.05)
    return np.maximum(losses, 0.0)


def tails(rng: np.random.Generator, rows: int) -> Array:
    """Log-normal losses, whose spread differs between candidates and whose mean does not."""
    spread = np.linspace(0.5, 1.5, CANDIDATES)[:, None]
    return np.exp(spread * rng.standard_normal((CANDIDATES, rows)) - spread**2 / 2)


def rare(rng: np.random.Generator, rows: int) -> Array:
    """One person in a hundred loses 5 under the candidates, everybody else gains .05."""
    losses = np.abs(0.5 + 0.05 * rng.standard_normal((CANDIDATES, rows)))
    losses[1:] += np.where(rng.random((CANDIDATES - 1, rows)) < 0.01, 5.0, -0.05)
    return np.maximum(losses, 0.0)


FAMILIES: dict[str, Family] = {"alike": alike, "a minority loses": minority, "tails": tails, "one in a hundred": rare}


def run(family: Family, n: int, budget: dptune.Budget, seed: int) -> tuple[bool, bool, bool]:
    """Return whether "better" was said, whether it was false, and whether the interval holds the cut mean."""
    rng = np.random.default_rng([seed, n])
    public, private = family(rng, ROWS), family(rng, n)
    with tempfile.TemporaryDirectory() as folder:
        ledger = dptune.PrivacyLedger(Path(folder) / "ledger.db", budget)
        privatizer = dptune.LossPrivatizer(ledger, n=n)
        made = dptune.select(
            private, privatizer, name="choice", public_losses=public, default_place=0, even_if_hopeless=True
        )
    D = private[0] - private[made.index]
    said = made.verdict == "better"
    if (gain := made.improvement) is None:
        return said, False, True
    (low, high), cut = gain.interval(), np.clip(D, -gain.radius, gain.radius).mean()
    return said, said and bool(D.mean() <= 0), bool(low <= cut <= high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    asked = parser.parse_args()
    quiet()
    rows = []
    for name, family in FAMILIES.items():
        for n, epsilon in ((300, 1), (1000, 1), (300, 4), (1000, 4)):
            budget = dptune.Budget.approximate_dp(epsilon=epsilon, delta=DELTA)
            found = np.array([run(family, n, budget, seed) for seed in tqdm(range(asked.runs), name, mininterval=5)])
            better, false, holds = found.mean(axis=0)
            rows.append([name, str(n), str(epsilon), f"{better:.1%}", f"{false:.2%}", f"{holds:.1%}"])
    head = ["family", "n", "epsilon", '"better"', "false", "interval holds the cut mean"]
    print(json.dumps(machine()), markdown(head, rows), sep="\n\n")


if __name__ == "__main__":
    main()
