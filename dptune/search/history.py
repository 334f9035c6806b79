"""What one run knows of the ledger: read when it begins, then only what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dptune.accounting.gdp import Spent
from dptune.accounting.ledger import Charge
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.names import CHOICE, FINAL, RUNG, VALUE


@dataclass(frozen=True)
class Answers:
    """Charges of the algorithm's questions, for it to learn in this order.

    Attributes:
        charges: those that are new; all of them, if one was recorded late: it changes what came after it.
        rewrites: whether they are all, so that the algorithm starts again.
        drawn: numbers of those whose noise this process drew.
    """

    charges: Sequence[Charge]
    rewrites: bool
    drawn: frozenset[int]


class History:
    """The charges of one run, as far as this process has read them.

    Attributes:
        spent: by every run of the ledger.
        private: whether all of them drew their noise unseeded.
        begun: whether anything was paid for this run.

    Args:
        privatizer: of the run.
        scope: its name.
        earlier: charges that it starts from, in the order of the ledger.
    """

    def __init__(self, privatizer: LossPrivatizer, scope: str, earlier: Sequence[Charge] = ()) -> None:
        self._privatizer, self._scope, self._earlier, self.begun = privatizer, scope, earlier, False
        self.spent, self.private = Spent(), True
        self._read = 0  # charges of the ledger up to here are known
        self._answers: dict[int, Charge] = {}  # charges of the algorithm's questions, by their number
        self._unanswered: set[int] = set()  # of them those without a recorded answer
        self._releases: dict[tuple[str, str], Charge] = {}  # that are no answers to questions, by scope and key

    def read(self, *, write: bool = False) -> Answers:
        """Read what is new in the ledger.

        Args:
            write: whether to make sure that the ledger can be written.
        """
        news = self._privatizer.ledger.news(self._scope, after=self._read, again=self._unanswered, write=write)
        self.spent, self.private = news.spent, news.private
        charges, self._earlier = (*self._earlier, *news.charges), ()
        self._read = max([self._read, *(charge.seq for charge in charges)])
        questions = [charge for charge in charges if not self._is_release(charge)]
        drawn = frozenset(charge.seq for charge in questions if self._privatizer.drew(charge))  # and not recorded yet
        new = {c.seq: c for c in map(self._privatizer.recorded, questions) if self._is_new(c)}
        late = bool(new) and min(new) <= max(self._answers, default=0)
        if late:
            new = dict(sorted({**self._answers, **new}.items()))
        return Answers(list(new.values()), late, drawn)

    def add(self, charge: Charge) -> None:
        """Take note that the algorithm learns this charge's answer, or that it is lost or not recorded yet."""
        self._answers[charge.seq] = charge
        self.begun |= charge.scope == self._scope
        (self._unanswered.add if charge.value is None else self._unanswered.discard)(charge.seq)

    @property
    def learned(self) -> list[Charge]:
        """The charges of the algorithm's questions so far, in the order of the ledger."""
        return [self._answers[seq] for seq in sorted(self._answers)]

    def _is_new(self, charge: Charge) -> bool:
        known = self._answers.get(charge.seq)
        return known is None or (known.value is None and charge.value is not None)

    def _is_release(self, charge: Charge) -> bool:
        """Tell, and remember, whether it paid for a trial's value or stop, the choice or the final estimate."""
        release = charge.key in (CHOICE, FINAL) or charge.key.startswith((VALUE, RUNG))
        if release:
            self._releases[charge.scope, charge.key] = charge
            self.begun |= charge.scope == self._scope
        return release

    @property
    def chosen(self) -> bool:
        """Whether the choice at the end was made, or paid for."""
        return (self._scope, CHOICE) in self._releases

    @property
    def values(self) -> int:
        """Number of trials of this run that have a value of their own."""
        return sum(scope == self._scope and key.startswith(VALUE) for scope, key in self._releases)

    def parameters(self, trial: str) -> Mapping[str, object] | None:
        """Return where the trial was evaluated, as plain JSON data, or None if it has no value of its own yet."""
        charge = self._releases.get((self._scope, VALUE + trial))
        return None if charge is None else charge.note["parameters"]

    def sigma(self, trial: str) -> float | None:
        """Return the standard deviation of the noise in the trial's own value, or None if it has none yet."""
        charge = self._releases.get((self._scope, VALUE + trial))
        return None if charge is None else float(charge.description["sigma"])

    def released_values(self) -> list[tuple[Mapping[str, Any], float, float]]:
        """Return parameters, released value and its noise's standard deviation of every trial that has a value.

        With those of the runs that this one starts from.
        """
        values = (c for (_, key), c in self._releases.items() if key.startswith(VALUE) and c.value is not None)
        return [(c.note["parameters"], c.value[0], float(c.description["sigma"])) for c in values if c.value]
