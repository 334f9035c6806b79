"""A ledger whose budget is one plan of Poisson-subsampled releases, fixed at creation and accounted by PLD.

Subsampled mechanisms have no useful price in GDP (their tails are not amplified), and checking a PLD before each
*adaptively chosen* release is not sound. So the ledger holds only the plan (q, z, T): rounds 0..T-1, each charged once,
in order, before a message is read. A round past the plan, or with another q or z, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from dptune._checks import shown, whole
from dptune._numbers import finite
from dptune._statement import Curve, Statement, counted, large_delta, priced
from dptune.errors import InputError, PlanComplete
from dptune.ledger.connection import Database
from dptune.ledger.durable import DurableLedger
from dptune.ledger.entries import Charge, LedgerState
from dptune.ledger.events import SubsampledGaussianRelease
from dptune.ledger.statement import opendp_noise
from dptune.ledger.subsampled import SubsampledGaussian, composed, resolved

ZERO_OUT = "zero out one agent: all its messages become 0, with the number of agents, regions, weights and plan public"
TRUSTED_SERVER = (
    "trusted server: it reads every message and keeps the samples secret; agents and everybody else see the noisy "
    "broadcasts only"
)
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
_SEEDED = "NOT PRIVATE: noise or samples were not drawn from a secure source; epsilon = infinity."
_SCOPE = "rounds"
P = TypeVar("P")


class FixedPlanLedger(DurableLedger, Generic[P]):
    """A plan, fixed at creation, that survives processes, copies and crashes; only subclasses are constructed.

    Raises:
        BudgetMismatch: the ledger exists with another plan, n, data set or unit.
        LedgerError: no plan was given and there is no ledger, or it holds something else.
        InputError: the URL is not durable, n is missing, or the plan is not a plan.
    """

    plan: P
    stored: ClassVar[Any]  # a plan -> its JSON data
    planned: ClassVar[Any]  # and back
    plans: ClassVar[tuple[type, ...]]  # types of plans
    wanted: ClassVar[str]  # the types of plans, in words
    people: ClassVar[str]  # what n counts, in words

    def __init__(
        self,
        url: str | Path | Database,
        plan: P | None = None,
        *,
        n: int | None = None,
        dataset: str | None = None,
        unit: str | None = None,
    ) -> None:
        if plan is not None and not isinstance(plan, self.plans):
            raise InputError(f"plan must be {self.wanted}.")
        people = whole(n)
        if (people is None or people < 1) and not (plan is None and n is None):
            raise InputError(f"n must be the number of {self.people}, a whole number >= 1; got {shown(n)}.")
        promise = None if plan is None else {"plan": self.stored(plan)}
        super().__init__(url, promise, repr(plan), dataset=dataset, unit=unit)
        self.plan = self.planned(self._row["plan"])
        self._refuse_mismatch("plan", plan, self.plan, repr)
        if people is not None:
            self.bind_people(people)

    def _statement(
        self,
        facts: Mapping[str, Any],
        curve: Curve,
        *,
        whole: str,
        plan: str,
        made: str,
        **said: Any,
    ) -> Statement:
        """Return the statement of the whole plan with the privacy profile ``curve``."""
        private = facts["private"]
        epsilon = resolved(curve.epsilon, facts["delta"]) if private else math.inf
        return Statement(
            **facts,
            epsilon=epsilon,
            curve=curve,
            guarantee=(
                ("Guarantee", priced(epsilon, facts["delta"], private, f"for {whole}")),
                ("Plan", plan),
                ("Made so far", f"{self.count()} of {made}"),
            ),
            numbers={"plan": self.stored(self.plan), "epsilon": finite(epsilon)},
            **said,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self.plan!r})"


class PlanLedger(FixedPlanLedger[SubsampledGaussian]):
    """A fixed plan of T subsampled releases that survives processes, copies and crashes.

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL (``postgresql://...``).
        plan: q, z and the number of releases; required, with ``n``, to create a ledger.
        n: number of agents, public.
        dataset: name of what is protected.
        unit: who is protected, for the privacy statement.
    """

    kind, people = "rounds", "agents"
    plans = (SubsampledGaussian,)
    wanted = "a SubsampledGaussian(q, z, steps)"
    protects: ClassVar = {
        "dataset": "agents' observations",
        "unit": "one agent",
        "adjacency": ZERO_OUT,
        "trust_model": TRUSTED_SERVER,
    }
    stored = staticmethod(asdict)

    @staticmethod
    def planned(stored: dict[str, Any]) -> SubsampledGaussian:
        """Return the plan that the ledger stored."""
        return SubsampledGaussian(**stored)

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
            digest, private, note: as :meth:`dptune.PrivacyLedger.charge`.

        Raises:
            PlanComplete: the plan has no such round; nothing was written.
            InputError: the event is not the plan's, or rounds before ``t`` are missing.
            KeyConflict: the round was charged with another question.
        """
        key = _key(t)
        plan = self.plan
        if not isinstance(event, SubsampledGaussianRelease):
            raise InputError("this ledger holds a plan of subsampled Gaussian releases; nothing else can be charged.")
        if (event.q, event.z) != (plan.q, plan.z):
            raise InputError(f"the plan is q={plan.q}, z={plan.z}; got q={event.q}, z={event.z}.")
        if not event.sigma >= event.z * event.sensitivity > 0:
            raise InputError("the noise is smaller than z times the sensitivity; this is a bug in dptune.")

        def admit(head: LedgerState) -> None:
            if t >= plan.steps or head.mark.seq >= plan.steps:
                raise PlanComplete(
                    f"the last round of the plan is {plan.steps - 1}, fixed for good; round {t} is refused "
                    "and nothing was read."
                )
            if t != head.mark.seq:
                raise InputError(f"rounds are released in order; the next is {head.mark.seq}, not {t}.")

        return self._pay(_SCOPE, key, event, admit, digest=digest, private=private, note=note)

    def statement(self, *, delta: float) -> Statement:
        """Return the privacy statement of the whole plan, to print or to publish, with epsilon at ``delta``.

        Raises:
            InputError: delta is smaller than the accountant resolves.
        """
        facts = self._facts(delta)
        plan = self.plan
        seeded = () if facts["private"] else (_SEEDED,)
        return self._statement(
            facts,
            composed([plan.event()]),
            whole="all rounds of the plan together",
            plan=f"q = {plan.q:g}, z = {plan.z:g}, {counted(plan.steps)}, fixed in advance",
            made=counted(plan.steps),
            accountant=ACCOUNTANT,
            noise=opendp_noise(facts),
            not_covered=NOT_COVERED,
            warnings=(*seeded, *large_delta(facts["delta"], facts["n"])),
        )


def _key(t: int) -> str:
    number = whole(t)
    if number is None or number < 0:
        raise InputError("a round is a whole number from 0.")
    return f"round/{number}"
