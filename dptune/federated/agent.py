"""An agent of DP-FTS-DE: its Gaussian process, messages and choices, from its own data and the broadcasts.

Source: Dai, Low, Jaillet (NeurIPS 2021), Algorithm 2, whose lines are cited below. Settings and notation are in
:mod:`dptune.federated.settings`. An agent maximises its values y.

An agent's data is private towards the other agents. The agent itself, and everyone who sees where it evaluates, is
trusted with it. Only :meth:`FTSAgent.message` leaves an agent, and only a trusted server may read messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array
from dptune._checks import at_least, kind, real, shown, whole
from dptune.errors import InputError
from dptune.federated.settings import FTSSettings
from dptune.search.gp.features import FeaturePosterior, FourierFeatures, ascend
from dptune.search.gp.fit import Hyperparameters, fit
from dptune.search.gp.points import FloatArray, as_points, as_vector, sobol_candidates

_SAME = 1e-6  # distance within which two points of the cube count as one
_EDGE = 1e-9
_TRIES = 16  # tries to find a new initial point if points are rounded
_CLIMBERS, _LOOKED_AT = 5, 64
LARGEST_VALUE = 1e100  # squares of larger values would overflow
_FITTED = 4  # with fewer observations, hyperparameters stay at their prior
_INITIAL, _MESSAGE, _CHOICE, _OWN = range(4)  # streams of an agent's random numbers


def _apart(points: FloatArray, distance: float) -> list[int]:
    """Return rows of points (m, d) that are ``distance`` apart, so that each climbs to another maximum."""
    chosen = [0]
    free = np.ones(len(points), dtype=bool)
    while len(chosen) < _CLIMBERS:
        free &= np.abs(points - points[chosen[-1]]).max(axis=1) >= distance
        if not free.any():
            break
        chosen.append(int(free.argmax()))
    return chosen


def _itself(x: FloatArray) -> FloatArray:
    return x


@dataclass(frozen=True, eq=False)
class Domain:
    """The points that an agent may evaluate: a finite set in the unit cube, or the whole cube [0, 1]^d.

    Attributes:
        points: (m, d), the starting points of the search for the largest value, or all points of a finite set.
        whole: whether the cube is searched, from the points by exact gradients.
        snap: maps a proposed point (d,) to the point that is evaluated and observed.
    """

    points: FloatArray
    whole: bool = False
    snap: Callable[[FloatArray], FloatArray] = _itself


def cube(settings: FTSSettings, snap: Callable[[FloatArray], FloatArray] = _itself) -> Domain:
    """Return the unit cube, searched from Sobol candidates."""
    return Domain(sobol_candidates(settings.d, settings.candidates, seed=settings.seed), whole=True, snap=snap)


class FTSModel:
    """The public part that all agents have in common and may share in memory: features, candidates and their regions.

    ``domain`` is where agents may evaluate; default the cube.
    """

    def __init__(self, settings: FTSSettings, domain: Domain | None = None) -> None:
        s = self.settings = settings
        self.domain = cube(settings) if domain is None else domain
        self.features = s.features()
        self.own_features = FourierFeatures.draw(d=s.d, M=s.own_features, lengthscale=1.0, seed=s.seed + 1)
        self.points32 = self.domain.points.astype(np.float32)
        self.Phi = self.features(as_points(self.domain.points, s.d))  # (m, M)
        self.regions = s.region_of(self.domain.points)  # (m,)


class FTSAgent:
    """Agent n, from 0: it learns from observations, and returns messages and the next point.

    Every random choice depends only on (seed, agent, round), so an agent rebuilt from its observations repeats it. By
    default the operating system draws the seed.
    """

    def __init__(self, model: FTSModel, agent: int, *, seed: int | None = None) -> None:
        number = whole(agent)
        if number is None or not 0 <= number < model.settings.agents:
            raise InputError(f"agents are numbered 0 to {model.settings.agents - 1}; got {shown(agent)}.")
        self.model = model
        self.settings = model.settings
        self.agent = number
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
        self._seed = drawn if seed is None else at_least("seed", seed, 0, 2**128)
        self._X: list[FloatArray] = []
        self._Phi: list[FloatArray] = []  # shared features of the observed points
        self.values: list[float] = []
        self._own = Hyperparameters.prior(self.settings.d)
        self._fitted = 0  # number of observations at the last fit

    def tell(self, x: npt.ArrayLike, y: float) -> None:
        """Add an observation, larger is better; x is a point of the cube (d,), y finite and below 1e100 in magnitude.

        Raises:
            InputError: x or y is something else.
        """
        point = as_vector(x, self.settings.d, name="x")
        if not ((point >= -_SAME) & (point <= 1 + _SAME)).all():
            raise InputError("x must lie in the unit cube.")
        value = real(y)
        if value is None or abs(value) >= LARGEST_VALUE:
            raise InputError(
                f"a value must be a finite number below {LARGEST_VALUE:g}; got {kind(y)}. Leave out an evaluation that "
                "failed."
            )
        self._X.append(point.copy())
        self._Phi.append(self.model.features(point[None])[0])
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def X(self) -> FloatArray:
        """Return the observed points (m, d)."""
        return np.array(self._X).reshape(-1, self.settings.d)

    @property
    def y(self) -> FloatArray:
        """Return the observed values (m,), standardised: mean 0, standard deviation 1."""
        values = np.array(self.values)
        return np.asarray((values - values.mean()) / (values.std() or 1.0)) if len(values) else values

    def initial_point(self, k: int) -> FloatArray:
        """Return the k-th initial point (d,), uniform in the agent's own region (line 1)."""
        rng = self._rng(_INITIAL, k)
        region = self.settings.assigned(self.agent)
        if not self.model.domain.whole:
            order = rng.permutation(len(self.model.regions))
            mine = self.model.regions[order] == region
            return self._not_yet(self.model.domain.points[np.concatenate([order[mine], order[~mine]])])
        low, high = self.settings.box(np.array([region]))
        return self._not_yet(rng.uniform(low[0], high[0], (_TRIES, self.settings.d)))

    def message(self, t: int) -> FloatArray:
        """Return line 8's omega_n ~ N(nu, lambda Sigma^-1) (M,), for the trusted server only."""
        Phi = np.array(self._Phi).reshape(-1, self.settings.M)  # (m, M)
        posterior = FeaturePosterior(Phi, self.y, self.settings.noise)
        return posterior.sample(self._rng(_MESSAGE, t), spread=self.settings.spread)

    def ask(self, t: int, broadcast: FloatArray | None) -> FloatArray:
        """Return the point (d,) to evaluate in round t, from 0 (lines 2-6).

        ``broadcast`` is the noisy sums of round t, (P, M). Without a broadcast (None) the agent follows its own sample.
        """
        follow = self._rng(_CHOICE, t).random() < self.settings.joint_chance(t)
        return self.joint_point(broadcast, t) if follow and broadcast is not None else self.own_point(t)

    def joint_point(self, broadcast: FloatArray, t: int) -> FloatArray:
        """Return the argmax of phi(x).omega^(i[x]) over the domain, i[x] the region of x (line 5)."""
        m = self.model
        omega = as_points(broadcast, self.settings.M, name="broadcast")  # (P, M)
        values = np.einsum("mk,mk->m", m.Phi, omega[m.regions]) if len(omega) > 1 else m.Phi @ omega[0]
        return self._best(values, m.features, omega, self.settings.lengthscale)

    def own_point(self, t: int) -> FloatArray:
        """Return the argmax of the agent's own Thompson sample (lines 3-4)."""
        own = self.hyperparameters()
        X = self.X
        features = FourierFeatures(self.model.own_features.frequencies, own.lengthscale)
        posterior = FeaturePosterior(features(X), self.y, own.noise / own.variance)
        spread = float(np.sqrt(own.variance))  # lambda Sigma^-1 is in units of the kernel's variance
        omega = posterior.sample(self._rng(_OWN, t), spread=spread)
        values = features.rough_values(self.model.points32, omega)
        return self._best(values, features, omega[None], float(own.lengthscale.min()))

    def hyperparameters(self) -> Hyperparameters:
        """Return the agent's hyperparameters, fitted to its own observations only, once every ``refit``."""
        if len(self) >= _FITTED and (self._fitted == 0 or len(self) - self._fitted >= self.settings.refit):
            self._own = fit(self.X, self.y, self._own)
            self._fitted = len(self)
        return self._own

    def _best(self, values: Array, features: FourierFeatures, omega: FloatArray, scale: float) -> FloatArray:
        """Return the best unobserved point: a candidate, or on the cube the end of a climb."""
        points = self.model.domain.points
        order = np.argsort(-values)
        if not self.model.domain.whole:
            return self._not_yet(points[order])
        top = order[_apart(points[order[:_LOOKED_AT]], 0.5 * min(scale, 1.0))]
        one = len(omega) == 1
        i = np.zeros(len(top), dtype=np.intp) if one else self.model.regions[top]
        low, high = (np.zeros((1, 1)), np.ones((1, 1))) if one else self.settings.box(i)
        high = np.where(high < 1, high - _EDGE, high)  # a point on the edge belongs to the next region
        w = omega[i]  # (climbers, M)
        step = 0.1 * min(scale, 1.0)
        X, climbed = ascend(lambda x: features.value_and_gradient(x, w), points[top], low, high, first_step=step)
        return self._not_yet(np.concatenate([X[np.argsort(-climbed)], points[order]]))

    def _not_yet(self, points: FloatArray) -> FloatArray:
        """Return the first of the snapped points (m, d) that was not observed yet; if all were, the first."""
        X = self.X
        snap = self.model.domain.snap
        for x in map(snap, points):
            if not len(X) or np.abs(X - x).max(axis=1).min() > _SAME:
                return np.array(x)
        return np.array(snap(points[0]))

    def _rng(self, stream: int, t: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, self.agent, stream, t])
