"""What a run starts from: the answers that an earlier run about the same people and space has paid for.

What a ledger has released is free to use again: a run that learns it spends nothing (post-processing). Which answers a
run starts from is fixed in the ledger with its plan, so that restarts and other processes learn the same. ::

    SearchRun(CENTRED, privatizer, scope="svm", space=space, mu=0.7, trials=20)
    SearchRun(CENTRED, privatizer, scope="svm again", space=space, mu=0.5, trials=40, start_from="svm")

A run that *extends* another is such a run, with a name made from the other's and prices that are what is left of the
budget in all: :mod:`dptune.search.extending`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dptune.accounting.ledger import Charge, PrivacyLedger
from dptune.errors import InputError
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.agreement import PRIVATIZER, stored_plan, stored_space
from dptune.space import Space


@dataclass(frozen=True)
class Earlier:
    """What a run starts from.

    Attributes:
        scope: the earlier run. What that one started from is learned, too.
        last: number of the last charge that is learned.
        in_all: of a run that extends the earlier one: ``trials`` and ``mu`` of both together, as the user gave them;
            None: the run has a budget of its own.
    """

    scope: str
    last: int
    in_all: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, ledger: PrivacyLedger, scope: str) -> Earlier | None:
        """Return what the run of this name started from; None if it started from nothing, or has not begun."""
        stored = (stored_plan(ledger, scope) or {}).get("start_from")
        return None if stored is None else cls(**stored)

    @classmethod
    def found(
        cls,
        privatizer: LossPrivatizer,
        scope: str,
        *,
        method: str,
        space: Space | None,
        in_all: Mapping[str, Any] | None = None,
    ) -> Earlier:
        """Return what a run that begins now learns from the run ``scope``: all that is paid by now.

        Raises:
            InputError: the ledger has no such run, or one of another method, space or privatizer.
        """
        ledger = privatizer.ledger
        plan = stored_plan(ledger, scope)
        if plan is None:
            raise InputError(f"start_from={scope!r}: the ledger has no run of that name. `dptune show` lists its runs.")
        same = {
            "method": plan["algorithm"] == method,
            "search space": stored_space(ledger, scope) == space,
            "privatizer (people, clip or precision)": ledger.fact(scope, PRIVATIZER) == privatizer.describe(),
        }
        other = [name for name, agrees in same.items() if not agrees]
        if other:
            raise InputError(
                f"start_from={scope!r}: that run has another {' and another '.join(other)}, so its answers say nothing "
                "here. Begin a run that starts from nothing, or with what the other one has."
            )
        return cls(scope, max((charge.seq for charge in _charges(ledger, scope)), default=0), in_all)

    def describe(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    def plan(self, ledger: PrivacyLedger) -> dict[str, Any]:
        """Return the plan of the earlier run, as it describes itself."""
        return stored_plan(ledger, self.scope) or {}

    def charges(self, ledger: PrivacyLedger) -> list[Charge]:
        """Return the charges that are learned, in the order of the ledger."""
        return [charge for charge in _charges(ledger, self.scope) if charge.seq <= self.last]


def line_of(ledger: PrivacyLedger, scope: str) -> list[str]:
    """Return the names of the run and of those it goes back to, the newest first."""
    names = [scope]
    while (earlier := Earlier.of(ledger, names[-1])) is not None:
        names.append(earlier.scope)
    return names


def _charges(ledger: PrivacyLedger, scope: str) -> list[Charge]:
    found = [charge for name in line_of(ledger, scope) for charge in ledger.news(name, after=0).charges]
    return sorted(found, key=lambda charge: charge.seq)
