"""A ledger whose budget is one plan of Poisson-subsampled releases, fixed at creation and accounted by PLD.

Subsampled mechanisms have no useful price in GDP (their tails are not amplified), and checking a PLD before each
*adaptively chosen* release is not sound. So the ledger holds the plan (q, z, T) and nothing else: rounds 0..T-1, each
charged once, in order, before a message is read. A round past the plan, or with another q or z, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from dptune._numbers import whole
from dptune.accounting.durable import DurableLedger
from dptune.accounting.entries import Charge, described
from dptune.accounting.events import SubsampledGaussianRelease
from dptune.accounting.ledger import PrivacyLedger
from dptune.accounting.plan_statement import PlanStatement
from dptune.accounting.subsampled import SubsampledGaussianPlan
from dptune.errors import InputError, LedgerError, PlanComplete

ZERO_OUT = "zero out one agent: all its messages become 0, with the number of agents, regions, weights and plan public"
TRUSTED_SERVER = (
    "trusted server: it reads every message and keeps the samples secret; agents and everybody else see the noisy "
    "broadcasts only"
)
_SCOPE = "rounds"


class PlanLedger(DurableLedger):
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
        agents = whole(n)
        if (agents is None or agents < 1) and not (plan is None and n is None):
            raise InputError(f"n must be the number of agents, a whole number >= 1; got {n!r}.")
        first = None if plan is None else _first_row(plan, dataset or "agents' observations", unit or "one agent")
        super().__init__(url, first, "" if plan is None else repr(plan))
        stored = self._row["plan"]
        if stored is None:
            raise LedgerError(f"the ledger {self._name} holds a budget in GDP, not a plan; open it with PrivacyLedger.")
        self.plan = SubsampledGaussianPlan(**stored)
        self._refuse_mismatch("plan", plan, self.plan)
        self._refuse_mismatch("dataset", dataset, self.dataset)
        self._refuse_mismatch("unit", unit, self.unit)
        if agents is not None:
            self.bind_people(agents)

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
        return PlanStatement(
            dataset=self.dataset,
            unit=self.unit,
            adjacency=self.adjacency,
            trust_model=self.trust_model,
            n=self.n,
            plan=self.plan,
            delta=delta,
            mechanisms=self._mechanisms(),
            private=self.private,
            versions=dict(self._row["versions"]),
        )

    def __repr__(self) -> str:
        return f"PlanLedger({self._name!r}, {self.plan!r})"


def open_ledger(url: str | Path) -> PrivacyLedger | PlanLedger:
    """Open an existing ledger, whichever rule it holds.

    Raises:
        LedgerError: there is none, or the database cannot be used.
    """
    found = DurableLedger(url, None, "")
    return PrivacyLedger(url) if found._row["plan"] is None else PlanLedger(url)


def _key(t: int) -> str:
    number = whole(t)
    if number is None or number < 0:
        raise InputError("a round is a whole number from 0.")
    return f"round/{number}"


def _first_row(plan: SubsampledGaussianPlan, dataset: str, unit: str) -> dict[str, object]:
    return {
        "plan": asdict(plan),
        "dataset": dataset,
        "unit": unit,
        "adjacency": ZERO_OUT,
        "trust_model": TRUSTED_SERVER,
    }
