"""The releases of a ledger as a list of public facts: value, noise and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dptune.choice.result import IMPROVEMENT, INDEX
from dptune.ledger.events import chooses, digest_of_table, is_laplace
from dptune.ledger.ledger import PLAN, Charge, PrivacyLedger
from dptune.results import Estimate


def release_rows(ledger: PrivacyLedger) -> list[dict[str, Any]]:
    """Return a row for each release, in the order of the charges, as JSON data.

    Keys of a row:
        study, release: name of the run, and of the release in it.
        what: the released statistic, in words.
        value: the released numbers, None if a crash lost them; for a choice, the index among its candidates, from 0;
            for an exported table, its digest.
        candidate: for a choice on public rows, the index among all candidates; else None.
        sigma: standard deviation of the noise per number; for a choice, the scale of its noise.
        cut: for a choice on public rows, r or r', at which each person's difference is cut; else None.
        sensitivity: the most that replacing one person moves the statistic.
        mu: cost within the limit mu; None within another limit or in a fixed plan.
        eta: bounded range of a choice by the exponential mechanism; else None.
        epsilon: cost of a choice by permute-and-flip, or of a release with Laplace noise; else None.
        intervals: 95% intervals of the noise, a pair for each number; None for a choice and a table.
        private: False if the noise was seeded.
    """
    return [_row(charge, ledger.fact(charge.scope, PLAN)) for charge in ledger.charges()]


def _row(charge: Charge, plan: object) -> dict[str, Any]:
    description = charge.description
    numbers = None if charge.value is None else list(charge.value)
    return {
        "study": charge.scope,
        "release": charge.key,
        "what": description.get("statistic", ""),
        "value": digest_of_table(description, numbers) or numbers,
        "candidate": _candidate(charge),
        "sigma": description.get("sigma"),
        "cut": _cut(charge, plan),
        "sensitivity": description.get("sensitivity"),
        "mu": charge.mu,
        "eta": description.get("eta"),
        "epsilon": description.get("epsilon"),
        "intervals": _intervals(charge),
        "private": charge.private,
    }


def _intervals(charge: Charge) -> list[list[float]] | None:
    sigma = charge.description.get("sigma")
    if charge.value is None or not isinstance(sigma, float) or chooses(charge.description):
        return None
    if digest_of_table(charge.description, charge.value):
        return None
    laplace = is_laplace(charge.description)
    return [list(Estimate(value, sigma, charge.private, laplace=laplace).interval()) for value in charge.value]


def _cut(charge: Charge, plan: object) -> object:
    if charge.key == IMPROVEMENT:
        return charge.note.get("radius")
    return plan.get("radius") if charge.key == INDEX and isinstance(plan, Mapping) else None


def _candidate(charge: Charge) -> int | None:
    finalists = charge.note.get("finalists")
    if charge.key != INDEX or charge.value is None or not isinstance(finalists, list):
        return None
    return int(finalists[int(charge.value[0])])
