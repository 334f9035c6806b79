"""The vault: the only process of a Tune run that holds losses, charges, and answers with released values.

Every method may be called again, by a retry or after a restart of the actor. A release is idempotent by its key in the
ledger. A value that is not a release is fixed there when a trial gets it. Losses that a dead actor has lost are
requested again.
"""

from __future__ import annotations

import enum
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import dptune
from dptune.search.final_estimate import as_stored
from dptune.search.replay import VALUE
from dptune_ray.vault_run import VaultRun

REPORTED = "reported/"  # prefix of a run's public facts about its trials' values
Losses = npt.NDArray[np.float64]


class LossesMissing(dptune.DptuneError):
    """The vault lacks an upload, for example after a restart: upload again."""


@dataclass(frozen=True)
class Upload:
    """The public facts about uploaded losses."""

    identifier: str  # unique among a trial's processes
    names: tuple[str, ...]  # names of the losses: a trial, or the two points of the final estimate
    rows: tuple[int | None, ...]  # number of losses under each name; None: the evaluation failed


class Stage(enum.Enum):
    """The progress of a trial in this life of the vault."""

    OPEN = "its losses are to come, or an earlier life took them"
    STOPPED = "a scheduler has stopped it"
    TAKEN = "its losses were taken and it was told its value"


@dataclass
class Trial:
    """The state of a trial in this life of the vault."""

    stage: Stage = Stage.OPEN
    asked: dict[str, Any] | None = None  # proposed parameters; None when losses are no longer expected
    at: Mapping[str, Any] | None = None  # parameters of the evaluation
    answer: Mapping[str, Any] | None = None  # Tune's value and the parameters, as plain JSON data
    upload: str = ""  # upload that the parts belong to
    parts: dict[int, bytes] = field(default_factory=dict)  # float64 losses, by their first row


