"""The public, fixed settings on which server and agents of DP-FTS-DE agree before the first round.

Source: Dai, Low, Jaillet, *Differentially Private Federated Bayesian Optimization with Distributed Exploration*
(NeurIPS 2021), Algorithms 1 and 2. Notation::

    N, n     agents, 0..N-1                       P, i     regions of the cube, 0..P-1
    M        features                             S        clipping: messages are cut to norm S / sqrt(P)
    t        round, 0..T-1                        I_n^(i)  1 if agent n explored region i at the start
    phi_n^(i)(t)   weight of agent n in region i: softmax over n of (a I_n^(i) + 1) / temperature_t
    p_t      probability that an agent follows its own sample in round t

The weights depend only on (n, i, t). The temperature is 1 for `hold` rounds. Then it rises so that a / temperature
falls linearly to 0 in `decay` rounds; afterwards every weight is 1/N.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

import numpy as np

from dptune._arrays import Indices
from dptune._checks import at_least, between, check, check_fields
from dptune.errors import InputError
from dptune.search.gp.features import FourierFeatures
from dptune.search.gp.points import FloatArray

Intervals = tuple[int, ...]

_LARGEST = 1e12


@dataclass(frozen=True)
class FTSSettings:
    """Settings of DP-FTS-DE; the defaults suit few agents, for which the paper's settings drown in noise.

    Variants of the algorithm are settings of the same code::

        FTS, DP-FTS          regions=()                (one region: the cube)
        FTS-DE, DP-FTS-DE    regions=(2, 2), ...       (halves of each coordinate, ...)
        plain TS             joint=0                   (the broadcast is never used)
        without DP           messages summed without clipping and noise: in ``benchmarks``, not for private data

    Attributes:
        agents: N, public.
        d: number of coordinates.
        M: number of shared features, even.
        lengthscale: of the shared features, in units of the cube's side; public, the same for all.
        noise: lambda of the messages' posterior, in units of the standardised values' variance.
        regions: number of intervals into which each coordinate is cut, (d,); () for one region.
        S: clipping bound, 1e-6 to 1e6; a message of norm above S / sqrt(P) is scaled back to it.
        a, hold, decay: weights of the regions, see above.
        joint: in round t, counted from 1, an agent follows the broadcast with probability 1 - p_t = joint / t.
        spread: of the messages around their posterior mean, in standard deviations. 1 is the paper's Thompson sample,
            whose norm is nearly all its own randomness. 0 sends the mean (docs/federated.md).
        own_features: features of the agent's own samples, even.
        initial: observations an agent makes in its own region before it sends its first message.
        refit: number of observations after which an agent fits its own hyperparameters again.
        candidates: number of points from which the search for a sample's largest value starts.
        seed: of the shared features and candidates.
    """

    agents: int = field(metadata=check(at_least, 1))
    d: int = field(metadata=check(at_least, 1))
    M: int = field(default=50, metadata=check(at_least, 1))
    lengthscale: float = field(default=0.25, metadata=check(between, 1 / _LARGEST, _LARGEST))
    noise: float = field(default=0.1, metadata=check(between, 1 / _LARGEST, _LARGEST))
    regions: Intervals = ()
    S: float = field(default=3.0, metadata=check(between, 1e-6, 1e6))
    a: float = field(default=15.0, metadata=check(between, 0, _LARGEST))
    hold: int = field(default=10, metadata=check(at_least, 0))
    decay: int = field(default=30, metadata=check(at_least, 0))
    joint: float = field(default=1.0, metadata=check(between, 0, _LARGEST))
    spread: float = field(default=0.0, metadata=check(between, 0, _LARGEST))
    own_features: int = field(default=100, metadata=check(at_least, 1))
    initial: int = field(default=10, metadata=check(at_least, 1))
    refit: int = field(default=10, metadata=check(at_least, 1))
    candidates: int = field(default=512, metadata=check(at_least, 1))
    seed: int = field(default=0, metadata=check(at_least, 0, 2**128))

    def __post_init__(self) -> None:
        check_fields(self)
        if self.M % 2 or self.own_features % 2:
            raise InputError("M and own_features must be even, a cosine and a sine per frequency.")
        regions = tuple(at_least("an entry of regions", k, 1) for k in self.regions)
        object.__setattr__(self, "regions", regions)
        if self.regions and len(self.regions) != self.d:
            raise InputError(f"regions must hold one number of intervals for each of {self.d} coordinates, or nothing.")
        if self.agents < self.P:
            raise InputError(f"{self.P} regions need at least as many agents; got {self.agents}.")

    @property
    def splits(self) -> Intervals:
        """Return the number of intervals of each coordinate, (d,)."""
        return self.regions or (1,) * self.d

    @property
    def P(self) -> int:
        """Return the number of regions."""
        return math.prod(self.splits)

    def region_of(self, X: FloatArray) -> Indices:
        """Return i[x] of the points in the rows of X (m, d): (m,)."""
        cells = np.minimum((np.clip(X, 0, 1) * self.splits).astype(np.intp), np.array(self.splits) - 1)
        return np.asarray(np.ravel_multi_index(tuple(cells.T), self.splits), dtype=np.intp)

    def box(self, i: Indices) -> tuple[FloatArray, FloatArray]:
        """Return the corners of regions i (m,): low (m, d) and high (m, d)."""
        cells = np.stack(np.unravel_index(i, self.splits), axis=-1)
        return cells / self.splits, (cells + 1) / self.splits

    def assigned(self, n: int) -> int:
        """Return the region that agent n explores at the start."""
        return n % self.P

    def weights(self, t: int) -> FloatArray:
        """Return phi(t), (N, P): columns sum to 1."""
        n = np.arange(self.agents)[:, None]
        i = np.arange(self.P)
        logits = self._strength(t) * (n % self.P == i)  # the "+ 1" of the paper cancels
        grown = np.exp(logits - logits.max())
        return np.asarray(grown / grown.sum(axis=0))

    def _strength(self, t: int) -> float:
        """Return a / temperature_t."""
        if t < self.hold:
            return self.a
        return self.a * max(0.0, 1 - (t - self.hold + 1) / self.decay) if self.decay else 0.0

    @property
    def clip(self) -> float:
        """Return S / sqrt(P), the largest norm of a clipped message."""
        return self.S / math.sqrt(self.P)

    def sensitivity(self, t: int, q: float) -> float:
        """Return how far zeroing out one sampled agent moves the sums of all regions together at most, in L2 norm.

        Agent n adds the P M-vector (phi_n^(1) w, ..., phi_n^(P) w) / q with |w| <= S / sqrt(P), of norm
        |phi_n| |w| / q; so Delta_t = max_n |phi_n(t)|_2 S / (sqrt(P) q). The paper uses phi_max S / q >= Delta_t.
        """
        return float(np.sqrt((self.weights(t) ** 2).sum(axis=1)).max()) * self.clip / q

    def joint_chance(self, t: int) -> float:
        """Return 1 - p of round t (from 0): the chance of following the broadcast."""
        return float(min(1.0, self.joint / (t + 1)))

    def features(self) -> FourierFeatures:
        """Return the shared features, drawn from NumPy's random numbers."""
        return FourierFeatures.draw(d=self.d, M=self.M, lengthscale=self.lengthscale, seed=self.seed)

    def describe(self) -> dict[str, object]:
        """Return plain JSON data, by which server and agents recognise that they agree.

        The features have a digest of their own: another version of NumPy may draw others from the same settings.
        """
        agreed = {**asdict(self), "regions": list(self.regions), "features": self.features().digest()}
        return {"algorithm": "DP-FTS-DE", **agreed}
