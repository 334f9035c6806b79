"""A ledger whose budget is one plan of Poisson-subsampled releases, fixed at creation and accounted by PLD.

Subsampled mechanisms have no useful price in GDP (their tails are not amplified), and checking a PLD before each
*adaptively chosen* release is not sound. So the ledger holds the plan (q, z, T) and nothing else: rounds 0..T-1, each
charged once, in order, before a message is read. A round past the plan, or with another q or z, is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from dptune._numbers import whole
from dptune.accounting.durable import DurableLedger
from dptune.accounting.entries import Charge, described
from dptune.accounting.events import SubsampledGaussianRelease
from dptune.accounting.plan_statement import PlanStatement
from dptune.accounting.subsampled import SubsampledGaussianPlan
from dptune.errors import InputError, LedgerError, PlanComplete

ZERO_OUT = "zero out one agent: all its messages become 0, with the number of agents, regions, weights and plan public"
TRUSTED_SERVER = (
    "trusted server: it reads every message and keeps the samples secret; agents and everybody else see the noisy "
    "broadcasts only"
)
_SCOPE = "rounds"


class FixedPlanLedger(DurableLedger):
    """The part of a ledger of a fixed plan that does not depend on what is planned. Made by its subclasses only."""

    plan: Any
    holds: ClassVar[str]  # what is planned, in words
    people: ClassVar[str]  # whom n counts
    first_row: ClassVar[Mapping[str, str]]  # what is protected, unless the caller says so

    def __init__(self, url: str | Path, plan: Any, n: int | None, dataset: str | None, unit: str | None) -> None:
        people = whole(n)
        if (people is None or people < 1) and not (plan is None and n is None):
            raise InputError(f"n must be the number of {self.people}, a whole number >= 1; got {n!r}.")
        said = {name: value for name, value in (("dataset", dataset), ("unit", unit)) if value}
        first = None if plan is None else {**self.first_row, **said, "plan": self._stored(plan)}
        super().__init__(url, first, "" if plan is None else repr(plan))
        self.plan = self._planned(self._row["plan"] or {})
        if self.plan is None:
            raise LedgerError(f"the ledger {self._name} does not hold {self.holds}, but {_held(self._row['plan'])}.")
        self._refuse_mismatch("plan", plan, self.plan)
        self._refuse_mismatch("dataset", dataset, self.dataset)
        self._refuse_mismatch("unit", unit, self.unit)
        if people is not None:
            self.bind_people(people)

    @staticmethod
    @abstractmethod
    def _stored(plan: Any) -> dict[str, object]:
        """Return the plan as JSON data."""

    @staticmethod
    @abstractmethod
    def _planned(stored: Mapping[str, Any]) -> Any:
        """Return the plan of JSON data, or None if it is something else's."""

    def _facts(self, delta: float) -> dict[str, Any]:
        """Return what every statement of a plan says."""
        facts = {name: getattr(self, name) for name in ("dataset", "unit", "adjacency", "trust_model", "n", "plan")}
        made = {"mechanisms": self._mechanisms(), "private": self.private, "versions": dict(self._row["versions"])}
        return {**facts, **made, "delta": delta}


def _held(plan: Mapping[str, Any] | None) -> str:
    if plan is None:
        return "a budget in GDP; open it with PrivacyLedger"
    return "a plan of subsampled releases; open it with PlanLedger" if "q" in plan else "a plan of trainings"


