"""The privacy statement of a fixed plan of subsampled releases: what may be claimed, and what is not covered."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dptune._numbers import finite, rounded_up
from dptune.accounting.statement import LedgerStatement
from dptune.accounting.subsampled import SubsampledGaussianPlan, epsilon_pld

NOT_COVERED = (
    "the agent's own queries and trials: where it evaluates depends on its data, and whoever sees them or its "
    "study sees more than this mechanism protects",
    "people inside an agent's data towards the agent itself, or towards those who see its trials",
    "a person whose data several agents hold: epsilon is for the messages of one agent",
    "the server: it reads every message; and whoever learns which agents were sampled",
    "whether and when an agent sends: timing, addresses and time-outs; how long the server computes",
    "the choice of the search space, features, regions and settings, if made by looking at the agents' data",
    "other releases about the same agents that this ledger did not see: a ledger that was deleted or copied counts "
    "anew, and so does an older copy put back where nobody kept a mark of the newer one",
)
ACCOUNTANT = (
    "privacy loss distributions of the whole plan (dp-accounting, Poisson-subsampled Gaussian, add-or-remove relation, "
    "pessimistic rounding); the plan was fixed before the first round"
)


@dataclass(frozen=True)
class PlanStatement(LedgerStatement):
    """Everything a sceptical reader needs; print it, or use one of the three renderings.

    The guarantee is that of the whole plan, also for a run that stopped early.

    Attributes:
        delta: the delta at which epsilon is given.
        mechanisms: pairs (mechanism, number of rounds charged so far).
        private: False if any noise was seeded; then nothing is guaranteed.
        versions: library versions when the ledger was created.
    """

    dataset: str
    unit: str
    adjacency: str
    trust_model: str
    n: int | None
    plan: SubsampledGaussianPlan
    delta: float
    mechanisms: tuple[tuple[str, int], ...]
    private: bool
    versions: dict[str, str]

    accountant = ACCOUNTANT
    not_covered = NOT_COVERED

    @property
    def epsilon(self) -> float:
        """Epsilon of the whole plan at ``delta``; infinite if any noise was seeded."""
        return epsilon_pld(self.plan, self.delta) if self.private else float("inf")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must see before the numbers."""
        found = []
        if not self.private:
            found.append("NOT PRIVATE: noise or samples were not drawn from a secure source; epsilon = infinity.")
        if self.n is not None and self.delta >= 1 / self.n:
            found.append(
                f"DELTA IS TOO LARGE: delta = {self.delta:g} is not below 1/n = {1 / self.n:g}. A mechanism that "
                "publishes one agent's message as it is, picked at random, would pass. Do not report "
                "this epsilon as protection."
            )
        return tuple(found)

    def _numbers(self) -> dict[str, object]:
        return {"plan": asdict(self.plan), "epsilon": finite(self.epsilon)}

    def _promises(self) -> list[tuple[str, str]]:
        plan = f"q = {self.plan.q:g}, z = {self.plan.z:g}, {self.plan.steps} releases, fixed in advance"
        return [
            ("Guarantee", self._guarantee()),
            ("Plan", plan),
            ("Made so far", f"{self.releases} of {self.plan.steps} releases"),
        ]

    def _guarantee(self) -> str:
        if not self.private:
            return "NONE (epsilon = infinity)"
        epsilon, delta = rounded_up(self.epsilon), rounded_up(self.delta, 6)
        return f"epsilon = {epsilon} at delta = {delta}, for all rounds of the plan together"
