"""The outputs y that belong to the rows: released by a privatizer, or public because the user says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy.typing as npt

from dptune._checks import at_least, boolean, function, positive
from dptune._numbers import real
from dptune.accounting.gdp import split_mu
from dptune.accounting.ledger import Limit, PrivacyLedger
from dptune.errors import InputError
from dptune.privacy.cells import attempt
from dptune.privacy.privatizer import LossPrivatizer

_KEY = "output/"


@dataclass(frozen=True)
class PublicOutputs:
    """Outputs that the user declares public. Nothing protects them; the statement repeats the user's words.

    ``rounds``, ``mu`` and ``sigma`` say that queries have no limit, no price and no noise.

    Attributes:
        measure: row number -> y. What it raises is public, too, and ends the curator's loop.
        because: why everybody may know which row has which output, in a sentence.
        maximise: whether large outputs are good.

    Raises:
        InputError: there are no words.
    """

    measure: Callable[[int], float]
    because: str
    maximise: bool = True
    rounds: None = field(default=None, init=False)
    mu: float = field(default=0.0, init=False)
    sigma: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        function("measure", self.measure)
        object.__setattr__(self, "maximise", boolean("maximise", self.maximise))
        if not (isinstance(self.because, str) and self.because.strip()):
            raise InputError("say in words why everybody may know the outputs: PublicOutputs(measure, because=...).")

    @property
    def words(self) -> str:
        """What protects the answers: nothing."""
        return f"NOT PROTECTED, declared public by the user: {self.because!r}"

    def check(self, ledger: PrivacyLedger) -> None:
        """Every ledger will do."""

    def answer(self, scope: str, t: int, row: int) -> float:
        """Return the measured output.

        Raises:
            InputError: it is not a finite number.
        """
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

    Raises:
        InputError: a setting is out of range.
    """

    measure: Callable[[int], npt.ArrayLike]
    privatizer: LossPrivatizer
    rounds: int
    mu: float
    maximise: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        function("measure", self.measure)
        if not isinstance(self.privatizer, LossPrivatizer):
            raise InputError(f"privatizer must be a LossPrivatizer; got {type(self.privatizer).__name__}.")
        object.__setattr__(self, "rounds", at_least("rounds", self.rounds, 1))
        object.__setattr__(self, "mu", positive("mu", self.mu))

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
        """Refuse another ledger: the statement would say that the answers are charged to this one.

        Raises:
            InputError: the privatizer pays elsewhere.
        """
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
                self._observe(point, row)
            query = self.privatizer.mean_query(point, self._price)
            return self.privatizer.release(query, scope=scope, key=key, limit=Limit(_KEY, self.rounds)).scalar
        finally:
            self.privatizer.forget(point)

    def _observe(self, point: str, row: int) -> None:
        losses = attempt(self.measure, row, failed=None)
        if losses is None:
            self.privatizer.observe_failure(point)
        else:
            self.privatizer.observe(point, losses)


Outputs = PublicOutputs | PrivateOutputs
