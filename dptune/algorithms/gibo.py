"""DP-GIBO: differentially private, gradient-informative Bayesian optimisation.

Sopa, Marusic, Avella-Medina, Cunningham, *Scalable Differentially Private Bayesian Optimization*,
Algorithms 1 and 2 and section 3.4; line numbers are Algorithm 1's. Corrections: theory.md, section 3.

    theta_t      iterate in the unit cube [0, 1]^d
    b_t          points evaluated in step t (constant in Algorithm 1, varying in Algorithm 2)
    D_t          all points evaluated so far (m of them), K = k(D_t, D_t) + sigma_n^2 I
    W_t          grad k(theta_t, D_t) K^-1, (d, m): the surrogate gradient of person i is W_t L_i
    B            clipping radius of the per-person gradients
    mu, T        GDP budget of all gradients, number of steps: mu_t = mu / sqrt(T)

Everything here is public: the algorithm proposes points, asks a :class:`MeanQuery`, and is told the
released answer. Where the paper starts at a given theta_0, ``starts`` > 0 first compares that many
quasi-random points by one release of their centred losses (the same primitive: per person the losses
at the points minus their mean, clipped) and starts from the best. ``starts=0`` is the paper's algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from dptune.algorithms.steps import AdaGrad, StepRule
from dptune.errors import InputError
from dptune.gp.design import Design, fit_into_cube, optimised_design, simplex_design
from dptune.gp.kernels import RBF, Kernel, Stationary
from dptune.gp.posterior import GradientPosterior
from dptune.privacy.query import Ball, MeanQuery
from dptune.scalars import at_least, plain, positive, real

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GIBOSettings:
    """All of DP-GIBO's settings, public.

    Attributes:
        d: dimension.
        steps: T, number of gradient releases.
        batch: b, points a step; or one number per step (Algorithm 2).
        mu: GDP budget of the T gradients together.
        clip: B, L2 radius of the per-person gradients, in units of loss per unit of the cube.
        kernel: of the surrogate; data-independent, or fitted on released values only.
        noise_variance: sigma_n^2 of one evaluated loss; must be positive.
        rule: how a released gradient moves theta.
        theta0: start (d,), default the centre of the cube.
        starts, start_mu, start_clip: quasi-random points compared before step 1, the GDP price of the
            comparison and the clipping radius of the centred losses; 0 starts at theta0.
        optimised: choose points by minimising the trace (line 3 as printed) instead of the closed form.
        constant_mean: prior mean an unknown constant instead of the paper's 0: then W_t 1 = 0 and a
            person's overall level of loss does not use up the clipping radius.
        memory: number of past batches whose points stay in D_t; None keeps all, as printed.
        average: number of last iterates whose mean is returned; 1 returns theta_T.
        seed: of the algorithm's own, public randomness.

    Raises:
        InputError: a setting is out of range; names it.
    """

    d: int
    steps: int
    batch: int | tuple[int, ...]
    mu: float
    clip: float
    kernel: Kernel = field(default_factory=lambda: RBF(0.3))
    noise_variance: float = 1e-4
    rule: StepRule = field(default_factory=lambda: AdaGrad(0.1))
    theta0: tuple[float, ...] | None = None
    starts: int = 0
    start_mu: float = 0.0
    start_clip: float = 1.0
    optimised: bool = False
    constant_mean: bool = False
    memory: int | None = None
    average: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("d", "steps", "average"):
            self._set(name, at_least(name, getattr(self, name), 1))
        for name in ("starts", "seed"):
            self._set(name, at_least(name, getattr(self, name), 0))
        for name in ("mu", "clip", "noise_variance", *(("start_mu", "start_clip") if self.starts else ())):
            self._set(name, positive(name, getattr(self, name)))
        if self.memory is not None:
            self._set("memory", at_least("memory", self.memory, 0))
        self._set("batch", plain(self.batch))
        sizes = self.batch if isinstance(self.batch, tuple) else (self.batch,) * self.steps
        if len(sizes) != self.steps:
            raise InputError(f"batch needs one number per step, {self.steps}; got {len(sizes)}.")
        for size in sizes:
            at_least("batch", size, 1)
        if self.theta0 is not None:
            self._set("theta0", _in_cube(self.theta0, self.d))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def batch_at(self, t: int) -> int:
        """Return b_t of step t = 0, ..., T-1."""
        return self.batch if isinstance(self.batch, int) else self.batch[min(t, self.steps - 1)]

    @property
    def evaluations(self) -> int:
        """Number of evaluated points of a complete run."""
        return self.starts + sum(self.batch_at(t) for t in range(self.steps))


class DPGIBO:
    """The algorithm as ask / observe / query / tell; holds public data only.

    One step: ``ask`` for ``batch_left()`` points, evaluate them, ``observe`` each, have ``query()`` answered,
    ``tell`` the answer and begin the ``next_batch``. More points than asked for, or points of one's own, are
    welcome: any point observed is information. Points are in the unit cube.
    """

    def __init__(self, settings: GIBOSettings) -> None:
        self.settings = settings
        self.theta0 = np.array(settings.theta0 or (0.5,) * settings.d, dtype=np.float64)
        self.started = settings.starts == 0
        self.t = 0
        self.gradients: dict[int, Vector] = {}
        self.path: list[Vector] = [self.theta0]
        self._names: list[str] = []
        self._points: list[Vector] = []
        self._batch_of: list[int] = []  # in which batch of this process a point was observed
        self._batches = 0
        self._held = self._empty_posterior()
        self._designs: dict[int, Design] = {}

    @property
    def theta(self) -> Vector:
        """theta_t, (d,)."""
        return self.path[-1]

    @property
    def finished(self) -> bool:
        """Whether all T steps are used."""
        return self.t >= self.settings.steps

    # ---- where to look ---------------------------------------------------------------------------

    def ask(self, slot: int) -> Vector:
        """Line 3: return point number ``slot`` = 0, 1, ... of this step, (d,); beyond b, a fresh design."""
        if not self.started:
            return self._start_point(slot)
        b = self.settings.batch_at(self.t)
        return np.array(self._design(slot // b).points[slot % b])

    def _start_point(self, slot: int) -> Vector:
        count = max(self.settings.starts, slot + 1)
        sobol = qmc.Sobol(self.settings.d, rng=np.random.default_rng([self.settings.seed, 0]))
        points = sobol.random_base2(math.ceil(math.log2(count)) if count > 1 else 0)
        return self.theta0.copy() if slot == 0 else np.asarray(points[slot])

    def _design(self, repeat: int) -> Design:
        """Line 3: the points that minimise the trace of the posterior gradient covariance at theta_t."""
        if repeat not in self._designs:
            rng = np.random.default_rng([self.settings.seed, 1, self.t, repeat])
            self._designs[repeat] = self._new_design(rng)
        return self._designs[repeat]

    def _new_design(self, rng: np.random.Generator) -> Design:
        s, b = self.settings, self.settings.batch_at(self.t)
        if s.optimised:
            return optimised_design(
                self._posterior,
                self.theta,
                b,
                rng,
                starts=OPTIMISED_STARTS,
                iterations=OPTIMISED_ITERATIONS,
                constant_mean=s.constant_mean,
            )
        if not isinstance(s.kernel, Stationary):  # a random frame; the polynomial kernel has no length-scale
            frame = np.linalg.qr(rng.standard_normal((s.d, s.d)))[0]
            offsets = np.concatenate([frame, -frame])[np.arange(b) % (2 * s.d)] * POLYNOMIAL_RADIUS
            return fit_into_cube(self.theta, offsets)
        covariance = self._posterior.covariance(self.theta) if b <= s.d and len(self._posterior) else None
        return simplex_design(self.theta, s.kernel, s.noise_variance, b, rng, covariance=covariance)

    # ---- what was looked at ------------------------------------------------------------------------

    def observe(self, name: str, x: Vector) -> None:
        """Line 5: the losses at x (d,) are with the curator under ``name``; told twice, counted once."""
        if name in self._names:
            return
        self._names.append(name)
        self._points.append(np.array(x, dtype=np.float64))
        self._batch_of.append(self._batches)

    def batch_left(self) -> int:
        """Return how many more points this step needs before it can ask its question; <= 0 means ready."""
        needed = self.settings.batch_at(self.t) if self.started else self.settings.starts
        return needed - self._batch_of.count(self._batches)

    # ---- what to know ------------------------------------------------------------------------------

    def query(self) -> MeanQuery:
        """Lines 6-7: the mean over people of the surrogate gradient at theta_t, clipped to B.

        Raises:
            InputError: the step has no points yet, or the run is finished.
        """
        if self.finished or not self._names:
            raise InputError("there is nothing to ask: observe points first, or the run is finished.")
        return self._gradient_query() if self.started else self._start_query()

    def _gradient_query(self) -> MeanQuery:
        s = self.settings
        W = self._posterior.weights(self._design(0).centre, constant_mean=s.constant_mean)  # (d, m)
        return MeanQuery(tuple(self._names), W, Ball(s.clip), s.mu / math.sqrt(s.steps))

    def _start_query(self) -> MeanQuery:
        m = len(self._names)
        return MeanQuery(tuple(self._names), np.eye(m) - 1 / m, Ball(self.settings.start_clip), self.settings.start_mu)

    # ---- what was learned --------------------------------------------------------------------------

    def start_points(self) -> Matrix:
        """Return the points that :meth:`query` compares before the first step, (k, d)."""
        return np.array(self._points)

    def tell_start(self, points: Matrix, value: Vector) -> None:
        """theta_0 is the point of ``points`` (k, d) with the smallest released loss, ``value`` (k,)."""
        self.theta0 = np.array(points[int(np.argmin(value))], dtype=np.float64)
        self.skip_start()

    def skip_start(self) -> None:
        """Go on from theta_0 as it is."""
        self.started = True
        self._replay()

    def tell(self, gradient: Vector, *, step: int | None = None) -> None:
        """Line 8: theta_{t+1} = Pi(theta_t + step of the rule), from a released gradient (d,).

        Args:
            gradient: the answer to :meth:`query`.
            step: its number 1, ..., T; default the next one. Answers may come out of order (from other
                processes): the iterate is always the fold over the answers by number.
        """
        step = self.t + 1 if step is None else step
        in_order = not self.gradients or step > max(self.gradients)
        self.gradients[step] = np.array(gradient, dtype=np.float64)
        self.t = max(self.t, step)
        if in_order:
            self._append_iterate([self.gradients[i] for i in sorted(self.gradients)])
        else:
            self._replay()

    def use_up(self, step: int) -> None:
        """Step number ``step`` is paid and its answer is not known (yet): it is not asked again."""
        if step > self.t:
            self.t = step
            self._designs.clear()

    def next_batch(self) -> None:
        """Begin a batch: the points so far have been asked about, and those beyond ``memory`` are forgotten."""
        self._batches += 1
        self._designs.clear()
        if self.settings.memory is not None:
            self._keep([i for i, k in enumerate(self._batch_of) if k >= self._batches - self.settings.memory])

    def _append_iterate(self, gradients: list[Vector]) -> None:
        moved = self.theta + self.settings.rule.step(np.array(gradients))
        self.path.append(np.clip(moved, 0.0, 1.0))
        self._designs.clear()

    def _replay(self) -> None:
        self.path = [self.theta0]
        self._designs.clear()
        ordered = [self.gradients[i] for i in sorted(self.gradients)]
        for t in range(len(ordered)):
            self._append_iterate(ordered[: t + 1])

    def recommend(self) -> Vector:
        """Return the mean of the last ``average`` iterates, (d,)."""
        return np.asarray(np.mean(self.path[-self.settings.average :], axis=0))

    def points_in_use(self) -> tuple[str, ...]:
        """Return the names of the points of D_t; the curator may forget the others."""
        return tuple(self._names)

    def _keep(self, kept: list[int]) -> None:
        if len(kept) == len(self._names):
            return
        self._names = [self._names[i] for i in kept]
        self._points = [self._points[i] for i in kept]
        self._batch_of = [self._batch_of[i] for i in kept]
        self._held = self._empty_posterior()

    @property
    def _posterior(self) -> GradientPosterior:
        """The posterior of D_t. Points join it when it is next needed, as one block: a batch costs one solve."""
        if len(self._held) < len(self._points):
            self._held.append(np.array(self._points[len(self._held) :]))
        return self._held

    def _empty_posterior(self) -> GradientPosterior:
        return GradientPosterior(self.settings.kernel, self.settings.noise_variance, self.settings.d)


OPTIMISED_STARTS, OPTIMISED_ITERATIONS = 1, 30  # from the closed form; see docs/benchmarks.md for its cost
POLYNOMIAL_RADIUS = 0.1  # distance of the points from theta under a kernel without a length-scale


def training_mu(mu: float, *, batch: int, steps: int) -> float:
    """Section 3.4, corrected: the GDP budget of each of the b T private trainings, mu / sqrt(b T).

    The printed mu / (b sqrt(T)) is valid too, and noisier than need be by sqrt(b).
    """
    return positive("mu", mu) / math.sqrt(at_least("batch", batch, 1) * at_least("steps", steps, 1))


def _in_cube(theta: Iterable[float], d: int) -> tuple[float, ...]:
    point = tuple(real(x) for x in theta) if isinstance(theta, Iterable) else ()
    inside = tuple(x for x in point if x is not None and 0 <= x <= 1)
    if len(point) != d or len(inside) != d:
        raise InputError(f"theta0 must be {d} numbers in [0, 1].")
    return inside
