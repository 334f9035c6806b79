"""Gaussian differential privacy: conversions, composition and calibration.

Notation (Dong, Roth, Su, *Gaussian Differential Privacy*, 2022):

    mu            a mechanism is mu-GDP if telling neighbours apart is no easier than N(0,1) from N(mu,1)
    delta(eps)    Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)                        (Corollary 2.13)
    composition   mu_total = sqrt(sum mu_t^2), also for adaptively chosen mu_t when the budget is
                  fixed in advance (Smith & Thakurta, arXiv 2210.17520)

Everything is computed in logarithms; the tests hold it to 1e-9 relative against mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce

from scipy.optimize import brentq
from scipy.special import erfinv, log_expit, log_ndtr, ndtri_exp

from dptune._checks import positive, real, shown
from dptune._numbers import EXACT
from dptune.errors import InputError

_ROUND_UP = 1 + 1e-12  # a bridge from bounded range is rounded towards more privacy loss
SMALLEST_MU, LARGEST_MU = 1e-9, 1e9  # limits of a budget: outside these its square would lose digits
_SAME_ROOT = 1e-9  # relative difference of root finders; the slack of noise scales is a thousand times larger
_ROUNDING = 1e-12
_FORGIVEN = Decimal("1e-12")  # relative, of the squared budget: rounding of T releases of budget/sqrt(T)


@dataclass(frozen=True)
class Budget:
    """A privacy budget, fixed in advance, held as mu of Gaussian differential privacy.

    Make one with :meth:`gdp` or :meth:`approximate_dp`. The pair (epsilon, delta) is kept when it
    was how the budget was stated.

    Attributes:
        mu: the budget in GDP, > 0 and finite.
        stated_epsilon, stated_delta: the (epsilon, delta) the caller asked for, or None.

    Raises:
        InputError: mu is not a number in [1e-9, 1e9].
    """

    mu: float
    stated_epsilon: float | None = None
    stated_delta: float | None = None

    def __repr__(self) -> str:
        if self.stated_epsilon is None:
            return f"Budget(mu={self.mu!r})"
        return f"Budget(mu={self.mu!r}, stated_epsilon={self.stated_epsilon!r}, stated_delta={self.stated_delta!r})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive("mu", self.mu))
        self._check_stated()
        if not SMALLEST_MU <= self.mu <= LARGEST_MU:
            raise InputError(
                f"mu must lie in [{SMALLEST_MU:g}, {LARGEST_MU:g}]; got {shown(self.mu)}. Usual is 0.1 to 3."
            )

    def _check_stated(self) -> None:
        """Refuse a stated pair that mu-GDP does not imply: a statement prints it."""
        if self.stated_epsilon is None and self.stated_delta is None:
            return
        epsilon = positive("stated_epsilon", self.stated_epsilon)
        delta = probability("stated_delta", self.stated_delta)
        object.__setattr__(self, "stated_epsilon", epsilon)
        object.__setattr__(self, "stated_delta", delta)
        if self.mu > mu_from_epsilon(epsilon, delta) * (1 + _SAME_ROOT):
            raise InputError(
                f"mu={self.mu!r} does not imply epsilon={epsilon!r} at delta={delta!r}; use Budget.approximate_dp."
            )

    @classmethod
    def gdp(cls, mu: float) -> Budget:
        """Return the budget "mu-GDP"."""
        return cls(mu)

    @classmethod
    def approximate_dp(cls, epsilon: float, delta: float) -> Budget:
        """Return the largest mu whose GDP guarantee implies (epsilon, delta)-DP."""
        return cls(mu_from_epsilon(positive("epsilon", epsilon), delta), epsilon, delta)

    def same_promise(self, other: Budget) -> bool:
        """Return whether mu differs by rounding only, and the stated (epsilon, delta) not at all if both state one.

        The mu of a stated pair is a root, whose last digits depend on the version of SciPy.
        """
        if self.stated_delta is None or other.stated_delta is None:
            return math.isclose(self.mu, other.mu, rel_tol=_ROUNDING)
        same = (self.stated_epsilon, self.stated_delta) == (other.stated_epsilon, other.stated_delta)
        return same and math.isclose(self.mu, other.mu, rel_tol=_SAME_ROOT)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon that this budget implies at ``delta``."""
        return epsilon_from_mu(self.mu, delta)

    def delta(self, epsilon: float) -> float:
        """Return the delta this budget implies at ``epsilon``."""
        return delta_from_mu(self.mu, epsilon)


