"""The outputs y that belong to the rows: released by a privatizer, or public because the user says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy.typing as npt

from dptune._checks import at_least, boolean, check, check_fields, function, positive
from dptune._code import attempt
from dptune._numbers import real
from dptune.accounting.gdp import split_mu
from dptune.accounting.ledger import Limit, PrivacyLedger
from dptune.errors import InputError
from dptune.privacy.privatizer import LossPrivatizer

_KEY = "output/"


def _sentence(name: str, value: object) -> str:
    if not (isinstance(value, str) and value.strip()):
        raise InputError(f"say in words why everybody may know the outputs: PublicOutputs(measure, {name}=...).")
    return value


def _privatizer(name: str, value: object) -> LossPrivatizer:
    if not isinstance(value, LossPrivatizer):
        raise InputError(f"{name} must be a LossPrivatizer; got {type(value).__name__}.")
    return value


@dataclass(frozen=True)
class PublicOutputs:
    """Outputs that the user declares public. Nothing protects them; the statement repeats the user's words.

    Attributes:
        measure: row number -> y. What it raises is public, too, and ends the curator's loop.
        because: why everybody may know which row has which output, in a sentence.
        maximise: whether large outputs are good.
    """

    measure: Callable[[int], float] = field(metadata=check(function))
    because: str = field(metadata=check(_sentence))
    maximise: bool = field(default=True, metadata=check(boolean))
    rounds: None = field(default=None, init=False)  # queries have no limit,
    mu: float = field(default=0.0, init=False)  # no price
    sigma: float = field(default=0.0, init=False)  # and no noise

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def words(self) -> str:
        """What protects the answers: nothing."""
        return f"NOT PROTECTED, declared public by the user: {self.because!r}"

    def check(self, ledger: PrivacyLedger) -> None:
        """Every ledger will do."""

    def answer(self, scope: str, t: int, row: int) -> float:
        """Return the measured output, a finite number; else `InputError`."""
        y = real(self.measure(row))
        if y is None:
            raise InputError(f"measure({row}) must return a finite number.")
        return y


@dataclass(frozen=True)
class PrivateOutputs:
    """The mean clipped loss of people at a row, one release a query, paid in the curator's ledger.

    Attributes:
        measure: row number -> one loss per person (n,), in units of the privatizer's clip. What it raises counts as
            the upper clip and is not shown.
        privatizer: pays in the same ledger.
        rounds: number of queries that are answered.
        mu: what all of them cost together; each costs mu / sqrt(rounds).
    """

    measure: Callable[[int], npt.ArrayLike] = field(metadata=check(function))
    privatizer: LossPrivatizer = field(metadata=check(_privatizer))
    rounds: int = field(metadata=check(at_least, 1))
    mu: float = field(metadata=check(positive))
    maximise: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def sigma(self) -> float:
        """Standard deviation of an answer's noise."""
        return self.privatizer.sigma(self.privatizer.mean_query("row", self._price))

    @property
    def _price(self) -> float:
        return split_mu(self.mu, self.rounds)

    @property
    def words(self) -> str:
        """What protects the answers."""
        return f"mean clipped losses, {self.rounds} releases of mu = {self._price:.4g} charged to this ledger"

    def check(self, ledger: PrivacyLedger) -> None:
        """Refuse another ledger: the statement would say that the answers are charged to this one."""
        if self.privatizer.ledger != ledger:
            raise InputError("the privatizer of the outputs must pay in the curator's ledger; give both the same.")

    def answer(self, scope: str, t: int, row: int) -> float:
        """Measure what can be paid, charge, release. A round that was released before is answered from the ledger.

        Raises:
            BudgetExhausted: nothing is left for it.
            KeyConflict: the round was released for another row.
        """
        point, key = f"row {row}", f"{_KEY}{t}"
        known = self.privatizer.ledger.find(scope, key)
        if known is None:
            self.privatizer.ledger.check(self._price)
        try:
            if known is None or known.value is None:
                losses = attempt(self.measure, row, failed=None)
                if losses is None:
                    self.privatizer.observe_failure(point)
                else:
                    self.privatizer.observe(point, losses)
            query = self.privatizer.mean_query(point, self._price)
            return self.privatizer.release(query, scope=scope, key=key, limit=Limit(_KEY, self.rounds)).scalar
        finally:
            self.privatizer.forget(point)


Outputs = PublicOutputs | PrivateOutputs
