"""Privacy figures of the DP-FTS-DE paper (Dai, Low, Jaillet 2021): its moments accountant against PLD.

Run: python -m benchmarks.federated.accounting
The paper counts T = 40 releases; its Algorithm 1 loops t = 0..T and makes 41, shown in the last column.
"""

from __future__ import annotations

from benchmarks.federated.moments import epsilon_moments_accountant
from dptune.federated.settings import FTSSettings
from dptune.ledger.subsampled import (
    VALUE_DISCRETIZATION_INTERVAL,
    SubsampledGaussian,
    epsilon_pld,
    noise_multiplier,
)

N, T = 200, 40
DELTA = N**-1.1
PLANS = ((0.15, 1.0), (0.25, 1.0), (0.5, 1.0), (0.25, 1.2), (0.25, 1.5))


def rows() -> list[tuple[float, float, float, float, float]]:
    """(q, z, classic epsilon, PLD epsilon, PLD epsilon of T + 1 releases) for each published plan."""
    return [(q, z, epsilon_moments_accountant(SubsampledGaussian(q, z, T), DELTA), *_pld(q, z)) for q, z in PLANS]


def _pld(q: float, z: float) -> tuple[float, float]:
    first, second = (epsilon_pld(SubsampledGaussian(q, z, steps), DELTA) for steps in (T, T + 1))
    return first, second


def landmine() -> tuple[float, float]:
    """Epsilon of the paper's noise on landmine: as the paper counts it, and with every round's exact sensitivity.

    The paper's noise in round t is z phi_max S / q, which is z_t = z (phi_max S / q) / Delta_t times the exact one.
    """
    from dp_accounting import dp_event
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    q, z, rounds, delta = 0.35, 1.0, 60, 29**-1.1
    s = FTSSettings(agents=29, d=2, regions=(2, 2), S=22.0)
    accountant = PLDAccountant(value_discretization_interval=VALUE_DISCRETIZATION_INTERVAL)
    for t in range(rounds):
        z_t = z * s.weights(t).max() * s.S / q / s.sensitivity(t, q)
        accountant.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(float(z_t))))
    return epsilon_pld(SubsampledGaussian(q, z, rounds), delta), float(accountant.get_epsilon(delta))


def main() -> None:
    print(f"N = {N} agents, T = {T} rounds, delta = N^-1.1 = {DELTA:.6f}")
    print(f"{'q':>5} {'z':>5} {'classic':>9} {'PLD':>8} {'PLD, T+1':>9}")
    for q, z, classic, pld, pld_more in rows():
        print(f"{q:5.2f} {z:5.1f} {classic:9.2f} {pld:8.3f} {pld_more:9.3f}")
    papers, exact = landmine()
    print(f"landmine, N = 29, q = 0.35, the paper's noise at z = 1, 60 releases: epsilon {papers:.2f} by PLD with the")
    print(f"paper's sensitivity, {exact:.2f} with the exact one (regions weighted alike only after 40 rounds)")
    print("signal per noise q/z of N = 29 agents at epsilon = 5, delta = 29^-1.1, by releases and q:")
    for steps in (1, 3, 10, 60):
        ratios = [q / noise_multiplier(q=q, steps=steps, epsilon=5.0, delta=29**-1.1) for q in (0.35, 1.0)]
        print(f"{steps:5d} releases: q = 0.35 {ratios[0]:.3f}, q = 1 {ratios[1]:.3f}")


if __name__ == "__main__":
    main()
