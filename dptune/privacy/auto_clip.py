"""A clip that nobody has to know: a multiple of an upper quantile of the default configuration's losses, privately.

With ``clip="auto"`` a :class:`dptune.LossPrivatizer` has no range of losses until it has seen those of one model, the
user's default configuration. It then releases one number, a bound t_j out of a public geometric list, by the
exponential mechanism with public odds::

    P(j) ~ odds_j exp(-u_j / scale),   u_j = max(|S(t_j) - above|, above + far - S(t_j / 2))

S(t) is the weighted share of people with a loss above t. The clip is (0, margin t_j), cut at the largest loss there is.

*Proof.* Person i is above t or not, so replacing their records moves each S(t) by at most their weight w_i <= max w =:
Delta, 1/n for equal weights. |x - above| and above + far - y move by no more than x and y do, and the larger of two by
no more than either, so each u_j moves by at most Delta. The list, the odds, ``above``, ``far`` and the margin depend on
n, mu and the kind of loss only. So the release is :class:`~dptune.privacy.mechanism.NoisyMin`; what follows from
t_j is post-processing, and a run that begins with this clip is one adaptive step more in the ledger.

*The rule* weighs bias against noise. Noise grows in proportion to the clip. A clip that hides the people who lose most
lets the search improve everybody else at their cost, and better models may lose more on a few people than the default
does: that is dearer, so the clip errs on the wide side, and a small share of people is aimed at. All bounds above the
largest loss have the same share, 0, and it is near ``above``. So a bound is ``far`` worse where nobody is above half of
it: 12/(n eta), which makes it e^-6 as likely, at most .2. Where many people share one large loss, such as hinge losses
of a constant classifier, the best bounds are those within an octave above it. Where a loss has a largest value, that is
the last bound, and larger bounds are preferred when in doubt.
``make -C benchmarks clip`` shows the cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dptune._arrays import Vector
from dptune._checks import check, check_fields, positive, share, text
from dptune.errors import BudgetExhausted, InputError, KeyConflict
from dptune.ledger.approximate import divided
from dptune.ledger.filter import Allowance, Division
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.ledger.ledger import Charge, PrivacyLedger
from dptune.privacy.mechanism import AnyQuery, NoisyMin
from dptune.privacy.noise import NoiseSource

ABOVE = 0.05  # share of people above the bound that is aimed at
FAR, MOST_FAR = 12.0, 0.2  # by how much a bound is worse that nobody is near: times 1/(n eta); at most
FEWEST = 24.0  # n eta: with less the answer would be noise
MARGIN = 4.0  # of the clip over the bound
PREFERS, PREFERS_ABOVE = 0.1, 0.25  # nats an octave, for bounds near 1 over smaller ones; over larger ones
PREFERS_CAP = 0.2  # nats an octave, for larger bounds where a loss has a largest value
OF_ALL = (-30.0, 60.0)  # octaves of the bounds: a loss in any unit lies between
OCTAVES = 6.0  # of bounds below the largest value of a loss that has one
STEP = 0.125  # octaves from one bound to the next
CLIP = "clip"  # the release's key
STATISTIC = "share of people whose loss at the default configuration lies above public bounds"


@dataclass(frozen=True)
class AutoClip:
    """How a clip is chosen from the losses of the default configuration; ``clip="auto"`` stands for ``AutoClip()``.

    Attributes:
        name: of the release in the ledger. One ledger has one clip of a name: another loss needs another.
        share: of mu^2, which the choice costs.

    Raises:
        InputError: a setting is out of range.

    Example:
        >>> privatizer = dptune.LossPrivatizer(ledger, n=400, clip=AutoClip("clip of visits"))  # doctest: +SKIP
    """

    name: str = field(default="automatic", metadata=check(text))
    share: float = field(default=0.05, metadata=check(share))

    def __post_init__(self) -> None:
        check_fields(self)
        positive("share", self.share)

    @property
    def scope(self) -> str:
        """Where the ledger has the release."""
        return f"clip/{self.name}"

    def price(self, mu: float) -> float:
        """Return the GDP price of the choice, of a budget of mu."""
        return math.sqrt(self.share) * mu

    def rest(self, mu: float) -> float:
        """Return what the choice leaves of it."""
        return math.sqrt(1 - self.share) * mu

    def priced(self, allowance: Allowance, mu: float | None, choice_share: float) -> tuple[float, Division | None]:
        """Return the GDP price of the choice, and how it divides the budget for itself and the run that begins next.

        A budget in (epsilon, delta) is divided by its first charge, which this is. To leave the run's own choice a
        limit, it has to know that choice's share of mu^2, a public number. It is itself counted as a Gaussian, whose
        squares add up, or among the choices, whose bounded ranges do: as leaves the run more (docs/privacy.md).
        ``mu`` is that of the run; None: it takes what this leaves.
        """
        division = None
        most = allowance.unplanned or allowance.left
        shares: Sequence[float] = ()
        if allowance.pair is not None and choice_share > 0:
            own = self.share if mu is None else self.share / (1 + self.share)  # of the mu^2 of both together
            run = (1 - own) * choice_share
            most, shares = max((allowance.whole(each), each) for each in ([run], [run, own]))
        price = self.price(most if mu is None else positive("mu", mu))
        whole = most if mu is None else math.hypot(mu, price)
        if whole > (most if shares else allowance.left):
            raise InputError(
                f"mu={mu:.4g} leaves no room in the ledger for choosing the clip, which takes mu={price:.3g} more. "
                "Omit mu=, so that the run takes what is left, or give clip=(low, high)."
            )
        if shares:
            gaussian, eta = divided(whole, shares)
            division = Division(gaussian, eta, own=len(shares) > 1)
        return price, division

    # ---- in a ledger -------------------------------------------------------------------------

    def made(self, ledger: PrivacyLedger) -> Charge | None:
        """Return the charge of the choice, or None."""
        return ledger.find(self.scope, CLIP)

    def refuse_other_loss(self, ledger: PrivacyLedger, loss: str) -> None:
        """Refuse a loss for which the clip was not chosen."""
        made = self.made(ledger)
        if made is not None and made.note["loss"] != loss:
            raise KeyConflict(
                f"the clip {self.name!r} of this ledger was chosen for {made.note['loss']}, and this is {loss}. "
                f'Give it a privatizer and a clip of its own: LossPrivatizer(ledger, ..., clip=AutoClip("{loss}")), of '
                "dptune.privacy. Nothing was trained or spent."
            )

    def refuse(self, ledger: PrivacyLedger, n: int, most: float | None, mu: float | None, choice_share: float) -> None:
        """Refuse, before a model is trained, a choice for which there is no room, or which would tell nothing."""
        price, division = self._price_in(ledger, mu, choice_share)
        if price == 0:
            raise BudgetExhausted(ledger.budget.mu, 0.0, ledger.budget.mu)
        if self.made(ledger) is None:  # a choice that is held to an eta may cost more in GDP than there is
            ledger.check(price if division is None else min(price, ledger.budget.mu))
        ClipQuery.of(n, price, "", most)

    def query(
        self, ledger: PrivacyLedger, n: int, loss: str, most: float | None, mu: float | None, choice_share: float
    ) -> tuple[ClipQuery, Division | None]:
        """Return what is asked of n people's losses, and how its charge divides the budget."""
        price, division = self._price_in(ledger, mu, choice_share)
        return ClipQuery.of(n, price, loss, most), division

    def _price_in(self, ledger: PrivacyLedger, mu: float | None, choice_share: float) -> tuple[float, Division | None]:
        made = self.made(ledger)
        if made is not None:  # a process was killed, is about to record its answer, or was first
            return float(made.description["mu"]), None
        return self.priced(ledger.allowance(), mu, choice_share)


