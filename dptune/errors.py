"""Every error dptune raises on purpose.

::

    DptuneError
    ├── InputError                       a setting or an array the caller can correct
    │   ├── UnsupportedMetric            a metric that is not a mean over people, or K-fold on private data
    │   ├── ObjectiveRefused             a model or data= that an objective with loss= cannot use; public
    │   └── MessageRefused               a message that a federated server does not take; its round goes on
    │       ├── RoundClosed              a message of a round that was released without it
    │       └── AlreadySent              a second message of the same agent and round
    ├── PrivacyError                     an act that would reveal a private value; nothing was read or spent
    ├── BudgetError
    │   ├── BudgetExhausted              a release the ledger refused, before data was read
    │   │   └── BudgetPlanned            a new run without mu=, where other runs have planned what is left
    │   ├── BudgetMismatch               a ledger reopened with another budget, data set, unit, n or plan
    │   ├── CapReached                   a reply past a user's cap, before anything was measured
    │   └── PlanComplete                 a run that has made all its planned releases
    ├── TrialFailed                      the function failed before any trial of its run succeeded; nothing was charged
    │   └── AllTrialsFailed              all trials of a run's first round failed
    ├── PlaceUnavailable                 a place of private people is away, or answers something else
    ├── KeyConflict                      a release key already used for another question
    ├── LedgerError                      a ledger file that is missing, damaged or of another version
    └── MissingExtra (ImportError)       an optional dependency is not installed

A message names public settings only: never a private value, a count or a position.
"""

from __future__ import annotations

from dptune._numbers import rounded_down


class DptuneError(Exception):
    """Base of all errors raised by dptune."""


class InputError(DptuneError):
    """A setting or an array that the caller can correct.

    It is not a ``ValueError``: ``study.optimize(..., catch=(ValueError,))`` must not hide it.
    """


class UnsupportedMetric(InputError):
    """A metric that is not a mean over people, so that one person's influence has no useful bound."""


class ObjectiveRefused(InputError):
    """A model, or ``data=``, that an objective with ``loss=`` cannot use: by types, shapes and a public row.

    Its text is shown: raise it in no function that sees private rows.
    """


class MessageRefused(InputError):
    """A message that a federated server does not take; nothing was changed."""


class RoundClosed(MessageRefused):
    """A message of a round that was released without it; it counted as 0."""


class AlreadySent(MessageRefused):
    """A second message of the same agent and round; the first one stands."""


class PrivacyError(DptuneError):
    """An act that would let a private value out. Nothing was read and nothing was spent."""


class BudgetError(DptuneError):
    """Base of the errors about budgets."""


class BudgetExhausted(BudgetError):
    """The release would pass the budget; it was refused before data was read.

    Attributes:
        asked: mu of the refused release.
        left: mu still available when it was refused.
        budget: mu of the whole budget.
        said: what a front end says instead, in the user's own unit.
    """

    said = ""

    def __init__(self, asked: float, left: float, budget: float) -> None:
        super().__init__(asked, left, budget)  # which a copy is made from
        self.asked, self.left, self.budget = asked, left, budget

    def __str__(self) -> str:
        if self.said:
            return self.said
        left = rounded_down(self.left, 6)
        again = (
            "A finished run is read again at no cost, under its own name and with its settings. Else raise the budget"
        )
        remedy = "Ask for less" if float(left) else again
        return (
            f"asked for a release with mu={self.asked:.6g}, but only mu={left} of the budget mu={self.budget:.6g} is "
            f"left. Nothing was read or spent. {remedy}, or stop here and report what was spent; a new ledger on the "
            "same people adds to what they have already paid."
        )


class BudgetPlanned(BudgetExhausted):
    """A new run without ``mu=``, where other runs have planned what is not spent; nothing was read.

    Attributes:
        asked, left, budget: mu of the whole budget, mu not spent, and mu of the whole budget.
        runs: names of the runs that hold the rest.
    """

    def __init__(self, left: float, budget: float, runs: tuple[str, ...]) -> None:
        super().__init__(budget, left, budget)
        self.args = (left, budget, runs)
        self.runs = runs

    def __str__(self) -> str:
        if self.said:
            return self.said
        names = ", ".join(repr(run) for run in self.runs[:5]) + (", ..." if len(self.runs) > 5 else "")
        return (
            f"a new run would have too little of the budget mu={self.budget:.6g}: what is not spent, "
            f"mu={rounded_down(self.left, 6)}, is planned by {names}. Nothing was read or spent. Resume a run that is "
            "not complete by its name; or give the new "
            "run mu=, to take what the others have not spent, their final estimates included. Next time share the "
            "budget out beforehand, with mu= for each run; a new ledger on the same people adds to what they have "
            "already paid."
        )


class CapReached(BudgetError):
    """The reply would pass the user's cap; nothing was measured, spent or sent.

    Attributes:
        asked: epsilon of the refused reply.
        left: epsilon the user had left.
        cap: epsilon a user may spend in all.
    """

    def __init__(self, asked: float, left: float, cap: float) -> None:
        super().__init__(asked, left, cap)
        self.asked, self.left, self.cap = asked, left, cap

    def __str__(self) -> str:
        return (
            f"asked for a reply with epsilon={self.asked:.6g}, but only epsilon={rounded_down(self.left, 6)} of this "
            f"user's cap {self.cap:.6g} is left. Nothing was measured or sent. Ask another user."
        )


class BudgetMismatch(BudgetError):
    """A ledger was reopened with another budget, data set, unit, adjacency or n."""


class PlanComplete(BudgetError):
    """The run has made all the releases it planned; nothing was read or spent."""


class TrialFailed(DptuneError):
    """The function failed, and no trial of its run has succeeded yet; nothing was charged."""


class AllTrialsFailed(TrialFailed):
    """The first trials of a run have all failed; nothing was charged."""


class KeyConflict(DptuneError):
    """A release key was already used to ask a different question."""


class PlaceUnavailable(DptuneError):
    """A place of private people is away, late, or answers something else; nothing of its answer was used."""


class LedgerError(DptuneError):
    """The ledger is missing, damaged or of another version."""


class MissingExtra(DptuneError, ImportError):
    """An optional dependency is not installed."""
