"""What many private trainings cost: the tables of docs/training.md. No data, no randomness.

python -m benchmarks.training table
"""

from __future__ import annotations

import argparse

from dptune.ledger.dominating import Gaussian
from dptune.ledger.gdp import epsilon_from_mu
from dptune.training import Repeats, SelectionPlan, TrainingPlan, noise_multipliers
from dptune.training.profiles import epsilon_of, renyi_epsilon

DELTA = 1e-5
BASE_MU = 0.25
LAWS = {
    "logarithmic": Repeats.logarithmic,
    "eta = 1/2": lambda mean: Repeats(mean, 0.5),
    "geometric": Repeats.geometric,
    "Poisson": Repeats.poisson,
}
SAMPLE_RATE, STEPS = 0.05, 400


def row(*cells: object) -> None:
    print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")


def header(*cells: str) -> None:
    row(*cells)
    print("|" + "---|" * len(cells))


def runs_of_a_gaussian() -> None:
    print(f"\nEpsilon at delta = {DELTA:g} of T runs of a Gaussian mechanism of mu = {BASE_MU}\n")
    laws = (f"best of {law}, mean T" for law in LAWS)
    header("T", "all shown (exact)", "all shown (Renyi)", "best of geometric (Renyi)", *laws)
    for T in (2, 5, 10, 30, 100, 300, 1000):
        mu = BASE_MU * T**0.5
        best = [epsilon_of([SelectionPlan(law(T), score_mu=BASE_MU)], DELTA) for law in LAWS.values()]
        renyi = [Gaussian(mu)], [SelectionPlan(Repeats.geometric(T), score_mu=BASE_MU)]
        row(T, epsilon_from_mu(mu, DELTA), *(renyi_epsilon(parts, DELTA) for parts in renyi), *best)


def epsilon_of_trainings(z: float = 2.0) -> None:
    print(f"\nEpsilon at delta = {DELTA:g} of T trainings: noise {z:g}, sampling rate {SAMPLE_RATE}, {STEPS} steps\n")
    ways = "composition: all shown", "best of geometric", "best of Poisson"
    header("T", *ways, "best of geometric (Renyi)", "public tuning, one training", "cheapest")
    one = TrainingPlan(z, SAMPLE_RATE, STEPS)
    for T in (2, 5, 10, 30, 100):
        parts = {
            "composition": TrainingPlan(z, SAMPLE_RATE, STEPS, T),
            "geometric": SelectionPlan(Repeats.geometric(T), one),
            "Poisson": SelectionPlan(Repeats.poisson(T), one),
        }
        cost = {name: epsilon_of([part], DELTA) for name, part in parts.items()}
        others = renyi_epsilon([parts["geometric"]], DELTA), epsilon_of([one], DELTA)
        row(T, *cost.values(), *others, f"public, else {min(cost, key=lambda name: cost[name])}")


def noise_of_trainings() -> None:
    print(
        f"\nNoise multiplier of each of T trainings (sampling rate {SAMPLE_RATE}, {STEPS} steps), delta = {DELTA:g}\n"
    )
    header("epsilon", "T", "composition", "geometric", "Poisson", "public tuning")
    for epsilon in (1.0, 3.0, 8.0):
        for T in (3, 10, 30, 100):
            wanted = {"epsilon": epsilon, "delta": DELTA, "sample_rate": SAMPLE_RATE, "steps": STEPS}
            found = noise_multipliers(**wanted, trainings=T)
            row(epsilon, T, *found.values(), *noise_multipliers(**wanted, trainings=1).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["table"])
    parser.parse_args()
    runs_of_a_gaussian()
    epsilon_of_trainings()
    noise_of_trainings()


if __name__ == "__main__":
    main()
