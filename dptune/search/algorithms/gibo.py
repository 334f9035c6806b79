"""DP-GIBO: differentially private, gradient-informative Bayesian optimisation.

Sopa, Marusic, Avella-Medina, Cunningham, *Differentially Private Hyperparameter Tuning using Local Bayesian
Optimization* (arXiv 2502.06044), Algorithm 1 and section 3.4; line numbers are Algorithm 1's.
Correction of section 3.4: a training that is itself private has mu / sqrt(b T), not mu / (b sqrt(T)).

    theta_t      iterate in the unit cube [0, 1]^d
    b_t          points evaluated in step t: constant in Algorithm 1, or given. (Algorithm 2, which chooses
                 b_t = min{b : trace <= tolerance}, is not implemented.)
    D_t          all points evaluated so far (m of them), K = k(D_t, D_t) + sigma_n^2 I
    W_t          grad k(theta_t, D_t) K^-1, (d, m): the surrogate gradient of person i is W_t L_i
    B            clipping radius of the per-person gradients
    mu, T        GDP budget of all gradients, number of steps: mu_t = mu / sqrt(T)

Everything here is public: the algorithm proposes points, makes a :class:`MeanQuery`, and learns the released answer.
The paper starts at a given theta_0 (``starts=0``). ``starts`` > 0 first compares that many quasi-random points and
starts from the best. One release compares their centred losses: per person the losses minus their mean, clipped.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import scipy  # loads its subpackages when they are used

from dptune._arrays import Matrix, Vector
from dptune._checks import Checked, at_least, between, boolean, check, check_fields, positive
from dptune.errors import InputError
from dptune.privacy.query import Ball, MeanQuery, Question
from dptune.search.algorithms.rounds import Rounds, Statistic
from dptune.search.gp.design import Design, fit_into_cube, simplex_design
from dptune.search.gp.kernels import RBF, Kernel, Stationary
from dptune.search.gp.posterior import GradientPosterior

START = "start"  # key of the comparison of the starting points
POLYNOMIAL_RADIUS = 0.1  # distance of the points from theta under a kernel without a length-scale


# ---- how a released gradient moves the iterate ---------------------------------------------------------------------

_NOTHING = 1e-150  # squares of smaller sizes underflow: no step


@dataclass(frozen=True)
class StepRule(ABC, Checked):
    """Turns the gradients released so far into the next displacement: a pure function of them.

    ``eta`` is the step size, in units of the unit cube for the adaptive rules.
    """

    eta: float = field(metadata=check(positive))

    @abstractmethod
    def step(self, gradients: Matrix) -> Vector:
        """Return the displacement (d,) after the last of the gradients (t, d), t >= 1."""


@dataclass(frozen=True)
class GradientDescent(StepRule):
    """-eta g_t: line 8 of GIBO's Algorithm 1."""

    def step(self, gradients: Matrix) -> Vector:
        return np.asarray(-self.eta * gradients[-1])


@dataclass(frozen=True)
class AdaGrad(StepRule):
    """-eta g_t / sqrt(sum_s g_s^2), coordinate by coordinate (Duchi, Hazan, Singer 2011)."""

    def step(self, gradients: Matrix) -> Vector:
        size = np.sqrt(np.sum(gradients**2, axis=0))
        return np.asarray(-self.eta * gradients[-1] / np.maximum(size, _NOTHING))


@dataclass(frozen=True)
class AdaGradNorm(StepRule):
    """-eta sqrt(d) g_t / sqrt(sum_s |g_s|^2): one adaptive step size for all coordinates.

    (Ward, Wu, Bottou 2020.) A coordinate whose gradient is mostly noise moves little, where
    :class:`AdaGrad` would move it as far as the others.
    """

    def step(self, gradients: Matrix) -> Vector:
        size = math.sqrt(max(float(np.sum(gradients**2)), np.finfo(float).tiny))
        return np.asarray(-self.eta * math.sqrt(gradients.shape[1]) * gradients[-1] / size)


# ---- settings ------------------------------------------------------------------------------------------------------


def _sizes(name: str, value: object) -> int | tuple[int, ...]:
    return tuple(at_least(name, each, 1) for each in value) if isinstance(value, tuple) else at_least(name, value, 1)


def _in_cube(name: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, Iterable):
        raise InputError(f"{name} must be numbers in [0, 1], one for each coordinate.")
    return tuple(between(name, x, 0.0, 1.0) for x in value)


