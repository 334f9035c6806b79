"""The privacy statement of planned trainings: what may be claimed to the people who are trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dptune._numbers import finite, rounded_up
from dptune.accounting.statement import LedgerStatement
from dptune.training.plans import Plan, SelectionPlan, to_json
from dptune.training.profiles import accountant_of, epsilon_of

NOT_COVERED = (
    "training that reads these people by another way than the planned steps: normalising by their statistics, batch "
    "normalisation, early stopping on their losses, choosing features",
    "the choice of the search space, architecture and clipping norm, if made by looking at the data",
    "which people a step drew: the samples are secret",
    "timing, memory use and other side channels; of repeat and select, how long it takes tells how often it repeats",
    "other releases about the same people that this ledger did not see: join its statement with theirs",
)


@dataclass(frozen=True)
class TrainingStatement(LedgerStatement):
    """The guarantee of the whole plan, also where fewer trainings were made.

    Attributes:
        plan: what was fixed before the first training.
        ordinary: how many trainings drew noise from a generator that is not cryptographically secure.
    """

    dataset: str
    unit: str
    adjacency: str
    trust_model: str
    n: int | None
    plan: Plan
    delta: float
    mechanisms: tuple[tuple[str, int], ...]
    private: bool
    versions: dict[str, str]
    ordinary: int = 0

    not_covered: ClassVar[tuple[str, ...]] = NOT_COVERED

    @property
    def accountant(self) -> str:
        """How epsilon was computed."""
        return f"{accountant_of([self.plan])}; the plan was fixed before the first training"

    @property
    def noise(self) -> str:
        """How noise is drawn: of trainings by the library that trains, of a selection's scores by OpenDP."""
        if not self.private:
            return super().noise
        generator = f"PyTorch's own generator in {self.ordinary} of {self.releases} charges, else a secure one"
        trained = f"of DP-SGD: from the library that trains, in floating point ({generator})"
        if not isinstance(self.plan, SelectionPlan):
            return trained
        scored = f"of scores: {super().noise}"
        return "; ".join([trained] * bool(self.plan.training) + [scored] * bool(self.plan.score_mu))

    @property
    def epsilon(self) -> float:
        """Epsilon of the whole plan at ``delta``; infinite if any noise was seeded."""
        return epsilon_of([self.plan], self.delta) if self.private else float("inf")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must see before the numbers."""
        found = []
        if not self.private:
            found.append("NOT PRIVATE: noise or samples of a training came from a known seed; epsilon = infinity.")
        if self.ordinary:
            found.append(
                f"{self.ordinary} trainings drew noise and samples from PyTorch's own generator, in floating point: "
                "epsilon holds if nobody predicts it or reads the last bits. Opacus's secure_mode is for publication."
            )
        if self.n is not None and self.delta >= 1 / self.n:
            found.append(f"delta = {self.delta:g} is not below 1/n = {1 / self.n:g}: choose a smaller delta.")
        return tuple(found)

    def _numbers(self) -> dict[str, Any]:
        return {"plan": to_json(self.plan), "epsilon": finite(self.epsilon)}

    def _promises(self) -> list[tuple[str, str]]:
        epsilon = f"epsilon = {rounded_up(self.epsilon)} at delta = {rounded_up(self.delta, 6)}"
        made = "selections" if isinstance(self.plan, SelectionPlan) else "trainings"
        return [
            ("Guarantee", f"{epsilon}, for the whole plan" if self.private else "NONE (epsilon = infinity)"),
            ("Plan", str(self.plan)),
            ("Made so far", f"{self.releases} of {self.plan.charges} {made}"),
        ]
