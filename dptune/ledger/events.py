"""Events that are charged, as frozen public data. The docstring of an event is its mathematics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Described:
    """Public data that a charge's row stores; ``words`` is the format string of its line in the statement."""

    words: ClassVar[str]

    @property
    def mechanism(self) -> str:
        """Return one line for the statement."""
        return self.words.format(**vars(self))

    def describe(self) -> dict[str, object]:
        """Return the public description, for the ledger."""
        return asdict(self)


@dataclass(frozen=True)
class Event(Described):
    """A release with a price.

    Attributes:
        mu: cost in GDP.
    """

    mu: float


@dataclass(frozen=True)
class GaussianRelease(Event):
    """A statistic in R^p of L2 sensitivity Delta plus N(0, sigma^2 I), sigma >= Delta/mu: mu-GDP.

    Attributes:
        sensitivity: Delta under replacing one person, in units of the statistic.
        sigma: standard deviation of the noise per coordinate, same units.
        dimension: p.
        statistic: what is released, in words.
    """

    words = "Gaussian mechanism on the {statistic}"
    sensitivity: float
    sigma: float
    dimension: int
    statistic: str


@dataclass(frozen=True)
class SelectionRelease(Event):
    """The exponential mechanism among m candidates: P(j) ~ prior_j exp(-u_j / scale), u_j a mean of losses.

    Replacing one person moves each u_j by at most Delta, so differences u_j - u_k by at most 2 Delta. So the log-ratio
    of the output's probabilities varies over j by at most eta = 2 Delta / scale (bounded range). A public prior is the
    same for both neighbours and leaves the ratio. Its price in GDP is :func:`dptune.ledger.gdp.mu_from_bounded_range`,
    which does not grow with m.

    Attributes:
        eta: bounded range.
        sensitivity: Delta under replacing one person, in units of the loss.
        sigma: the scale of the Gumbel noise, same units.
        dimension: m.
        statistic: what the candidates are compared by, in words.
    """

    words = "exponential mechanism (bounded range) on the {statistic}"
    eta: float
    sensitivity: float
    sigma: float
    dimension: int
    statistic: str


@dataclass(frozen=True)
class PureRelease(Event):
    """A release that is epsilon-DP: bounded range 2 epsilon, which is its price in GDP.

    Attributes:
        epsilon: epsilon of the release alone.
    """

    epsilon: float


@dataclass(frozen=True)
class FlipRelease(PureRelease):
    """Permute-and-flip among m candidates, of which u_j - scale log prior_j is small: epsilon-DP.

    It releases the largest of -u_j / scale + log prior_j + X_j, where X_j are independent exponential variables of mean
    1 (McKenna & Sheldon 2020; Ding et al. 2021). Replacing one person moves each u_j by at most Delta; a public prior
    is the same for both neighbours.

    *Proof.* Fix all X but X_j. Then j is released if X_j exceeds a threshold c. A difference of two scores moves by at
    most epsilon = 2 Delta / scale, so for the neighbour j is released if X_j exceeds some c' <= c + epsilon. P(X > c +
    epsilon) >= e^-epsilon P(X > c) for every c, so the probabilities of j differ by a factor of e^epsilon at most.

    Attributes:
        sensitivity: Delta under replacing one person, in units of the loss.
        sigma: the scale of the exponential noise, same units.
        dimension: m.
        statistic: what the candidates are compared by, in words.
    """

    words = "permute-and-flip on the {statistic}"
    sensitivity: float
    sigma: float
    dimension: int
    statistic: str


@dataclass(frozen=True)
class LaplaceRelease(PureRelease):
    """A number of sensitivity Delta plus Laplace noise of scale b >= Delta/epsilon: epsilon-DP (Dwork et al. 2006).

    Attributes:
        sensitivity: Delta under replacing one person, in units of the statistic.
        scale: b, same units.
        sigma: standard deviation of the noise, sqrt(2) b.
        statistic: what is released, in words.
    """

    words = "Laplace mechanism on the {statistic}"
    sensitivity: float
    scale: float
    sigma: float
    statistic: str


def is_laplace(description: Mapping[str, Any]) -> bool:
    """Return whether a charge's description is of a Laplace release."""
    return {"epsilon", "scale", "sigma"} <= description.keys()


def chooses(description: Mapping[str, Any]) -> bool:
    """Return whether a charge, by its description, is for a choice among candidates."""
    return "eta" in description or {"epsilon", "dimension"} <= description.keys()


def digest_of_table(description: Mapping[str, Any], value: Sequence[float] | None) -> str | None:
    """Return the digest that a charge of a :class:`TableRelease` has in place of numbers; None for other charges."""
    if value is None or "map_norm" not in description:
        return None
    return f"sha256:{bytes(map(int, value)).hex()}"


@dataclass(frozen=True)
class TableRelease(Event):
    """A table Z = C X W + N(0, sigma^2 I) with one row a unit, sigma >= Delta |W|_2 / mu: mu-GDP.

    X (n, d) are the rows after public scaling, each projected on the ball of radius R. C = I - 11^T/n subtracts the
    mean of every column. W (d, k) is public, |W|_2 its largest singular value.

    *Neighbours.* X and X' differ in row i only, X' - X = e_i v^T. If a unit's records are replaced, |v| <= 2 R, as both
    rows lie in the ball. If a row changes by at most Delta before the projection, |v| <= Delta, as projections on
    convex sets never increase distances. *Sensitivity.* C is an orthogonal projection, so |C e_i v^T W|_F <= |C|_2
    |e_i|_2 |v^T W|_2 <= Delta |W|_2. This bounds the L2 distance of the n k numbers of C X W, one vector with Gaussian
    noise (Dong, Roth, Su 2022). By the analytic Gaussian mechanism (Balle & Wang 2018), mu is the largest with
    delta(eps; mu) <= delta.

    Attributes:
        row_norm: R.
        change: Delta, the largest change of one row; 2 R under replacing a unit's records.
        map_norm: |W|_2.
        sigma: standard deviation of the noise of each number.
        shape: (n, k).
        outputs: what protects the rows' outputs, in words.
    """

    words = (
        "Gaussian mechanism on a table of features, rows of norm at most {row_norm:g}, a row changing by at most "
        "{change:g}; outputs: {outputs}"
    )
    row_norm: float
    change: float
    map_norm: float
    sigma: float
    shape: tuple[int, int]
    outputs: str


@dataclass(frozen=True)
class SubsampledGaussianRelease(Described):
    """One round of a fixed plan; it has no price, as the plan is accounted as a whole.

    The round draws a secret Poisson sample S, each agent independently with probability q. It releases sum_{n in S} c_n
    in R^p with |c_n| <= Delta, plus N(0, sigma^2 I), sigma >= z Delta. Neighbours differ in one agent's c_n, replaced
    by 0.

    Attributes:
        q: sampling probability.
        z: noise multiplier.
        sensitivity: Delta, the most that one sampled agent adds, in units of the statistic.
        sigma: standard deviation of the noise per coordinate, same units; above z Delta by what rounding costs.
        dimension: p.
        statistic: what is released, in words.
    """

    words = "Poisson-subsampled Gaussian mechanism (q = {q:g}, z = {z:g}) on the {statistic}"
    q: float
    z: float
    sensitivity: float
    sigma: float
    dimension: int
    statistic: str