@dataclass(frozen=True)
class GIBOSettings:
    """All of DP-GIBO's settings, public.

    Attributes:
        steps: T, number of gradient releases.
        batch: b, points a step; or one number per step.
        mu: GDP budget of the T gradients together.
        clip: B, L2 radius of the per-person gradients, in units of loss per unit of the cube.
        kernel: of the surrogate; data-independent, or fitted on released values only.
        noise_variance: sigma_n^2 of one evaluated loss; must be positive.
        rule: how a released gradient moves theta.
        theta0: start (d,), default the centre of the cube.
        starts, start_mu, start_clip: quasi-random points compared before step 1, the GDP price of the
            comparison and the clipping radius of the centred losses; 0 starts at theta0.
        constant_mean: prior mean an unknown constant instead of the paper's 0. Then W_t 1 = 0, and a person's overall
            level of loss does not use up the clipping radius.
        memory: number of past batches whose points stay in D_t; None keeps all, as printed.
        average: number of last iterates whose mean is returned; 1 returns theta_T.
    """

    d: int = field(metadata=check(at_least, 1))
    steps: int = field(metadata=check(at_least, 1))
    batch: int | tuple[int, ...] = field(metadata=check(_sizes))
    mu: float = field(metadata=check(positive))
    clip: float = field(metadata=check(positive))
    kernel: Kernel = field(default_factory=lambda: RBF(0.3))
    noise_variance: float = field(default=1e-4, metadata=check(positive))
    rule: StepRule = field(default_factory=lambda: AdaGrad(0.1))
    theta0: tuple[float, ...] | None = field(default=None, metadata=check(_in_cube))
    starts: int = field(default=0, metadata=check(at_least, 0))
    start_mu: float = 0.0
    start_clip: float = 1.0
    constant_mean: bool = field(default=False, metadata=check(boolean))
    memory: int | None = field(default=None, metadata=check(at_least, 0))
    average: int = field(default=1, metadata=check(at_least, 1))
    seed: int = field(default=0, kw_only=True, metadata=check(at_least, 0))

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("start_mu", "start_clip") if self.starts else ():
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        if isinstance(self.batch, tuple) and len(self.batch) != self.steps:
            raise InputError(f"batch needs one number per step, {self.steps}; got {len(self.batch)}.")
        if self.theta0 is not None and len(self.theta0) != self.d:
            raise InputError(f"theta0 must be {self.d} numbers in [0, 1]; got {len(self.theta0)}.")

    def batch_at(self, t: int) -> int:
        """Return b_t of step t = 0, ..., T-1."""
        return self.batch if isinstance(self.batch, int) else self.batch[min(t, self.steps - 1)]

    @property
    def step_mu(self) -> float:
        """Return mu / sqrt(T), the GDP price of one step."""
        return self.mu / math.sqrt(self.steps)

    def statistics(self) -> tuple[Statistic, ...]:
        """Return a step's gradient."""
        return (Statistic("a gradient's coordinate", self.clip, self.d, self.step_mu),)

    def describe(self) -> dict[str, object]:
        """Return the settings as plain JSON data."""
        rule = {"type": type(self.rule).__name__, "eta": self.rule.eta}
        return {**asdict(self), "kernel": self.kernel.describe(), "rule": rule}

    @property
    def evaluations(self) -> int:
        """Return the number of evaluated points of a complete run."""
        return self.starts + sum(self.batch_at(t) for t in range(self.steps))