def as_auto_clip(clip: object) -> AutoClip | None:
    """Return how a user's clip is to be chosen; None: it is a pair of numbers, or nothing usable."""
    if isinstance(clip, str) and clip != "auto":
        raise InputError(f'clip must be a pair of numbers (low, high), or "auto"; got {clip!r}.')
    return AutoClip() if isinstance(clip, str) else clip if isinstance(clip, AutoClip) else None


@dataclass(frozen=True, eq=False)
class ClipQuery:
    """Which bound is nearest, as a question with a price, from public numbers.

    Attributes:
        mu: GDP price.
        loss: name of the loss.
        most: the largest possible loss; None for an unbounded loss.
        over: (m,) the bounds, rising.
        handicaps: (m,) minus the logarithm of the odds.
        far: by how much a bound is worse if nobody is above half of it.
    """

    mu: float
    loss: str
    most: float | None
    over: Vector
    handicaps: Vector
    far: float
    statistic = STATISTIC

    @classmethod
    def of(cls, n: int, mu: float, loss: str, most: float | None) -> ClipQuery:
        """Return what is asked of n people's losses."""
        eta = bounded_range_from_mu(mu)
        far = min(FAR / (n * eta), MOST_FAR)
        if most is not None:
            octaves = np.arange(-OCTAVES, STEP / 2, STEP)
            return cls(mu, loss, most, most * 2.0**octaves, -PREFERS_CAP * octaves, far)
        if n * eta < FEWEST:
            raise InputError(
                f"a clip cannot be chosen from {n} people's losses at this price: n eta = {n * eta:.3g}, and it must "
                f"be at least {FEWEST:g}. Give clip=(low, high), or AutoClip(share=) a larger share. Nothing was spent."
            )
        octaves = np.arange(*OF_ALL, STEP)
        handicaps = np.where(octaves > 0, PREFERS_ABOVE, -PREFERS) * octaves
        return cls(mu, loss, most, 2.0**octaves, handicaps, far)

    @property
    def dimension(self) -> int:
        return len(self.over)

    def digest(self) -> str:
        return repr((STATISTIC, self.loss, self.most, ABOVE, self.far, self.mu))

    def distances(self, losses: Vector, weights: Vector) -> Vector:
        """Return u (m,) of one loss a person (n,) and their weights (n,). Private.

        For a bounded loss, a value that is not finite counts as the largest. For an unbounded loss it counts as the
        smallest: clipping maps it to the upper end, which it must not move.
        """
        filled = np.where(np.isfinite(losses), losses, -math.inf if self.most is None else math.inf)
        place = np.searchsorted(self.over, filled)  # index of the smallest bound that is at least the loss
        sums = [math.fsum(weights[place == j]) for j in range(len(self.over))]  # rounded once each: see noise.SLACK
        S = 1.0 - np.cumsum(sums)
        u = np.asarray(np.abs(S - ABOVE))
        octave = round(1 / STEP)
        near = np.concatenate([np.ones(octave), S[:-octave]])  # above half of the bound; unknown below the first one
        return np.asarray(np.maximum(u, ABOVE + self.far - near))


class ClipChoice(NoisyMin):
    """Releases a bound of small distance, as NoisyMin does: a person moves an entry by their weight at most."""

    def __init__(self, noise: NoiseSource, query: ClipQuery) -> None:
        super().__init__(noise, np.exp(-query.handicaps).tolist())
        self._over = query.over

    def draw(self, statistic: Vector, scale: float) -> Vector:
        return self._over[super().draw(statistic, scale).astype(np.intp)]

    def _entry(self, query: AnyQuery, sensitivity: float) -> float:
        return sensitivity


def range_of(bound: float, most: float | None) -> tuple[float, float]:
    """Return the clip (low, high) that follows from a released bound."""
    return 0.0, MARGIN * bound if most is None else min(MARGIN * bound, most)
