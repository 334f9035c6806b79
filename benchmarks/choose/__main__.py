"""The tables of docs/choose.md: what mu means. ``python -m benchmarks.choose``; no data, no seed, no noise."""

from __future__ import annotations

from collections.abc import Iterable

from dptune._numbers import rounded_down, rounded_up
from dptune.ledger import Risk
from dptune.ledger.gdp import delta_from_mu, epsilon_from_mu, mu_from_epsilon

MUS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
DELTAS = (1e-3, 1e-5, 1e-7)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in [names, ["---"] * len(names), *rows])


def percent(share: float) -> str:
    return f"{rounded_up(100 * share, 3)}%"


def risks() -> str:
    rows = []
    for mu in MUS:
        risk = Risk.of_mu(mu)
        right = (1 + risk.advantage) / 2
        rows.append([f"{mu:g}", percent(risk.advantage), percent(right), percent(risk.detected)])
    return table(["μ", "attack advantage", "right guesses", "true positives at 1% false ones"], rows)


def epsilons() -> str:
    rows = [[f"{mu:g}", *(rounded_up(epsilon_from_mu(mu, delta), 3) for delta in DELTAS)] for mu in MUS]
    return table(["μ", *(f"ε at δ = {delta:.0e}" for delta in DELTAS)], rows)


def deltas() -> str:
    epsilons = (1.0, 2.0, 4.0, 8.0)
    rows = [
        [f"{mu:g}", *(rounded_up(delta_from_mu(mu, epsilon), 2) for epsilon in epsilons)] for mu in MUS if mu >= 0.5
    ]
    return table(["μ", *(f"δ at ε = {epsilon:g}" for epsilon in epsilons)], rows)


def mus() -> str:
    rows = [
        [f"{epsilon:g}", *(rounded_down(mu_from_epsilon(epsilon, delta), 3) for delta in DELTAS)]
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)
    ]
    return table(["ε", *(f"μ at δ = {delta:.0e}" for delta in DELTAS)], rows)


def main() -> None:
    for each in (risks(), epsilons(), deltas(), mus()):
        print(each, end="\n\n")


if __name__ == "__main__":
    main()
