"""Privatised values for any sampler: one release a trial, everything else is post-processing."""

from __future__ import annotations

from collections.abc import Mapping

from dptune.plan import ValuePlan
from dptune.privacy.privatizer import LossPrivatizer
from dptune.run import VALUE, Losses, Run, agree_on_plan
from dptune.space import Value


class ValueRun(Run):
    """Equal releases of the trials' mean clipped losses in one scope of a ledger.

    Args:
        privatizer: holds the losses and pays.
        scope: the run's name in the ledger.
        trials: number of trials the budget is divided among.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when it begins.
        final_share: share of mu^2 kept for a final estimate of the chosen parameters' loss.

    Raises:
        BudgetMismatch: an earlier process planned this scope differently, or with another privatizer.
        BudgetExhausted: the ledger has not that much left for a new run.
    """

    def __init__(
        self,
        privatizer: LossPrivatizer,
        *,
        scope: str,
        trials: int,
        mu: float | None = None,
        final_share: float = 0.05,
    ) -> None:
        self.plan = agree_on_plan(
            privatizer,
            scope,
            make_plan=lambda budget, seed: ValuePlan(budget, trials, final_share, seed),
            mu=mu,
            seed=0,
        )
        super().__init__(privatizer, scope, self.plan)

    @property
    def complete(self) -> bool:
        """Whether all planned values are released."""
        return self.ledger.count(self.scope, prefix=VALUE) >= self.plan.trials

    def finish(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> float:
        """Take a trial's losses (rows,), or None if the evaluation failed, and release its value.

        Raises:
            InputError: the losses have the wrong shape or dtype.
            BudgetExhausted: the value does not fit; nothing was read.
        """
        point = self.take(trial, parameters, losses)
        try:
            return self.release_value(VALUE + trial, point, parameters, self.plan.monitor_mu).value
        finally:
            self.privatizer.forget(point)

    def progress(self) -> dict[str, object]:
        """Return released facts only, for a dashboard."""
        return {
            "private": self.ledger.private and self.privatizer.private,
            "mu_budget": self.ledger.budget.mu,
            "mu_spent": self.ledger.spent(),
            "trials_planned": self.plan.trials,
        }