def _epsilon(value: object) -> float:
    number = real(value)
    if number is None or number < 0:
        raise InputError(f"epsilon must be a number >= 0 and finite; got {shown(value)}.")
    return number


def probability(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1 as a float, or refuse it by name."""
    if real(value) == 0:
        raise InputError(
            f"{name} must lie strictly between 0 and 1; got 0. For pure differential privacy give 1e-12 and an epsilon "
            "of at most 2. Let one choice with public losses have all of it: PrivateSearch, choose, or select with "
            "public_losses=. The choice and its estimate are then pure: the statement's row Divided has their epsilon "
            "at delta = 0."
        )
    number = positive(name, value)
    if number >= 1:
        raise InputError(f"{name} must lie strictly between 0 and 1; got {shown(number)}.")
    return number


def _log_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon); -inf where it underflows."""
    log_a = float(log_ndtr(mu / 2 - epsilon / mu))
    log_b = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if log_b >= log_a:  # rounding only: delta is below what doubles can tell apart
        return -math.inf
    return log_a + math.log(-math.expm1(log_b - log_a))


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Return delta(epsilon) of a mu-GDP mechanism (Dong, Roth, Su, Corollary 2.13).

    Raises:
        InputError: mu is not positive, or epsilon is negative or not finite.
    """
    return math.exp(_log_delta(positive("mu", mu), _epsilon(epsilon)))


def epsilon_from_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with delta(epsilon) <= ``delta`` for a mu-GDP mechanism."""
    mu, delta = positive("mu", mu), probability("delta", delta)
    log_delta = math.log(delta)
    if _log_delta(mu, 0.0) <= log_delta:
        return 0.0
    upper = mu * mu / 2 + mu
    while _log_delta(mu, upper) > log_delta:
        upper *= 2
    return _root(lambda eps: _log_delta(mu, eps) - log_delta, 0.0, upper)


def mu_from_epsilon(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-DP."""
    epsilon = _epsilon(epsilon)
    delta = probability("delta", delta)
    log_delta = math.log(delta)
    lower = 1.0
    upper = 1.0
    while _log_delta(lower, epsilon) > log_delta:
        lower /= 2
    while _log_delta(upper, epsilon) <= log_delta:
        upper *= 2
    return _root(lambda mu: _log_delta(mu, epsilon) - log_delta, lower, upper)


def _root(f: Callable[[float], float], lower: float, upper: float) -> float:
    # f may be -inf at an end; a large negative number also brackets the root and keeps brentq finite.
    root = brentq(lambda x: max(f(x), -1e6), lower, upper, xtol=1e-300, rtol=8.9e-16, maxiter=500)
    return float(root)


@dataclass(frozen=True)
class Spent:
    """The cost of adaptively composed releases: sum mu_t^2, and the filter that compares it with a budget.

    Sums have fifty digits and are rounded up: they are never too small, and agree in any order to 1e-49.
    """

    squares: Decimal = Decimal(0)  # sum mu_t^2
    choices: Decimal = Decimal(0)  # sum of eta of choices that have their own limit instead of mu's
    pure: Decimal = Decimal(0)  # sum of epsilon of releases with a limit in pure differential privacy

    @classmethod
    def of(cls, mus: Iterable[float | None]) -> Spent:
        return reduce(cls.plus, mus, cls())

    def plus(self, mu: float | None, eta: float = 0.0, epsilon: float = 0.0) -> Spent:
        """Return the cost with one more release of ``mu``.

        ``mu`` is None for a release of a fixed plan or of another limit: a choice of ``eta`` or a pure ``epsilon``.
        """
        if mu is None:
            choices, pure = EXACT.add(self.choices, Decimal(eta)), EXACT.add(self.pure, Decimal(epsilon))
            return Spent(self.squares, choices, pure)
        return replace(self, squares=EXACT.add(self.squares, _square(mu)))

    @property
    def gaussian(self) -> float:
        """Return sqrt(sum mu_t^2), without releases that have their own limit."""
        return float(EXACT.sqrt(self.squares))

    @property
    def mu(self) -> float:
        return gdp_of(self.gaussian, float(self.choices), float(self.pure))

    def admits(self, mu: float, budget: float) -> bool:
        """Return whether one more release of ``mu`` stays within ``budget``: the filter.

        The comparison forgives 1e-12 relative, so that T releases of budget/sqrt(T) fit; every noise
        scale of the package carries a slack a million times larger (``dptune.privacy.noise.SLACK``).
        """
        return self.plus(mu).squares <= EXACT.multiply(_square(budget), 1 + _FORGIVEN)

    def admits_choice(self, eta: float, limit: float) -> bool:
        """Return whether one more choice of ``eta`` stays within their limit; forgives 1e-12, too."""
        return EXACT.add(self.choices, Decimal(eta)) <= EXACT.multiply(Decimal(limit), 1 + _FORGIVEN)

    def admits_pure(self, epsilon: float, limit: float) -> bool:
        """Return whether one more release of pure ``epsilon`` stays within their limit; forgives 1e-12, too."""
        return EXACT.add(self.pure, Decimal(epsilon)) <= EXACT.multiply(Decimal(limit), 1 + _FORGIVEN)

    def remaining(self, budget: float) -> float:
        """Return mu of the largest single release that still fits; 0 if only rounding is left."""
        whole = _square(budget)
        left = EXACT.subtract(whole, self.squares)
        return float(EXACT.sqrt(left)) if left > EXACT.multiply(whole, _FORGIVEN) else 0.0


def _square(mu: float) -> Decimal:
    return EXACT.multiply(Decimal(mu), Decimal(mu))


def mu_from_bounded_range(eta: float) -> float:
    """Return mu of the GDP guarantee that an eta-bounded-range mechanism has: -2 Phi^-1(1 / (1 + e^(eta/2))).

    *Bounded range* (Durfee & Rogers 2019): for neighbours the log-ratio of the output's probabilities varies over the
    outputs by at most eta. The exponential mechanism is the standard example.

    The worst pair of laws has log-ratios eta/2 and -eta/2: docs/research/centred.md has the proof (after Dong, Durfee &
    Rogers 2020). Examples: eta = .80, 1.61, 3.34 are mu = .5, 1, 2.
    """
    eta = positive("eta", eta)
    if eta < 1:  # the logarithm of almost 1/2 would lose digits
        return float(math.sqrt(8) * erfinv(math.tanh(eta / 4))) * _ROUND_UP
    return float(-2 * ndtri_exp(log_expit(-eta / 2))) * _ROUND_UP


def mu_from_pure(epsilon: float) -> float:
    """Return mu of the GDP guarantee that an epsilon-DP mechanism has: it has bounded range 2 epsilon.

    Randomised response attains it: 2 Phi^-1(e^epsilon / (1 + e^epsilon)).
    """
    return mu_from_bounded_range(2 * epsilon)


def pure_from_mu(mu: float) -> float:
    """Return the largest epsilon for which epsilon-DP implies mu-GDP."""
    return bounded_range_from_mu(mu) / 2


def gdp_of(mu: float, eta: float, pure: float = 0.0) -> float:
    """Return the mu in GDP of Gaussian releases of ``mu``, choices of ``eta`` and releases of ``pure`` together."""
    parts = [mu, mu_from_bounded_range(eta) if eta > 0 else 0.0, mu_from_pure(pure) if pure > 0 else 0.0]
    return math.hypot(*parts)


def bounded_range_from_mu(mu: float) -> float:
    """Return the largest eta for which eta-bounded range implies mu-GDP."""
    mu = positive("mu", mu) / _ROUND_UP**2
    if mu < 0.5:
        return 4 * math.atanh(math.erf(mu / math.sqrt(8)))
    return float(2 * (log_ndtr(mu / 2) - log_ndtr(-mu / 2)))
