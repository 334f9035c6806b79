"""The meaning of a privacy parameter for one person: how well the best attacker distinguishes two records.

The attacker knows two neighbouring data sets, which differ in one unit's records, and sees all releases about one.
Under mu-GDP, the test is no easier than N(0, 1) against N(mu, 1) (Dong, Roth, Su 2022). Under (epsilon, delta)-DP, TPR
<= e^epsilon FPR + delta, and the same with both swapped (Kairouz, Oh, Viswanath 2015)::

    attack advantage    max TPR - FPR = 2 Phi(mu/2) - 1        (e^epsilon - 1 + 2 delta) / (e^epsilon + 1)
    TPR at FPR a        Phi(mu + Phi^-1(a))                    min(e^epsilon a + delta, 1 - e^-epsilon (1 - a - delta))
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import exp, log

from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from dptune._checks import shown
from dptune._numbers import rounded_up
from dptune._statement import Curve, Statement
from dptune.errors import InputError
from dptune.ledger.approximate import Limits
from dptune.ledger.statement import BudgetStatement

FALSE_POSITIVES = 0.01


@dataclass(frozen=True)
class Risk:
    """Upper bounds for one unit, by default a person.

    Attributes:
        advantage: true positives minus false positives of the best attack; 0 is blind guessing, 1 is certainty.
        detected: true positives of an attack that accuses one of a hundred wrongly.
        unit: whose records the attacker looks for, in words.

    Example:
        >>> Risk.of_mu(1.0)
        Risk(advantage=0.38292492254802624, detected=0.09236224807369403)
    """

    advantage: float
    detected: float
    unit: str = field(default="one person", repr=False)

    @classmethod
    def of_mu(cls, mu: float) -> Risk:
        """Return what mu-GDP allows.

        Raises:
            InputError: mu is below 0, or NaN.
        """
        if not mu >= 0:
            raise InputError(f"mu must be a number >= 0; got {shown(mu)}.")
        return cls(float(2 * ndtr(mu / 2) - 1), float(ndtr(mu + ndtri(FALSE_POSITIVES))))

    @classmethod
    def of_epsilon(cls, epsilon: float, delta: float) -> Risk:
        """Return what (epsilon, delta)-DP allows."""
        shrink = exp(-epsilon)  # an epsilon of a thousand would overflow the other way
        advantage = (1 - shrink + 2 * delta * shrink) / (1 + shrink)
        steep = FALSE_POSITIVES / shrink + delta if shrink > FALSE_POSITIVES else 1.0
        return cls(min(advantage, 1.0), min(steep, 1 - shrink * (1 - FALSE_POSITIVES - delta), 1.0))

    @classmethod
    def of_curve(cls, curve: Curve) -> Risk:
        """Return what a whole privacy profile allows: (epsilon, delta(epsilon)) for every epsilon at once.

        The advantage is delta(0), which is the total variation distance of the two data sets' releases. Each epsilon
        bounds the true positives, as above; the smallest bound is looked for, and every one that is met holds.
        """

        def above(x: float) -> float:  # x = e^epsilon
            return x * FALSE_POSITIVES + curve.delta(log(x))

        def below(shrink: float) -> float:  # e^-epsilon
            return 1 - shrink * (1 - FALSE_POSITIVES - curve.delta(-log(shrink)))

        searched = ((above, (1.0, 1 / FALSE_POSITIVES)), (below, (FALSE_POSITIVES, 1.0)))
        minima = [minimize_scalar(bound, bounds=ends, method="bounded").fun for bound, ends in searched]
        return cls(min(curve.delta(0.0), 1.0), float(min(*minima, above(1.0), 1.0)))

    @classmethod
    def of_statement(cls, statement: Statement) -> Risk:
        """Return what a statement's guarantee allows about its unit; certainty where nothing is promised."""
        return replace(cls._of_guarantee(statement), unit=statement.unit)

    @classmethod
    def _of_guarantee(cls, statement: Statement) -> Risk:
        if not statement.private:
            return cls(1.0, 1.0)
        exposure = statement.exposure if isinstance(statement, BudgetStatement) else None
        if isinstance(exposure, Limits) and not exposure.divided:
            return cls.of_mu(exposure.mu)
        if statement.curve is not None:
            return cls.of_curve(statement.curve)
        return cls.of_epsilon(statement.epsilon, statement.delta)

    def __str__(self) -> str:
        right, detected = (rounded_up(100 * x, 3) for x in ((1 + self.advantage) / 2, self.detected))
        return (
            f"An attacker who knows two neighbouring data sets, which differ in the records of {self.unit}, and "
            f"guesses which one was used, is right at most {right} times in 100 (50 without any release; attack "
            f"advantage at most {rounded_up(self.advantage, 3)}); with 1 false accusation in 100, at most {detected} "
            "true ones in 100."
        )
