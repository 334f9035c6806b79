"""A vault's run: a request, its name and space in the ledger, and whether the function returns losses or scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dptune
from dptune.search.request import SearchRequest

MODE = "mode"  # a public fact of a run in the ledger


@dataclass(frozen=True)
class VaultRun:
    """The run of a vault."""

    request: SearchRequest  # its privatizer holds no losses here
    scope: str  # the run's name in the ledger
    space: dptune.Space | None  # None if another searcher proposes
    mode: str  # "min": the function returns losses; "max": it returns scores

    def begin(self) -> dptune.SearchRun:
        """Begin the run, or resume it from the ledger, unless it has the other mode."""
        if self.request.ledger.fix(self.scope, MODE, self.mode) != self.mode:
            raise dptune.errors.BudgetMismatch(
                f"the run {self.scope!r} was started with the other mode; give a new search a new name."
            )
        return self.request.begin(self.scope, self.space)

    def level(self, value: Any) -> Any:
        """Turn scores into losses of the same clipping range, and back: the best score is the smallest loss."""
        if self.mode == "min":
            return value
        clip = self.request.privatizer.interval
        return clip.low + clip.high - value

    def described(self) -> dict[str, str]:
        """Return the settings that must not change while the vault runs, by their names in errors."""
        request = self.request
        space = None if self.space is None else self.space.describe()
        settings = [sorted((of or {}).items()) for of in (request.settings, request.default)]
        facts = (
            request.method.name,
            self.scope,
            space,
            self.mode,
            request.mu,
            request.seed,
            settings,
        )
        people = request.privatizer.fingerprint()
        return {"settings": repr(facts), "privatizer (clip, groups, weights, precision or seed)": people}
