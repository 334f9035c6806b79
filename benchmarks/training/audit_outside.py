"""Another library audits our releases: jax-privacy's bounds from canary scores, in an environment of its own.

``make audit-outside`` runs it. Scores are answers about the two worst neighbours, through the real release path. Two
bounds of jax-privacy 2.0.0 are used: Clopper-Pearson over all thresholds, and auditing f-DP (arXiv 2410.22235), for
which every answer is one canary, in or out by the toss of a coin. Its ``epsilon_from_gdp`` is not used: in 2.0.0 it
takes the absolute value of a negative bound, so that two equal laws "leak". The first line shows that. The second
reads a plan of jax-privacy's as a :class:`TrainingPlan`.

Exit code 1 if a bound exceeds what was paid, or is so small that the audit is blind, or the plan is not what was asked.
"""

from __future__ import annotations

import sys

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

from dptune import LossPrivatizer
from dptune._arrays import Vector
from dptune.audit.own import FreeLedger
from dptune.ledger.gdp import epsilon_from_mu
from dptune.training import TrainingPlan

DELTA, SIGNIFICANCE, N, CLIP, CANARIES = 1e-3, 1e-6, 5, (0.0, 3.0), 6000


def answers(loss: float, mu: float, count: int) -> Vector:
    """Answers about five people, of whom the first has this loss."""
    privatizer = LossPrivatizer(FreeLedger(), n=N, clip=CLIP)
    privatizer.observe("x", [loss, *[1.0] * (N - 1)])
    query = privatizer.mean_query("x", mu)
    return np.array([privatizer.release(query, scope="outside", key=str(t)).scalar for t in range(count)])


def bounds(inside: Vector, outside: Vector) -> dict[str, float]:
    auditor = CanaryScoreAuditor(inside, outside)
    return {
        "Clopper-Pearson": float(auditor.epsilon_clopper_pearson(SIGNIFICANCE, DELTA)),
        "f-DP in one run": float(auditor.epsilon_one_run_fdp(SIGNIFICANCE, DELTA)),
    }


def reads_their_plan() -> bool:
    theirs = BandMFExecutionPlanConfig(
        iterations=400, strategy=[1.0], sampling_prob=0.05, noise_multiplier=3.0, epsilon=None, delta=None
    )
    ours = TrainingPlan.of_event(theirs.plan.dp_event, trainings=10)
    print(f"an execution plan of jax-privacy, ten times: {ours}")
    return ours == TrainingPlan(3.0, 0.05, 400, trainings=10)


def main() -> bool:
    rng = np.random.default_rng(0)
    same = rng.normal(size=100), rng.normal(size=100)
    wrong = CanaryScoreAuditor(*same).epsilon_from_gdp(SIGNIFICANCE, DELTA)
    print(f"two equal laws: {bounds(*same)}; epsilon_from_gdp, which is not used: {wrong:.2f}")
    good = max(bounds(*same).values()) == 0.0 and reads_their_plan()
    for mu in (1.0, 3.0):
        inside = int(rng.binomial(CANARIES, 0.5))
        paid, found = (
            epsilon_from_mu(mu, DELTA),
            bounds(answers(np.inf, mu, inside), answers(-np.inf, mu, CANARIES - inside)),
        )
        shown = ", ".join(f"{name} proves epsilon >= {epsilon:.2f}" for name, epsilon in found.items())
        print(f"mu = {mu}: epsilon = {paid:.2f} at delta = {DELTA} was paid; {shown}")
        good &= max(found.values()) <= paid and max(found.values()) > 0.1 * paid
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