class Vault:
    """Privatizer, ledger and run of one search; it does not use Ray."""

    def __init__(self, run: VaultRun) -> None:
        self.definition = run
        self._ledger = run.request.ledger
        self._begun: dptune.SearchRun | None = None
        self._ended: dptune.DptuneError | None = None  # why the experiment ends
        self._trials: defaultdict[str, Trial] = defaultdict(Trial)
        self._proposals = 0
        self._idle = False  # whether schedulers have stopped too many trials in a row
        self._early = 0  # number of trials that schedulers have stopped in this life

    @property
    def _run(self) -> dptune.SearchRun:
        if self._begun is None:
            self._begun = self.definition.begin()
        return self._begun

    @property
    def _own(self) -> bool:
        return self._run.plan.monitor_mu > 0

    def _refuse_ended(self) -> None:
        if self._ended is not None:
            raise self._ended

    def begin(self, described: Mapping[str, str]) -> tuple[str, str]:
        """Begin or resume the run; return its spending, and a warning if it will learn little, else ""."""
        other = [name for name, mine in self.definition.described().items() if described[name] != mine]
        if other:
            raise dptune.errors.BudgetMismatch(
                f"a search named {self.definition.scope!r} with other {' and '.join(other)} is running; give this one "
                "another name."
            )
        self._go_on(None if self._ended is not None else self._begun)  # a second fit, with a better function
        return self.definition.request.announcement(self._run), self.definition.request.warning(self._run)

    def make_up(self) -> None:
        """Make the releases that an error has prevented, if their losses are here."""
        self._run.make_up()

    def _go_on(self, run: dptune.SearchRun | None) -> None:
        """Forget the lost trials and the end of an earlier fit."""
        self._begun = run
        self._ended = None
        self._idle = False
        self._early = 0
        for trial in self._trials.values():
            trial.asked = None

    # ---- before a model is trained -------------------------------------------------------------------

    def ask(self, trial: str) -> dict[str, Any] | None:
        """Return a trial's proposed parameters, {} if another searcher proposes, or None if the run is over."""
        self._refuse_ended()
        one = self._trials[trial]
        run = self._run
        if one.asked is not None:
            return one.asked
        expected = sum(each.asked is not None for each in self._trials.values())
        if self._own and self._early and run.values + self._early >= run.plan.trials:
            return None  # stopped trials count towards the plan
        if self._idle or expected >= run.plan.trials + run.plan.spare:
            return None  # a whole run's number of trials was lost: num_samples=-1 would never end
        try:
            if run.space is None:
                run.check(trial)
            one.asked = {} if run.space is None else run.ask(self._proposals, trial=trial)
        except dptune.PlanComplete:
            return None
        except dptune.BudgetExhausted:
            if not self._ledger.count(run.scope):
                raise
            return None
        self._proposals += 1
        return one.asked

    def withdraw(self, trial: str) -> None:
        """Forget a trial that will not begin: it does not count as lost."""
        self._trials[trial].asked = None

    def check(self, trial: str, parameters: Mapping[str, Any]) -> float | None:
        """Refuse a trial before training, or return its existing value.

        Return None if it has no value, or if its losses are lost and the present round needs them.
        """
        self._refuse_ended()
        run = self._run
        value = self._told_at(trial, parameters)
        if value is None:
            run.check(trial, parameters)
            if run.space is not None and (wrong := run.space.validation_error(parameters)):
                raise dptune.InputError(
                    f"the trial {trial!r} is not a point of the search space of the run {run.scope!r}: {wrong}. "
                    f"Nothing was trained or paid. The searcher asked for {self._trials[trial].asked}; what changed "
                    "that?"
                )
            self._trials[trial].at = dict(parameters)
            return None
        return value if self._trials[trial].stage is Stage.TAKEN or run.space is None or run.complete else None

    def estimated(self, parameters: Mapping[str, Any], early: bool) -> dptune.results.Estimate | None:
        """Return the release about these parameters, or None; see :meth:`dptune.SearchRun.check_estimate`."""
        self._run.check_estimate(parameters, early=early)
        estimate = self._run.estimated(parameters)
        return None if estimate is None else replace(estimate, value=self.definition.level(estimate.value))

    # ---- values of trials ----------------------------------------------------------------------------

    def reported(self, trial: str) -> float | None:
        answer = self._known(trial)
        return None if answer is None else float(answer["value"])

    def sigma(self, trial: str) -> float | None:
        """Return the standard deviation of the value's noise; None if it contains no release of its own."""
        answer = self._known(trial)
        return None if answer is None else answer.get("sigma")

    def _known(self, trial: str) -> Mapping[str, Any] | None:
        """Return parameters and value, from the ledger if another life of this vault returned them."""
        one = self._trials[trial]
        if one.answer is None:
            answer: Any = (
                self._released(trial) if self._own else self._ledger.fact(self.definition.scope, REPORTED + trial)
            )
            one.answer = answer
        return one.answer

    def _released(self, trial: str) -> dict[str, Any] | None:
        charge = self._ledger.find(self._run.scope, VALUE + trial)
        if charge is None or charge.value is None:
            return None
        value = self.definition.level(charge.value[0])
        sigma = float(charge.description["sigma"])
        return {"parameters": charge.note["parameters"], "value": value, "sigma": sigma}

    def _told_at(self, trial: str, parameters: Mapping[str, Any]) -> float | None:
        """Return the trial's recorded value, or None; refuse other parameters than the recorded ones."""
        answer = self._known(trial)
        return None if answer is None else _value_at(answer, trial, parameters)

    # ---- how a trial ends without a value ------------------------------------------------------------

    def failed(self, trial: str) -> None:
        """Raise the error that ended the experiment, if there is one."""
        self._refuse_ended()

    def refused(self, reason: str) -> None:
        """End the experiment if dptune refused this and all earlier trials by public facts."""
        if all(trial.stage is not Stage.TAKEN for trial in self._trials.values()):
            self._ended = dptune.InputError(f"{reason} No trial was accepted before: the experiment ends.")

    def stopped(self, trial: str) -> str:
        """Count a trial that a scheduler has stopped; return why proposals end, or ""."""
        one = self._trials[trial]
        one.asked = None
        if one.stage is not Stage.OPEN:
            return ""  # Tune has reported it before
        self._end(trial, Stage.STOPPED)
        self._early += 1
        try:
            if one.at is None:
                self._run.withdraw(trial)
            else:
                self._run.stopped(trial, one.at)
        except dptune.PlanComplete as error:
            self._idle = True
            return str(error)
        return ""

    def unpaid(self, trial: str) -> tuple[str, bool]:
        """Return why a trial has no value, and whether that is a mistake."""
        if self._run.used_up:
            return f"the run {self.definition.scope!r} is complete, so the trial was not trained.", False
        return (
            "its function failed, as in all trials before. trainable.try_out(config) shows what the function raises.",
            True,
        )

    # ---- losses --------------------------------------------------------------------------------------

    def put(self, trial: str, upload: str, first: int, part: bytes) -> None:
        """Store float64 losses of a trial, the rows from ``first`` on."""
        one = self._trials[trial]
        if one.upload != upload:
            one.upload = upload
            one.parts = {}
        one.parts[first] = part

    def finish(self, upload: Upload, trial: str, parameters: Mapping[str, Any]) -> float:
        """Return a trial's value: its own release, or a fixed estimate from all releases so far."""
        (losses,) = self._taken(upload)
        one = self._trials[trial]
        one.asked = None
        if one.stage is not Stage.TAKEN or one.answer is None:
            try:
                value = self._run.finish(trial, parameters, losses)
            except dptune.errors.AllTrialsFailed as error:
                self._ended = error
                raise
            one.answer = self._tell(trial, parameters, value)
        answer = _value_at(one.answer, trial, parameters)
        self._end(trial, Stage.TAKEN)
        return answer

    def estimate(self, upload: Upload, parameters: Mapping[str, Any]) -> dptune.results.Estimate:
        """Release the final estimate, in scores if the function returns scores."""
        losses, *others = self._taken(upload)
        default = others[0] if others else None
        estimate = self._run.estimate(parameters, losses, default=default, early=True)  # checked before the training
        return replace(estimate, value=self.definition.level(estimate.value))

    def _taken(self, upload: Upload) -> list[Losses | None]:
        """Remove and return an upload; None for a failed evaluation."""
        taken = [self._joined(upload.identifier, *one) for one in zip(upload.names, upload.rows, strict=True)]
        if any(one is None and rows is not None for one, rows in zip(taken, upload.rows, strict=True)):
            raise LossesMissing("the vault does not hold the losses: put them again.")
        return taken

    def _joined(self, upload: str, name: str, rows: int | None) -> Losses | None:
        """Return the losses (rows,), or None until all of them have arrived."""
        one = self._trials[name]
        if rows is None or one.upload != upload:
            return None  # another process of the trial may be uploading: keep its upload
        joined = np.frombuffer(b"".join(one.parts[first] for first in sorted(one.parts)))
        one.upload = ""
        one.parts = {}
        return None if len(joined) != rows else self.definition.level(joined)

    def _end(self, trial: str, stage: Stage) -> None:
        """End a trial, and drop the uploads of its other processes."""
        self._trials[trial] = Trial(stage, answer=self._trials[trial].answer)

    def _tell(self, trial: str, parameters: Mapping[str, Any], value: float) -> Mapping[str, Any]:
        """Return a trial's value; fix an estimate from other releases in the ledger."""
        shown = self.definition.level(value)
        if self._own:
            charge = self._run.charge_of(trial)
            sigma = None if charge is None else float(charge.description["sigma"])
            return {"parameters": as_stored(parameters), "value": shown, "sigma": sigma}
        fact = {"parameters": as_stored(parameters), "value": shown if math.isfinite(shown) else str(shown)}
        fixed: Any = self._ledger.fix(self.definition.scope, REPORTED + trial, fact)
        return dict(fixed)


def _value_at(answer: Mapping[str, Any], trial: str, parameters: Mapping[str, Any]) -> float:
    """Return a trial's value if it was recorded at these parameters."""
    here, there = (json.dumps(as_stored(p), sort_keys=True) for p in (parameters, answer["parameters"]))  # NaN is NaN
    if here != there:
        raise dptune.errors.KeyConflict(
            f"the trial {trial!r} has its value at other parameters; nothing was trained or spent. Give a new trial a "
            "new name."
        )
    return float(answer["value"])
