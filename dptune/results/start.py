"""Checks whether a release under a new name can begin, and with how much of the ledger's budget."""

from __future__ import annotations

from dptune.errors import BudgetExhausted, BudgetPlanned
from dptune.ledger.filter import Allowance
from dptune.ledger.ledger import PLAN, PrivacyLedger


def check_start(ledger: PrivacyLedger, scope: str, mu: float | None, *, choice_share: float = 1.0) -> None:
    """Refuse a run that could not begin with ``mu``, or with the budget that is neither spent nor planned."""
    try:
        rest = ledger.allowance()
        if mu is not None and not (rest.divides and mu <= rest.whole(choice_share)):
            ledger.check(mu)
        share_of(rest, mu, ledger.budget.mu, choice_share)
    except BudgetExhausted:
        if ledger.fact(scope, PLAN) is None:  # looked up last: another thread or process may have started the run
            raise


def usual_share(ledger: PrivacyLedger, mu: float | None, *, choice_share: float = 0.0) -> float:
    """Return the budget with which a new run would begin; the whole budget if none is left."""
    return mu if mu is not None else ledger.allowance().whole(choice_share) or ledger.budget.mu


def share_of(rest: Allowance, mu: float | None, budget: float, choice_share: float) -> float:
    """Return the GDP budget of a release that begins now; raise if nothing is left for it."""
    share = rest.whole(choice_share) if mu is None else mu
    if share > 0:
        return share
    if rest.left > 0:
        raise BudgetPlanned(rest.left, budget, rest.holders)
    raise BudgetExhausted(budget, 0.0, budget)
