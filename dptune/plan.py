"""How a DP-GIBO run spends its budget: fixed in advance, public, written to the ledger once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from dptune.algorithms.gibo import GIBOSettings
from dptune.errors import InputError
from dptune.scalars import at_least, positive, share


@dataclass(frozen=True)
class GIBOPlan:
    """The settings of a run and the split of its budget mu, in shares of mu^2::

        gradients     1 - start - monitor - final      in T equal releases
        start         one comparison of the starting points
        monitor       the values the framework shows, one a trial
        final         one estimate of the recommended point's loss

    Attributes:
        mu: GDP budget of the whole run.
        settings: DP-GIBO's; ``settings.mu`` and ``settings.start_mu`` are the gradients' and start's shares.
        monitor_share, start_share, final_share: shares of mu^2; 0 withholds the values, needs ``starts=0``,
            and makes no final estimate.
        spare: trials beyond the plan that may still get a value, to replace lost ones.
    """

    mu: float
    settings: GIBOSettings
    monitor_share: float
    start_share: float
    final_share: float
    spare: int

    @classmethod
    def split(
        cls,
        *,
        mu: float,
        settings: GIBOSettings,
        monitor_share: float = 0.1,
        start_share: float = 0.0,
        final_share: float = 0.05,
    ) -> GIBOPlan:
        """Return the plan that divides ``mu``; the prices inside ``settings`` are set by it.

        Raises:
            InputError: a share is out of range, or nothing is left for the gradients.
        """
        shares = {"monitor_share": monitor_share, "start_share": start_share, "final_share": final_share}
        monitor_share, start_share, final_share = (share(name, value) for name, value in shares.items())
        mu = positive("mu", mu)
        start_share = start_share if settings.starts else 0.0
        if settings.starts and start_share == 0:
            raise InputError("starts needs start_share > 0: comparing the starting points is a release too.")
        gradients = 1 - monitor_share - start_share - final_share
        if gradients <= 0:
            raise InputError("the shares leave nothing for the gradients; make monitor_share or final_share smaller.")
        priced = replace(settings, mu=mu * math.sqrt(gradients), start_mu=mu * math.sqrt(start_share))
        spare = 2 * max(settings.batch_at(t) for t in range(settings.steps))
        return cls(mu, priced, monitor_share, start_share, final_share, spare)

    @property
    def trials(self) -> int:
        """Number of trials of a complete run."""
        return self.settings.evaluations

    @property
    def monitor_mu(self) -> float:
        """GDP price of one trial's value; 0 withholds values."""
        return self.mu * math.sqrt(self.monitor_share / (self.trials + self.spare))

    @property
    def gradient_mu(self) -> float:
        """GDP price of one step."""
        return self.settings.mu / math.sqrt(self.settings.steps)

    @property
    def final_mu(self) -> float:
        """GDP price of the final estimate; 0 if there is none."""
        return self.mu * math.sqrt(self.final_share)

    def describe(self) -> dict[str, object]:
        """Return plain JSON data, by which a second process recognises the plan."""
        settings = {**asdict(self.settings), "kernel": self.settings.kernel.describe()}
        settings["rule"] = {"type": type(self.settings.rule).__name__, "eta": self.settings.rule.eta}
        shares = {"monitor": self.monitor_share, "start": self.start_share, "final": self.final_share}
        return {
            "algorithm": "DP-GIBO",
            "mu": self.mu,
            "seed": self.settings.seed,
            "settings": settings,
            "shares": shares,
            "spare": self.spare,
        }


@dataclass(frozen=True)
class ValuePlan:
    """Equal releases of the values of ``trials`` trials, and a final estimate; for any sampler.

    Attributes:
        mu: GDP budget of the whole run.
        trials: number of trials.
        final_share: share of mu^2 kept for the final estimate.
        seed: unused; part of every plan.
    """

    mu: float
    trials: int
    final_share: float = 0.05
    seed: int = 0
    spare: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive("mu", self.mu))
        object.__setattr__(self, "trials", at_least("n_trials", self.trials, 1))
        object.__setattr__(self, "final_share", share("final_share", self.final_share))
        object.__setattr__(self, "seed", at_least("seed", self.seed, 0))

    @property
    def monitor_mu(self) -> float:
        """GDP price of one trial's value."""
        return self.mu * math.sqrt((1 - self.final_share) / self.trials)

    @property
    def final_mu(self) -> float:
        """GDP price of the final estimate; 0 if there is none."""
        return self.mu * math.sqrt(self.final_share)

    def describe(self) -> dict[str, object]:
        """Return plain JSON data, by which a second process recognises the plan."""
        return {"algorithm": "values", **asdict(self)}
