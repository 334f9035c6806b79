"""One statement for several ledgers: of disjoint people the largest epsilon, of the same people the composition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dptune._checks import boolean
from dptune._numbers import finite, rounded_up
from dptune._statement import Printable
from dptune.accounting.gdp import Spent, probability
from dptune.accounting.ledger import REPLACE_ONE, PrivacyLedger
from dptune.accounting.plan_ledger import PlanLedger
from dptune.accounting.statement import LedgerStatement, Statement
from dptune.errors import InputError
from dptune.training.ledger import REMOVE_ONE, TrainingLedger
from dptune.training.profiles import Adaptive, Part, accountant_of, epsilon_of
from dptune.training.statement import TrainingStatement

GDP = "Gaussian differential privacy; mu^2 is the sum of the ledgers' mu^2"
CONDITIONS = (
    "who is in which part was decided in public, without looking at the records; n of each part is public; no person "
    "is in two parts; what one part's people gave reaches another's step as released values only"
)


@dataclass(frozen=True)
class JointStatement(Printable):
    """What everybody is promised whom any of several ledgers protects.

    Attributes:
        parts: the ledgers' own statements, at one delta.
        disjoint: whether nobody is in two of them, as whoever asks for the statement says.
        delta: at which epsilon is given.
        late: names of the parts that were planned, or raised, after another of them had been charged.
    """

    parts: tuple[LedgerStatement, ...]
    disjoint: bool
    delta: float
    late: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """False if any noise of any part was seeded."""
        return all(part.private for part in self.parts)

    @property
    def epsilon(self) -> float:
        """Epsilon at ``delta`` of everything together, for each person; infinite if any noise was seeded."""
        if not self.private:
            return math.inf
        return max(part.epsilon for part in self.parts) if self.disjoint else epsilon_of(self._paid(), self.delta)

    def _paid(self) -> list[Part]:
        mus = [part.budget.mu for part in self.parts if isinstance(part, Statement)]
        plans = [part.plan for part in self.parts if isinstance(part, TrainingStatement)]
        return [*plans, *([Adaptive(Spent.of(mus).mu)] if mus else [])]

    @property
    def adjacency(self) -> str:
        """What neighbours are; of one person in several parts the weakest relation that all parts protect."""
        if self.disjoint:
            return "of each part its own; replace-one and remove-one are not added, as nobody is in two parts"
        if all(isinstance(part, Statement) for part in self.parts):
            return REPLACE_ONE
        return (
            f"{REMOVE_ONE}. The tuning releases protect that, too: a removed unit counts as one whose losses are the "
            "worst. NOT covered: replacing a unit's records, which costs two removals"
        )

    @property
    def accountant(self) -> str:
        """How epsilon was computed."""
        if self.disjoint:
            return "the largest epsilon of the parts: each person is in one, and the others' releases do not read it"
        parts = self._paid()
        return GDP if all(isinstance(part, Adaptive) for part in parts) else f"{accountant_of(parts)}; {_DOMINATED}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of the parts, and where n of a part is not known."""
        unknown = [f"n of {part.dataset!r} is not stated yet." for part in self.parts if part.n is None]
        late = [f"the ledger of {name!r} was made or raised after another was charged: {_LATE}" for name in self.late]
        names = [part.dataset for part in self.parts]
        same = sorted({name for name in names if names.count(name) > 1}) if self.disjoint else []
        unknown += [
            f"several of the ledgers, said to be of disjoint people, protect {name!r}: {_SAME}" for name in same
        ]
        own = [f"{part.dataset}: {warning}" for part in self.parts for warning in part.warnings]
        return (*own, *unknown, *late, *self._unplanned())

    def _unplanned(self) -> list[str]:
        """Name the ledgers whose runs trained on private people, if no part plans trainings."""
        if any(isinstance(part, TrainingStatement) for part in self.parts):
            return []
        trained = [part.dataset for part in self.parts if isinstance(part, Statement) and part.trained]
        return [f"runs of {name!r} trained on private people, of whom no ledger is among these." for name in trained]

    def to_dict(self) -> dict[str, object]:
        """Return the statement as plain JSON data (an infinite epsilon is the string "infinity")."""
        return {
            "private": self.private,
            "warnings": list(self.warnings),
            "disjoint": self.disjoint,
            "conditions": self._conditions(),
            "adjacency": self.adjacency,
            "accountant": self.accountant,
            "delta": self.delta,
            "epsilon": finite(self.epsilon),
            "parts": [part.to_dict() for part in self.parts],
        }

    def _conditions(self) -> str:
        return CONDITIONS if self.disjoint else "none: a person may be in every part"

    def _rows(self) -> list[tuple[str, str]]:
        epsilon = f"epsilon = {rounded_up(self.epsilon)} at delta = {rounded_up(self.delta, 6)}"
        return [
            ("Protects", "; ".join(part.protects for part in self.parts)),
            ("Guarantee", f"{epsilon}, for each person" if self.private else "NONE (epsilon = infinity)"),
            ("Conditions", self._conditions()),
            ("Adjacency", self.adjacency),
            ("Accountant", self.accountant),
            *(row for part in self.parts for row in _of_part(part)),
        ]

    def _title(self) -> str:
        return "Joint privacy statement"


_SAME = "if they are the same people, this epsilon is too small; join them without disjoint."
_LATE = "epsilon does not hold if its budget or plan was chosen by looking at the other's results."
_DOMINATED = (
    "the adaptive releases are dominated by one Gaussian of their budget, which, like the plans, no result of another "
    "part may decide"
)


def _of_part(part: LedgerStatement) -> list[tuple[str, str]]:
    return [("", ""), ("Part", part.dataset), *((name, text) for name, text in part._rows() if name != "Protects")]


def join(
    ledgers: Sequence[PrivacyLedger | PlanLedger | TrainingLedger], *, disjoint: bool = False, delta: float
) -> JointStatement:
    """Return one statement for several ledgers.

    Args:
        ledgers: at least two, all different.
        disjoint: True if nobody is in two of them; see the statement's conditions. Otherwise the same person is taken
            to be in all, and pays their composition.
        delta: at which epsilon is given.

    Raises:
        InputError: a ledger is given twice; or people may overlap and the ledgers' units or promises do not compose.
    """
    if len(ledgers) < 2 or len({ledger._identity for ledger in ledgers}) < len(ledgers):
        raise InputError("give at least two ledgers, each of them once (a copy of a ledger is the same ledger).")
    disjoint = boolean("disjoint", disjoint)
    parts = tuple(ledger.statement(delta=probability("delta", delta)) for ledger in ledgers)
    if disjoint:
        return JointStatement(parts, disjoint, delta)
    _refuse_incomparable(parts)
    late = [one.dataset for one in ledgers if any(one.planned_after(other) for other in ledgers if other is not one)]
    return JointStatement(parts, disjoint, delta, tuple(late))


def _refuse_incomparable(parts: Sequence[LedgerStatement]) -> None:
    units = sorted({part.unit for part in parts})
    if len(units) > 1:
        raise InputError(f"the ledgers protect different units ({'; '.join(units)}), whose costs do not add up.")
    for part in parts:
        if part.adjacency not in (REPLACE_ONE, REMOVE_ONE):
            raise InputError(
                f"the ledger of {part.dataset!r} promises something else, which adds to nothing: {part.adjacency}. "
                "Ledgers of disjoint people can be joined all the same (--disjoint)."
            )
