"""The privacy statement of a fixed plan of subsampled releases: what may be claimed, and what is not covered."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dptune._numbers import rounded_up
from dptune._statement import Printable
from dptune.accounting.gdp import probability
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
class PlanStatement(Printable):
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("delta", self.delta))

    @property
    def epsilon(self) -> float:
        """Epsilon of the whole plan at ``delta``; infinite if any noise was seeded."""
        return epsilon_pld(self.plan, self.delta) if self.private else float("inf")

    @property
    def releases(self) -> int:
        """Number of rounds charged so far."""
        return sum(count for _, count in self.mechanisms)

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

    def to_dict(self) -> dict[str, object]:
        """Return the statement as plain JSON data (an infinite epsilon is the string "infinity")."""
        return {
            "private": self.private,
            "warnings": list(self.warnings),
            "dataset": self.dataset,
            "unit": self.unit,
            "n": self.n,
            "adjacency": self.adjacency,
            "trust_model": self.trust_model,
            "accountant": ACCOUNTANT,
            "plan": asdict(self.plan),
            "mechanisms": [{"mechanism": name, "releases": count} for name, count in self.mechanisms],
            "releases": self.releases,
            "delta": self.delta,
            "epsilon": self.epsilon if self.private else "infinity",
            "not_covered": list(NOT_COVERED),
            "versions": self.versions,
        }

    def _rows(self) -> list[tuple[str, str]]:
        plan = f"q = {self.plan.q:g}, z = {self.plan.z:g}, {self.plan.steps} releases, fixed in advance"
        mechanisms = "; ".join(f"{name} ({count})" for name, count in self.mechanisms) or "none so far"
        return [
            ("Protects", f"{self.unit} in {self.dataset!r}" + (f", n = {self.n}" if self.n else "")),
            ("Adjacency", self.adjacency),
            ("Trust model", self.trust_model),
            ("Guarantee", self._guarantee()),
            ("Plan", plan),
            ("Made so far", f"{self.releases} of {self.plan.steps} releases"),
            ("Mechanisms", mechanisms),
            ("Accountant", ACCOUNTANT),
            ("Not covered", "; ".join(NOT_COVERED)),
            ("Versions", ", ".join(f"{name} {number}" for name, number in self.versions.items())),
        ]

    def _guarantee(self) -> str:
        if not self.private:
            return "NONE (epsilon = infinity)"
        epsilon, delta = rounded_up(self.epsilon), rounded_up(self.delta, 6)
        return f"epsilon = {epsilon} at delta = {delta}, for all rounds of the plan together"
