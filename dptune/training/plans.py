"""Public plans of private trainings, which fix their cost before the first training.

Notation: z noise multiplier (noise over clipping norm), q sampling rate, K the random number of repeats, Poisson or

    P(K = k) proportional to (1 - gamma)^k Gamma(k + eta) / k!,  k >= 1      truncated negative binomial

with eta = 1 geometric and eta = 0 logarithmic.
Sources: Abadi et al. (2016) for DP-SGD; Papernot & Steinke, *Hyperparameter Tuning with Renyi Differential Privacy*
(arXiv 2110.03620, theorems 2 and 6) for repeat and select.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from random import SystemRandom
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dptune._checks import at_least, check, check_fields, positive, real, shown
from dptune._statement import counted
from dptune.errors import InputError
from dptune.ledger.subsampled import SubsampledGaussian, dp_accounting


@dataclass(frozen=True)
class TrainingPlan:
    """Trainings of which every model may be shown: each is `steps` Poisson-subsampled Gaussian steps (DP-SGD).

    Attributes:
        noise_multiplier: standard deviation of the noise over the clipping norm of a person's gradient; at least 0.1.
        sample_rate: with which a step draws each person, on its own and in secret; in (0, 1].
        steps: of one training, at least 1.
        trainings: how many, at least 1.

    Raises:
        InputError: a setting outside its range.
    """

    noise_multiplier: float = field(metadata=check(positive))
    sample_rate: float = field(metadata=check(positive))
    steps: int = field(metadata=check(at_least, 1))
    trainings: int = field(default=1, metadata=check(at_least, 1))

    def __post_init__(self) -> None:
        check_fields(self)
        self.whole()

    @classmethod
    def of_event(cls, event: Any, *, trainings: int = 1) -> TrainingPlan:
        """Return the plan of a training that another library describes as an event of dp-accounting.

        jax-privacy's ``dp_event`` of an execution plan and its ``dpsgd_event`` are such; jax itself is not needed.

        Raises:
            InputError: the event is not a number of Poisson-sampled Gaussian steps.
            MissingExtra: dp-accounting is not installed.
        """
        dp = dp_accounting()
        match event:
            case dp.SelfComposedDpEvent(
                event=dp.PoissonSampledDpEvent(sampling_probability=q, event=dp.GaussianDpEvent(noise_multiplier=z)),
                count=steps,
            ):
                return cls(z, q, steps, trainings)
        raise InputError(
            "a TrainingPlan is a number of Poisson-sampled Gaussian steps, SelfComposedDpEvent(PoissonSampledDpEvent("
            f"rate, GaussianDpEvent(noise)), steps); got {type(event).__name__}. Other samplings are not supported."
        )

    def whole(self) -> SubsampledGaussian:
        """Return all steps of all trainings as one plan: later ones may depend on earlier models."""
        return SubsampledGaussian(self.sample_rate, self.noise_multiplier, self.steps * self.trainings)

    def event(self) -> Any:
        """Return the plan as dp-accounting names it."""
        return self.whole().event()

    @property
    def charges(self) -> int:
        """Return the number of charges of a ledger."""
        return self.trainings

    def __str__(self) -> str:
        steps = counted(self.steps, "step")
        one = f"{steps}, noise multiplier {self.noise_multiplier:g}, sampling rate {self.sample_rate:g}"
        return f"{self.trainings} trainings of {one} each" if self.trainings > 1 else f"one training of {one}"


@dataclass(frozen=True)
class Repeats:
    """The law of the number of repeats K. Make one with :meth:`geometric`, :meth:`poisson` or :meth:`logarithmic`.

    Attributes:
        mean: of K, at least 1.
        shape: eta >= 0 of the truncated negative binomial; None for Poisson, which may be 0.
    """

    mean: float
    shape: float | None = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", positive("mean", self.mean))
        if not (self.mean > 1 or (self.mean == 1 and self.shape is None)):
            raise InputError(f"the mean number of repeats must be above 1; got {shown(self.mean)}.")
        shape = None if self.shape is None else real(self.shape)
        if (shape is None) != (self.shape is None) or (shape is not None and shape < 0):
            raise InputError(f"shape must be a number >= 0, or None for Poisson; got {shown(self.shape)}.")
        object.__setattr__(self, "shape", shape)

    @classmethod
    def geometric(cls, mean: float) -> Repeats:
        """Return eta = 1: cheap at every mean, and often a single repeat."""
        return cls(mean, 1.0)

    @classmethod
    def logarithmic(cls, mean: float) -> Repeats:
        """Return eta = 0: cheaper still, and a single repeat more often."""
        return cls(mean, 0.0)

    @classmethod
    def poisson(cls, mean: float) -> Repeats:
        """Return a Poisson law: close to its mean, dearer; K may be 0, and then nothing is selected."""
        return cls(mean, None)

    def draw(self) -> int:
        """Draw K from the operating system's randomness: secret, and drawn in every call."""
        return self.quantile(SystemRandom().random())

    def quantile(self, u: float) -> int:
        """Return the smallest k with P(K <= k) >= u, u in [0, 1)."""
        k, log_p = (0, -self.mean) if self.shape is None else (1, self._log_first())  # logarithms do not underflow
        while (u := u - math.exp(log_p)) > 0 and (k < self.mean or math.exp(log_p) > 0):
            log_p += math.log(self._ratio(k))
            k += 1
        return k

    def _ratio(self, k: int) -> float:
        """Return P(K = k + 1) / P(K = k)."""
        return self.mean / (k + 1) if self.shape is None else (1 - self.gamma()) * (k + self.shape) / (k + 1)

    def _log_first(self) -> float:
        """Return log P(K = 1) of the truncated negative binomial."""
        eta = self.shape or 0.0
        log_gamma = math.log(self.gamma())
        log_step = math.log(-math.expm1(log_gamma))
        if eta == 0:
            return log_step - math.log(-log_gamma)
        return log_step + math.log(eta) + eta * log_gamma - math.log(-math.expm1(eta * log_gamma))

    def gamma(self) -> float:
        """Return the parameter of the truncated negative binomial: its mean is eta (1/gamma - 1) / (1 - gamma^eta)."""
        return _gamma(self.mean, self.shape or 0.0)

    def rare(self) -> float:
        """Return the scale of u in :meth:`slope`: an output that is beaten with much less nearly always wins."""
        return 1 / self.mean if self.shape is None else self.gamma()

    def slope(self, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return f'(1 - u) (k,), where f(t) = E[t^K]: the density at which an output wins that is beaten with u."""
        if self.shape is None:
            return self.mean * np.exp(-self.mean * u)
        return self.mean * (1 + (1 / self.gamma() - 1) * u) ** -(1 + self.shape)

    def __str__(self) -> str:
        named = {None: "Poisson", 0.0: "logarithmic", 1.0: "geometric"}
        law = named.get(self.shape, f"truncated negative binomial (shape {self.shape})")
        return f"a {law} number of repeats of mean {self.mean:g}"


@lru_cache
def _gamma(mean: float, eta: float) -> float:
    def excess(log_gamma: float) -> float:
        spread = -math.expm1(eta * log_gamma) / eta if eta else -log_gamma
        return math.expm1(-log_gamma) / spread / mean - 1

    return math.exp(brentq(excess, -50.0 - 2 * math.log(mean), -1e-12, xtol=1e-14))


@dataclass(frozen=True)
class SelectionPlan:
    """Repeat and select: K independent trainings with a private score each, of which the best alone is ever shown.

    One for each population: people who train have a ``training``, people who score a ``score_mu``, people who do both
    have both. The guarantee holds if K and every other training stay secret for good. The K repeats must be
    independent draws from one law: hyperparameters at random, or at random from a public list.

    Attributes:
        repeats: the law of K.
        training: one training of these people; None if they train nothing.
        score_mu: GDP price of one score that is computed on these people; None if they score nothing.
    """

    repeats: Repeats
    training: TrainingPlan | None = None
    score_mu: float | None = field(default=None, metadata=check(positive))

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.repeats, Repeats):
            raise InputError("repeats must be the law of their number, e.g. Repeats.geometric(10).")
        if self.training is None and self.score_mu is None:
            raise InputError("give training=, if these people are trained on, score_mu=, if they score, or both.")
        if self.training is not None and self.training.trainings != 1:
            raise InputError("training must be the plan of one training: repeats says how many there are.")

    def event(self) -> Any:
        """Return the plan as dp-accounting names it."""
        shape = math.inf if self.repeats.shape is None else self.repeats.shape
        return dp_accounting().RepeatAndSelectDpEvent(self.once(), self.repeats.mean, shape)

    def once(self) -> Any:
        """Return one repeat, training and score, as dp-accounting names it."""
        dp = dp_accounting()
        training = [] if self.training is None else [self.training.event()]
        score = [] if self.score_mu is None else [dp.GaussianDpEvent(1 / self.score_mu)]
        return dp.ComposedDpEvent([*training, *score])

    def with_other(self, other: SelectionPlan) -> SelectionPlan | None:
        """Return the same selection as people pay it who have both plans: one trains, the other scores; else None."""
        pairs = ((self.training, other.training), (self.score_mu, other.score_mu))
        if self.repeats != other.repeats or any(None not in pair for pair in pairs):
            return None
        return SelectionPlan(self.repeats, self.training or other.training, self.score_mu or other.score_mu)

    @property
    def charges(self) -> int:
        """Return the number of charges of a ledger: one for all repeats."""
        return 1

    def __str__(self) -> str:
        training = "" if self.training is None else f"; {self.training}"
        score = "" if self.score_mu is None else f"; a score of mu = {self.score_mu:g} each"
        return f"the best of {self.repeats}{training}{score}"


Planned = TrainingPlan | SelectionPlan


def to_json(plan: Planned) -> dict[str, object]:
    """Return a plan as JSON data for the ledger."""
    return {"trainings" if isinstance(plan, TrainingPlan) else "selection": asdict(plan)}


def from_json(stored: Mapping[str, Any]) -> Planned:
    """Return the plan of a ledger's JSON data."""
    if "trainings" in stored:
        return TrainingPlan(**stored["trainings"])
    plan = stored["selection"]
    training = None if plan["training"] is None else TrainingPlan(**plan["training"])
    return SelectionPlan(Repeats(**plan["repeats"]), training, plan["score_mu"])
