"""A release's share of a ledger's budget, the rest of the budget, and a person's risk, in words."""

from __future__ import annotations

import math

from dptune.ledger.approximate import Limits
from dptune.ledger.filter import Divisions
from dptune.ledger.gdp import Budget, Spent
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.privatizer import LossPrivatizer


def share_in_words(budget: Budget, limits: Limits, mu: float) -> str:
    """Return in words how much of a ledger's budget a run takes; ``limits`` are those after its charge."""
    whole = f"mu={budget.mu:.4g}"
    most = budget.mu
    if limits.eta > 0 or mu > budget.mu:  # the budget is divided, or will be
        whole = f"epsilon={budget.stated_epsilon:.4g} at delta={budget.stated_delta:.4g}"
        most = limits.gdp
    part = "all" if mu >= most * (1 - 1e-6) else f"mu={mu:.4g}"
    return f"{part} of the ledger's {whole}"


def left_in_words(ledger: PrivacyLedger, spent: Spent | None = None, *, planned: bool = False) -> str:
    """Return a line on the rest of a ledger's budget; ``planned`` means that runs have planned some of it."""
    if spent is None:
        left = ledger.remaining()
        whole = ledger.mu
        budget = ledger.budget
    else:  # a run has read the ledger just now
        left = ledger.filter.left(spent)
        whole = ledger.filter.exposure.gdp
        budget = ledger.filter.budget
    left = math.floor(1e4 * left) / 1e4
    some = ", some of it planned by this run" if planned else ""
    if budget.stated_epsilon is None or budget.stated_delta is None:
        return f"Budget left: mu={left:g} of {whole:.4g}{some}."
    stated = f"epsilon = {budget.stated_epsilon:g} (delta = {budget.stated_delta:g})"
    return f"Budget left: {f'mu={left:g}' if left else '0'} of {stated}{some}."


def risk_in_words(privatizer: LossPrivatizer, limits: Limits | Divisions) -> str:
    """Return a line on a person's risk from all releases within these limits of the ledger; "" if noise is seeded.

    The attacker knows every other record, and guesses which of two records is the person's (`dptune.ledger.Risk`).
    """
    if not (privatizer.private and privatizer.ledger.private):
        return ""
    right = math.ceil(50 * (1 + limits.delta(0.0)))
    return (
        f"Risk: an attacker who sees every release picks the right one of two records at most {right} times in 100 "
        f"(50 by chance)."
    )