class PlanLedger(FixedPlanLedger):
    """A fixed plan of T subsampled releases that survives processes, copies and crashes.

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL (``postgresql://...``).
        plan: q, z and the number of releases; required, with ``n``, to create a ledger.
        n: number of agents, public.
        dataset: name of what is protected.
        unit: who is protected, for the privacy statement.

    Raises:
        BudgetMismatch: the ledger exists with another plan, n, data set or unit.
        LedgerError: no plan was given and there is no ledger, or it holds a budget in GDP.
        InputError: the URL is not durable, or n is missing.
    """

    holds, people = "a plan of subsampled releases", "agents"
    first_row: ClassVar[Mapping[str, str]] = {
        "dataset": "agents' observations",
        "unit": "one agent",
        "adjacency": ZERO_OUT,
        "trust_model": TRUSTED_SERVER,
    }
    plan: SubsampledGaussianPlan

    def __init__(
        self,
        url: str | Path,
        plan: SubsampledGaussianPlan | None = None,
        *,
        n: int | None = None,
        dataset: str | None = None,
        unit: str | None = None,
    ) -> None:
        if plan is not None and not isinstance(plan, SubsampledGaussianPlan):
            raise InputError("plan must be a SubsampledGaussianPlan(q, z, steps).")
        super().__init__(url, plan, n, dataset, unit)

    @staticmethod
    def _stored(plan: SubsampledGaussianPlan) -> dict[str, object]:
        return asdict(plan)

    @staticmethod
    def _planned(stored: Mapping[str, Any]) -> SubsampledGaussianPlan | None:
        return SubsampledGaussianPlan(**stored) if "q" in stored else None

    def charge(
        self,
        t: int,
        event: SubsampledGaussianRelease,
        *,
        digest: str,
        private: bool = True,
        note: Mapping[str, object] | None = None,
    ) -> Charge:
        """Count round ``t``, durably, before any message is read; or find that it was counted already.

        Args:
            t: round, from 0; rounds are charged in order.
            event: what is released; its q and z must be the plan's.
            digest: fingerprint of the public question.
            private: False stamps the charge, and the whole ledger's statement, NOT PRIVATE.
            note: public JSON data to keep with the charge.

        Returns:
            The charge; its ``value`` is set if the round was released before.

        Raises:
            PlanComplete: the plan has no such round; nothing was written.
            InputError: the event is not the plan's, or rounds before ``t`` are missing.
            KeyConflict: the round was charged with another question.
            LedgerError: another ledger lies in this one's place.
        """
        self._refuse_other_mechanism(event)
        row = {
            "mu": None,
            "mechanism": event.mechanism,
            "private": private,
            "digest": digest,
            "description": described(event, note),
        }
        return self._pay(_SCOPE, _key(t), row=row, limit=None, admit=lambda head: self._admit(head.mark.seq, t))

    def _refuse_other_mechanism(self, event: object) -> None:
        if not isinstance(event, SubsampledGaussianRelease):
            raise InputError("this ledger holds a plan of subsampled Gaussian releases; nothing else can be charged.")
        if (event.q, event.z) != (self.plan.q, self.plan.z):
            raise InputError(f"the plan is q={self.plan.q}, z={self.plan.z}; got q={event.q}, z={event.z}.")
        if not event.sigma >= event.z * event.sensitivity > 0:
            raise InputError("the noise is smaller than z times the sensitivity; this is a bug in dptune.")

    def _admit(self, made: int, t: int) -> None:
        if t >= self.plan.steps or made >= self.plan.steps:
            raise PlanComplete(
                f"the plan has {self.plan.steps} rounds, 0 to {self.plan.steps - 1}, fixed for good; round {t} is "
                "refused and nothing was read."
            )
        if t != made:
            raise InputError(f"rounds are released in order; the next is {made}, not {t}.")

    def round(self, t: int) -> Charge | None:
        """Return the charge of round ``t``, or None."""
        return self.find(_SCOPE, _key(t))

    def statement(self, *, delta: float) -> PlanStatement:
        """Return the privacy statement of the whole plan, to print or to publish, with epsilon at ``delta``."""
        return PlanStatement(**self._facts(delta))

    def __repr__(self) -> str:
        return f"PlanLedger({self._name!r}, {self.plan!r})"


def _key(t: int) -> str:
    number = whole(t)
    if number is None or number < 0:
        raise InputError("a round is a whole number from 0.")
    return f"round/{number}"
