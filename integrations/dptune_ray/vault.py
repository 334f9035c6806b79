"""The vault: the one process of a Tune run that holds losses, pays, and answers with released values.

The class knows nothing of Ray; :mod:`dptune_ray.client` makes it a named actor. Every method returns an
:class:`~dptune_ray.answers.Answer`.

Every method may be called again, by a retry or after the actor was restarted: a release is idempotent by its key in
the ledger, a value that is no release of its own is fixed there when it is told, and losses that died with the actor
are asked for once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dptune
from dptune_ray.answers import answered
from dptune_ray.reports import Reports
from dptune_ray.runs import RunSettings, reflected


@dataclass
class _Upload:
    """Losses on their way in, in parts."""

    name: str
    parts: dict[int, bytes]  # by their first row


class Vault:
    """Privatizer, ledger and run of one search.

    Args:
        privatizer: holds the losses and pays.
        settings: of the run.
    """

    def __init__(self, privatizer: dptune.LossPrivatizer, settings: RunSettings) -> None:
        self._privatizer, self._settings = privatizer, settings
        self._begun: dptune.SearchRun | None = None
        self._asked: dict[str, dict[str, Any]] = {}  # trial -> what it was told to try
        self._proposals = 0
        self._taken: set[str] = set()  # trials without a release of their own, whose losses the run has had
        self._reports = Reports(privatizer.ledger, settings.scope)
        self._uploads: dict[str, _Upload] = {}

    @property
    def _run(self) -> dptune.SearchRun:
        if self._begun is None:
            self._begun = self._settings.begin(self._privatizer)
        return self._begun

    @answered
    def begin(self, settings: RunSettings, fingerprint: str) -> int:
        """Begin the run, or find that it goes on; return its number of trials.

        Args:
            settings: of the search.
            fingerprint: of its privatizer.

        Raises:
            BudgetMismatch: this vault, or the ledger, has a run of this name with other settings or privatizer.
            BudgetExhausted: the ledger has not that much left for a new run.
        """
        if settings != self._settings:
            raise dptune.BudgetMismatch(
                f"a search named {settings.scope!r} with other settings is running; give this one another name."
            )
        if fingerprint != self._privatizer.fingerprint():
            raise dptune.BudgetMismatch(
                f"a search named {settings.scope!r} with another privatizer (clip, groups, weights, precision or seed) "
                "is running; give this one another name."
            )
        return self._run.plan.trials

    @answered
    def ask(self, trial: str) -> dict[str, Any] | None:
        """Return the parameters a trial should try, {} if that is another searcher's choice, None if the run is over.

        Raises:
            BudgetExhausted: the first trial cannot be paid.
        """
        if trial in self._asked:
            return self._asked[trial]
        if len(self._asked) >= self._run.plan.trials + self._run.plan.spare:
            return None  # as many trials as a run has were lost: with num_samples=-1 it would never end
        try:
            self._check(trial)
        except dptune.PlanComplete:
            return None
        except dptune.BudgetExhausted:
            if not self._run.ledger.count(self._run.scope):
                raise
            return None
        self._asked[trial] = {} if self._settings.space is None else dict(self._run.ask(self._proposals))
        self._proposals += 1
        return self._asked[trial]

    @answered
    def withdraw(self, trial: str) -> None:
        """Forget a trial that asked and will not begin: it is none that was lost."""
        self._asked.pop(trial, None)

    @answered
    def check(self, trial: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Refuse a trial before a model is trained; ``parameters`` as for :meth:`finish`.

        Raises:
            KeyConflict: the trial has a value at other parameters.
            PlanComplete: the run has made all its releases.
            BudgetExhausted: the ledger is spent, by this run or by others.
        """
        self._check(trial, parameters)

    def _check(self, trial: str, parameters: Mapping[str, Any] | None = None) -> None:
        if trial not in self._reports:
            self._run.check(trial, parameters)
        elif parameters is not None:  # its value is known and costs nothing
            self._reports.find(trial, parameters)

    @answered
    def put(self, trial: str, upload: str, first: int, part: bytes) -> None:
        """Take float64 losses of a trial, the rows from ``first`` on."""
        if trial not in self._uploads or self._uploads[trial].name != upload:
            self._uploads[trial] = _Upload(upload, {})
        self._uploads[trial].parts[first] = part

    @answered
    def finish(self, trial: str, parameters: Mapping[str, Any], upload: str, rows: int | None) -> float | None:
        """Take a trial's losses and tell its value: its own release, or what the run's releases say by now.

        Args:
            trial: the trial's identifier.
            parameters: where it was really evaluated, by path.
            upload: under which its losses were put.
            rows: how many there are; None if the evaluation failed.

        Returns:
            The value, which is the same if the trial runs again, or None if losses are missing: put them again.

        Raises:
            KeyConflict: the trial has a value at other parameters.
        """
        losses = self._losses(trial, upload, rows)
        if losses is None and rows is not None:
            return None
        own = self._run.plan.monitor_mu > 0
        value = self._released(trial, parameters, losses) if own else self._reported(trial, parameters, losses)
        self._asked.pop(trial, None)
        self._uploads.pop(trial, None)  # of another process of the trial, which gets the value too
        return value

    def _released(self, trial: str, parameters: Mapping[str, Any], losses: Any) -> float:
        """The trial's own release, a level of loss."""
        return self._outward(self._run.finish(trial, parameters, losses))

    def _reported(self, trial: str, parameters: Mapping[str, Any], losses: Any) -> float:
        """A difference of losses, a function of released values; 0 if the run withholds values.

        A trial that runs again is told the same. This vault's run counts it once; one that was restarted, and has
        lost the losses, takes them as another point. Neither costs anything: the run pays by steps and generations.
        """
        told = self._reports.find(trial, parameters)
        if told is not None and trial in self._taken:
            return told
        difference = self._run.finish(trial, parameters, losses)
        self._taken.add(trial)
        return self._reports.fix(trial, parameters, difference if self._settings.mode == "min" else 0.0 - difference)

    @answered
    def check_estimate(self, parameters: Mapping[str, Any]) -> None:
        """Refuse, before a model is trained, a final estimate that could not be paid or was made elsewhere."""
        self._run.check_estimate(parameters)

    @answered
    def estimate(
        self, trial: str, parameters: Mapping[str, Any], upload: str, rows: int | None
    ) -> dptune.Estimate | None:
        """Release the final estimate; arguments and None as for :meth:`finish`."""
        losses = self._losses(trial, upload, rows)
        if losses is None and rows is not None:
            return None
        estimate = self._run.estimate(parameters, losses)
        return dptune.Estimate(self._outward(estimate.value), estimate.sigma, estimate.private)

    @answered
    def progress(self) -> dict[str, object]:
        """Return released facts only."""
        return self._run.progress()

    def _losses(self, trial: str, upload: str, rows: int | None) -> Any:
        """The losses (rows,), as the privatizer wants them; None if there are none, or not all of them."""
        held = self._uploads.get(trial)
        if rows is None or held is None or held.name != upload:
            return None  # another process of the trial may be handing over: its upload stays
        del self._uploads[trial]
        joined = np.frombuffer(b"".join(held.parts[first] for first in sorted(held.parts)))
        if len(joined) != rows:
            return None
        return joined if self._settings.mode == "min" else reflected(self._privatizer.interval, joined)

    def _outward(self, value: float) -> float:
        return value if self._settings.mode == "min" else float(reflected(self._privatizer.interval, value))