class DPGIBO(Rounds):
    """The algorithm; holds public data only. See :class:`dptune.search.algorithms.rounds.Rounds` for its use.

    One step: ``ask`` for ``missing()`` points, evaluate them, ``observe`` each, have the ``question()`` answered and
    ``learn`` the answer. It accepts more points than it asked for, and other points: any point observed is
    information. Points are in the unit cube.
    """

    unit = "step"

    def __init__(self, settings: GIBOSettings) -> None:
        super().__init__(settings)
        self.theta0 = np.array(settings.theta0 or (0.5,) * settings.d, dtype=np.float64)
        self.started = settings.starts == 0
        self.path: list[Vector] = [self.theta0]
        self._gradients: list[Vector] = []  # the released gradients
        self._batch_of: dict[str, int] = {}  # point -> the batch of this process in which it was observed
        self._batches = 0
        self._held = self._empty_posterior()
        self._designs: dict[int, Design] = {}
        self._starts = np.zeros((0, settings.d))  # the quasi-random points so far

    @property
    def theta(self) -> Vector:
        """Return theta_t, (d,)."""
        return self.path[-1]

    @property
    def rounds(self) -> int:
        """Return T."""
        return int(self.settings.steps)

    @property
    def batch(self) -> int:
        """Return b_t, or the number of starting points before the first step."""
        return int(self.settings.batch_at(self.t)) if self.started else int(self.settings.starts)

    # ---- where to look ---------------------------------------------------------------------------

    def ask(self, slot: int) -> Vector:
        """Line 3: return point number ``slot`` = 0, 1, ... of this step, (d,); beyond b, a fresh design."""
        if not self.started:
            return self._start_point(slot)
        return np.array(self._design(slot // self.batch).points[slot % self.batch])

    def _start_point(self, slot: int) -> Vector:
        if slot >= len(self._starts):
            count = max(self.settings.starts, slot + 1)
            sobol = scipy.stats.qmc.Sobol(self.settings.d, rng=np.random.default_rng([self.settings.seed, 0]))
            self._starts = sobol.random_base2(math.ceil(math.log2(count)))
        return self.theta0.copy() if slot == 0 else np.array(self._starts[slot])

    def _design(self, repeat: int) -> Design:
        """Line 3: return points of small trace of the posterior gradient covariance at theta_t, in closed form."""
        if repeat not in self._designs:
            rng = np.random.default_rng([self.settings.seed, 1, self.t, repeat])
            self._designs[repeat] = self._new_design(rng)
        return self._designs[repeat]

    def _new_design(self, rng: np.random.Generator) -> Design:
        s, b = self.settings, self.batch
        if not isinstance(s.kernel, Stationary):  # a random frame; the polynomial kernel has no length-scale
            frame = np.linalg.qr(rng.standard_normal((s.d, s.d)))[0]
            offsets = np.concatenate([frame, -frame])[np.arange(b) % (2 * s.d)] * POLYNOMIAL_RADIUS
            return fit_into_cube(self.theta, offsets)
        covariance = self._posterior.covariance(self.theta) if b <= s.d and len(self._posterior) else None
        return simplex_design(self.theta, s.kernel, s.noise_variance, b, rng, covariance=covariance)

    def observe(self, name: str, x: Vector) -> None:
        """Line 5: the losses at x (d,) are with the curator under ``name``; observed twice, counted once."""
        self._batch_of.setdefault(name, self._batches)
        super().observe(name, x)

    # ---- queries -----------------------------------------------------------------------------------

    def price(self) -> float:
        return float(self.settings.step_mu if self.started else self.settings.start_mu)

    def next_question(self) -> Question:
        """Lines 6-7: the mean over people of the surrogate gradient at theta_t, clipped to B; or the best start."""
        s, names = self.settings, tuple(self._points)
        if self.started:
            W = self._posterior.weights(self._design(0).centre, constant_mean=s.constant_mean)  # (d, m)
            query = MeanQuery(names, W, Ball(s.clip), s.step_mu)
            return Question(f"step/{self.t + 1}", query, {"theta": self.theta.tolist()})
        m = len(names)
        query = MeanQuery(names, np.eye(m) - 1 / m, Ball(s.start_clip), s.start_mu)
        return Question(START, query, {"points": self.points_at(names).tolist()})

    # ---- learning ----------------------------------------------------------------------------------

    def learn(self, key: str, note: Mapping[str, Any], answer: Vector | None, sigma: float, *, own: bool) -> None:
        """Line 8: theta_{t+1} = Pi(theta_t + step of the rule), from a released gradient (d,).

        Or theta_0, the point with the smallest released loss, from the comparison of the starting points (k,).
        """
        if own or (key == START and self._batches == 0):  # starting points are too far apart for a first step
            self._next_batch()
        self._designs.clear()
        if key == START:
            self.started = True
            if answer is not None:
                self.theta0 = np.array(note["points"][int(np.argmin(answer))], dtype=np.float64)
                self.path = [self.theta0]
            return
        self.t += 1
        if answer is not None:
            self._gradients.append(answer)
            step = self.settings.rule.step(np.array(self._gradients))
            self.path.append(np.clip(self.theta + step, 0.0, 1.0))

    def _next_batch(self) -> None:
        """Begin a batch after a query about the points so far; forget points beyond ``memory``."""
        self._batches += 1
        self._waiting.clear()
        if self.settings.memory is not None:
            oldest = self._batches - self.settings.memory
            kept = {name for name in self._points if self._batch_of[name] >= oldest}
            if len(kept) < len(self._points):
                self.keep(kept)
                self._held = self._empty_posterior()

    def restarted(self) -> Self:
        again = super().restarted()
        again._batch_of = dict(self._batch_of)
        again._batches = self._batches
        return again

    def recommend(self) -> Vector:
        """Return the mean of the last ``average`` iterates, (d,)."""
        return np.asarray(np.mean(self.path[-self.settings.average :], axis=0))

    @property
    def _posterior(self) -> GradientPosterior:
        """Return the posterior of D_t; the next use appends new points as one block, in one solve."""
        if len(self._held) < len(self._points):
            self._held.append(np.array(list(self._points.values())[len(self._held) :]))
        return self._held

    def _empty_posterior(self) -> GradientPosterior:
        return GradientPosterior(self.settings.kernel, self.settings.noise_variance, self.settings.d)
