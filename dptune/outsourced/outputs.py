"""The rows' outputs y, which the user declares public.

No private kind exists. A query evaluates a unit's own row. If that row changes, the losses of all n people at it may
change. The noise of a mean covers only one person's share: mu = .707 was promised and 5.48 reached. Noise for the whole
range of a loss would hide all information.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dptune._checks import Checked, boolean, check, function, real
from dptune.errors import InputError


def _sentence(name: str, value: object) -> str:
    if not (isinstance(value, str) and value.strip()):
        raise InputError(f"say in words why everybody may know the outputs: PublicOutputs(measure, {name}=...).")
    return value


@dataclass(frozen=True)
class PublicOutputs(Checked):
    """Outputs that the user declares public. Nothing protects them; the statement repeats the user's words.

    Attributes:
        measure: row number -> y. Its errors are public, too, and end the curator's loop.
        because: why everybody may know which row has which output, in a sentence.
        maximise: whether large outputs are good.
    """

    measure: Callable[[int], float] = field(metadata=check(function))
    because: str = field(metadata=check(_sentence))
    maximise: bool = field(default=True, metadata=check(boolean))

    @property
    def words(self) -> str:
        """Return in words that nothing protects the answers."""
        return f"NOT PROTECTED, declared public by the user: {self.because!r}"

    def answer(self, row: int) -> float:
        """Return the measured output, a finite number; else `InputError`."""
        y = real(self.measure(row))
        if y is None:
            raise InputError(f"measure({row}) must return a finite number.")
        return y
