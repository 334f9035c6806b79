"""The public preparation of a choice: the range of a loss, the finalists, a radius and a prior.

Notation (docs/privacy.md has the proof): candidates j = 1..m, public rows k = 1..N, private people i = 1..n.

    V_kj   loss of public row k under candidate j, trained without the row's fold      (m, N), public
    L_ij   loss of person i under candidate j, trained on all public rows              private
    near, far   finalists that public rows hold for good, and finalists that lie farthest from these
    r      radius: a row's losses, less their own median over the near finalists, are cut to [-r, r]; those of far ones
           are first divided by k = FAR_SCALE
    z_j    how many paired standard errors the mean public loss lies above the best finalist's
    pi_j   prior of the choice:  (1 - h) softmax_j(-STEEP sqrt(w) z_j) + h / s,  h = MIXED, w = public_weight

The choice is P(j) ~ pi_j exp(-(eta / 4 r) sum_i cut(L_ij)), or permute-and-flip with these exponents. Everything here
is a function of public rows, n and the price. So it is known before a private loss is read, and costs no budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import leggauss

from dptune._arrays import Mask, Matrix, Vector
from dptune._checks import attempt, kind, real, shown
from dptune.errors import InputError

Law = Callable[[Vector], Vector]  # law of a choice: probabilities (s,) from exponents (s,)

_NONE: Matrix = np.empty(0)
STEEP = 2.0  # decrease of the prior's logarithm per paired standard error
MIXED = 0.2  # uniform share of the prior: misleading public rows cost at most log(1 / MIXED) in the exponent
DIVERGES = 10.0  # how far a candidate's mean lies above the best one, in units of the usual distance, to be left out
HEADROOM = 2.0  # the upper clip, in units of the largest public loss, where a loss has no largest value
NEAR = 3.0  # paired standard errors between the best candidate and a finalist, at most
ALWAYS = 20  # number of best candidates on public rows that count as near up to FAR
FAR, FAR_ROWS = 8.0, 200  # hopeless, it would only widen the radii: farther by so many standard errors of these rows
FAR_SCALE = 2.0  # by which far finalists' centred losses are divided before they are cut
BY_RANK = 30  # finalists, below which those that lie apart would be too unlike the best one
FEWEST_ROWS = 10  # least public rows for a statement about a loss


@dataclass(frozen=True, eq=False)
class PublicLosses:
    """Losses of public rows, by cross-validation.

    Attributes:
        values: (m, N) one row a candidate; a candidate that failed has no finite entry.
        low, high: public range of a loss; an entry that is not finite counts as ``high``.
    """

    values: Matrix
    low: float
    high: float

    @classmethod
    def of(cls, public: npt.ArrayLike, interval: tuple[float, float] | None) -> PublicLosses:
        """Return the losses in their range, which is ``interval`` or follows from them.

        Raises:
            InputError: they are not a matrix of numbers, or fewer than two candidates have losses.
        """
        values = attempt(partial(np.array, dtype=np.float64), public, failed=_NONE)
        if values.ndim != 2 or values.shape[1] < FEWEST_ROWS:
            raise InputError(
                f"public_losses= must be the cross-validated losses of {FEWEST_ROWS} public rows or more, an array "
                f"(candidates, rows); got {kind(public)}. Nothing was charged."
            )
        finite = np.isfinite(values)
        if (usable := int(finite.any(axis=1).sum())) < 2:
            raise InputError(
                f"a choice needs two candidates or more with public losses; {usable} of {len(values)} have finite "
                "ones. Nothing was charged."
            )
        low, high = interval or _range(values[_sane(values)])
        values.setflags(write=False)
        return cls(values, low, high)

    @property
    def m(self) -> int:
        return len(self.values)

    @cached_property
    def clipped(self) -> Matrix:
        """Return losses in [low, high] (m, N)."""
        return np.clip(
            np.nan_to_num(self.values, nan=self.high, posinf=self.high, neginf=self.low), self.low, self.high
        )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Return candidates that did not fail, the smallest mean public loss first."""
        usable = np.asarray(np.isfinite(self.values).any(axis=1))
        ranked = np.argsort(self.clipped.mean(axis=1), kind="stable")
        return tuple(int(j) for j in ranked if usable[j])

    def finalists(self, most: int, weight: float = 1.0) -> tuple[int, ...]:
        """Return at most ``most`` candidates, the best on public rows first; with ``weight`` w a row counts as w rows.

        Near are the best ALWAYS ones and those whose paired mean difference to the best is within NEAR standard
        errors. Those beyond FAR standard errors are left out, except the best two. At most FAR_ROWS rows count, as a
        small difference is not hopeless because it is known precisely. The best of these is taken, then repeatedly the
        farthest from all taken ones, by mean absolute difference of public losses. Near copies fit the same public rows
        by luck. Among fewer than BY_RANK finalists ranks decide, unless rows have too small a weight.
        """
        ranked = np.array(self.order)
        V = self.clipped
        apart = weighed(distances(V[ranked]), weight)
        place = np.arange(len(ranked))
        possible = (apart <= FAR * max(1.0, V.shape[1] / FAR_ROWS) ** 0.5) | (place < 2)
        near = (apart <= NEAR) | (place < ALWAYS)
        kept = ranked[possible & (near if most >= BY_RANK else place * min(weight, 1.0) < most)]
        others = _farthest(V[kept[1:]], V[kept[:1]], most - 1)
        return tuple(int(j) for j in kept[[0, *(1 + place for place in sorted(others))]])

    def far(self, near: tuple[int, ...], most: int) -> tuple[int, ...]:
        """Return at most so many other candidates: the farthest from ``near`` and from each other in public losses.

        If private people are from another population, their best one may be bad on public rows. A candidate that failed
        for a public row is left out.
        """
        whole = np.asarray(np.isfinite(self.values).all(axis=1))
        others = [j for j in self.order if whole[j] and j not in near]
        places = _farthest(self.clipped[others], self.clipped[list(near)], most)
        return tuple(others[place] for place in sorted(places))

    def mean(self, j: int) -> float:
        return float(self.clipped[j].mean())

    @cached_property
    def largest(self) -> float:
        """Return the largest loss of a public row under the better half of the candidates, in the range; above 0."""
        better = self.clipped[list(self.order[: max(2, len(self.order) // 2)])]
        return float(np.abs(better).max()) or self.high - self.low

    def difference(self, default: int, j: int, r: float) -> tuple[float, float]:
        """Return mean and standard deviation of the default's losses minus candidate j's, each cut to [-r, r]."""
        cut = np.clip(self.clipped[default] - self.clipped[j], -r, r)
        return float(cut.mean()), float(cut.std())

    @cached_property
    def digest(self) -> str:
        """Return a fingerprint of the losses and their range, by which a ledger recognises the choice."""
        header = f"{self.values.shape} {self.low:.6g} {self.high:.6g}".encode()
        return hashlib.sha256(header + rounded(self.values)).hexdigest()[:16]


def _farthest(losses: Matrix, seen: Matrix, most: int) -> list[int]:
    """Return at most ``most`` rows of ``losses`` (m, N), each the farthest from ``seen`` (k, N) and earlier ones."""
    taken: list[int] = []
    distance = np.full(len(losses), np.inf)
    for one in seen:
        distance = np.minimum(distance, np.abs(losses - one).mean(axis=1))
    while len(taken) < min(most, len(losses)):
        taken.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.abs(losses - losses[taken[-1]]).mean(axis=1))
        distance[taken] = -1.0  # equal candidates are 0 apart
    return taken


def rounded(values: Matrix) -> bytes:
    """Return losses to four digits: the last ones depend on the processor and on the number of threads."""
    mantissa, exponent = np.frexp(values)
    return np.round(mantissa, 4).tobytes() + np.where(np.isfinite(values), exponent, 0).tobytes()


def _sane(values: Matrix) -> Mask:
    """Return which candidates do not diverge: one that does must not widen everybody's range."""
    means = np.where(np.isfinite(values).all(axis=1), values.mean(axis=1), np.inf)
    finite = means[np.isfinite(means)]
    best, usual = (finite.min(), np.median(finite)) if len(finite) else (0.0, 0.0)
    return np.asarray(means <= best + DIVERGES * (usual - best)) & np.isfinite(means)


def clip_from(losses: npt.ArrayLike) -> tuple[float, float]:
    """Return ``clip=(low, high)`` from losses of public or made-up rows: twice their range, 0 included.

    Args:
        losses: of the configuration that you use today, best by cross-validation; numbers of any shape.

    Raises:
        InputError: none of them is a finite number.

    Example:
        >>> clip_from([0.1, 0.5, 1.3])
        (0.0, 2.6)
    """
    values = attempt(partial(np.array, dtype=np.float64), losses, failed=_NONE)
    if not np.isfinite(values).any():
        raise InputError(f"clip_from needs losses of public rows, finite numbers; got {kind(losses)}.")
    return _range(values[np.isfinite(values)])


def _range(losses: Matrix) -> tuple[float, float]:
    if losses.size == 0:
        raise InputError("every candidate has a public loss that is not finite. Give clip=(low, high).")
    low = min(0.0, float(losses.min()))
    high = float(losses.max())
    return (HEADROOM * low, HEADROOM * high) if high > low else (low, low + 1.0)


def scales(finalists: int, near: int) -> Vector:
    """Return by what each finalist's centred losses are divided (s,): 1 for the near ones, FAR_SCALE for the far ones.

    A far finalist's losses are larger, and where they are cut a few who lose very much would not count.
    """
    return np.where(np.arange(finalists) < near, 1.0, FAR_SCALE)


def centred(losses: Matrix, near: int) -> Matrix:
    """Return losses (s, rows) minus each row's median over the first ``near`` candidates, divided by the scales."""
    return (losses - np.median(losses[:near], axis=0)) / scales(len(losses), near)[:, None]


def distances(losses: Matrix) -> Vector:
    """Return z (s,): how many paired standard errors each mean of public losses (s, N) lies above the smallest."""
    apart = losses - losses[np.argmin(losses.mean(axis=1))]
    error = apart.std(axis=1) / losses.shape[1] ** 0.5
    far = np.full(len(losses), np.inf)  # worse by the same amount for every row
    return np.where(apart.mean(axis=1) > 0, np.divide(apart.mean(axis=1), error, out=far, where=error > 0), 0.0)


def weight_of(public_weight: object) -> float:
    """Return the weight of a public row: 0 or a positive number."""
    weight = real(public_weight)
    if weight is None or weight < 0:
        raise InputError(f"public_weight must be a finite number, 0 or larger; got {shown(public_weight)}.")
    return weight


def weighed(z: Vector, weight: float) -> Vector:
    """Return distances in standard errors of rows that count as ``weight`` rows each; 0 without weight."""
    return z * weight**0.5 if weight else np.zeros(len(z))  # z may be infinite


def prior(losses: Matrix, weight: float) -> Vector:
    """Return pi (s,) by the finalists' public losses (s, N); it sums to 1, and no entry is below MIXED / s.

    It falls like a Laplace law, not like a normal one: the mean of another population may lie farther away than
    standard errors say. With ``weight`` w each row counts as w rows; with 0 the prior is uniform.
    """
    return (1 - MIXED) * law(STEEP * weighed(distances(losses), weight)) + MIXED / len(losses)


@np.errstate(under="ignore")
def law(exponents: Vector) -> Vector:
    """Return probabilities proportional to exp(-exponents), (s,)."""
    weights = np.exp(exponents.min() - exponents)
    return np.asarray(weights / weights.sum())


@np.errstate(under="ignore")
def flip_law(exponents: Vector) -> Vector:
    """Return the probabilities (s,) that an exponent minus an exponential variable of mean 1 is the smallest.

    Let w_j = e^(min - exponent_j) and u = e^-X_j. P(j) is w_j times the integral over u in [0, 1] of the product over k
    != j of 1 - w_k u. Gauss-Legendre nodes integrate this polynomial of degree s - 1 exactly.
    """
    w = np.exp(exponents.min() - exponents)
    nodes, weights = _nodes(len(w) // 2 + 1)
    factors = 1 - w[:, None] * (nodes + 1) / 2  # (s, nodes), above 0
    return np.asarray(w * ((factors.prod(axis=0) / factors) @ weights / 2))


_nodes = cache(leggauss)  # half of the time of a plan without the cache
