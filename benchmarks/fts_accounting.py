"""Privacy figures of the DP-FTS-DE paper (Dai, Low, Jaillet 2021): its moments accountant against PLD.

Run: python -m benchmarks.fts_accounting
The paper counts T = 40 releases; its Algorithm 1 loops t = 0..T and makes 41, shown in the last column.
"""

from __future__ import annotations

from dptune.accounting.subsampled import SubsampledGaussianPlan, epsilon_moments_accountant, epsilon_pld

N, T = 200, 40
DELTA = N**-1.1
PLANS = ((0.15, 1.0), (0.25, 1.0), (0.5, 1.0), (0.25, 1.2), (0.25, 1.5))


def rows() -> list[tuple[float, float, float, float, float]]:
    """(q, z, classic epsilon, PLD epsilon, PLD epsilon of T + 1 releases) for each published plan."""
    return [(q, z, epsilon_moments_accountant(SubsampledGaussianPlan(q, z, T), DELTA), *_pld(q, z)) for q, z in PLANS]


def _pld(q: float, z: float) -> tuple[float, float]:
    first, second = (epsilon_pld(SubsampledGaussianPlan(q, z, steps), DELTA) for steps in (T, T + 1))
    return first, second


def main() -> None:
    print(f"N = {N} agents, T = {T} rounds, delta = N^-1.1 = {DELTA:.6f}")
    print(f"{'q':>5} {'z':>5} {'classic':>9} {'PLD':>8} {'PLD, T+1':>9}")
    for q, z, classic, pld, pld_more in rows():
        print(f"{q:5.2f} {z:5.1f} {classic:9.2f} {pld:8.3f} {pld_more:9.3f}")


if __name__ == "__main__":
    main()
