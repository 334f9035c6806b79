"""The collector of a local-privacy run: it charges users, stores replies, and never sees a value.

A trial's process is the user's device. It makes the collector charge the user, measures, adds noise, announces the
reply and submits it. The collector runs on the driver's node, so one ledger counts wherever a user's trials run. Every
method may be called again: a charge is idempotent by its key, and a trial has one final reply. An announced reply may
have been seen, even if no file has it: a trial that draws again after that is charged again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, SupportsFloat

import dptune
from dptune.local.randomizer import Randomizer
from dptune.space import Value
from dptune_ray.log import TrialLog

DEVICE = "promise"  # a run's fact about its randomiser


@dataclass(frozen=True)
class ReplyRequest:
    """A trial, its user, and the randomiser on the user's device as public data, for the ledger to charge."""

    trial: str  # Tune's identifier
    parameters: Mapping[str, Value]  # by path, the parameters that the user measures
    user: str | None  # the charged user; None without a ledger
    epsilon: float  # price of one reply
    private: bool  # whether the reply is private
    settings: Mapping[str, object]  # settings of the randomiser
    reply: float | None = None  # None before the device has replied

    @classmethod
    def of(cls, trial: str, parameters: Mapping[str, Value], user: str | None, randomizer: Randomizer) -> Self:
        return cls(trial, parameters, user, randomizer.epsilon, randomizer.private, randomizer.describe())

    def randomize(self, value: SupportsFloat | None) -> float:
        """Return the device's reply; the ledger calls this after the charge."""
        if self.reply is None:
            raise _NotYet
        return self.reply

    def describe(self) -> dict[str, object]:
        return dict(self.settings)


class _NotYet(Exception):
    """Raised when the user is charged and the device has not replied."""


class Collector:
    """Ledger (None without charges) and replies of one run; it does not use Ray."""

    def __init__(self, log: TrialLog, ledger: dptune.local.UserLedger | None) -> None:
        self._log, self._ledger = log, ledger

    def begin(self, log: TrialLog, ledger: str) -> None:
        """Refuse a run of this name with another ledger or another file."""
        if (log, ledger) != (self._log, repr(self._ledger)):
            raise dptune.errors.BudgetMismatch(
                f"a search named {log.run!r} with another ledger is running; give this one another name."
            )

    def charge(self, ask: ReplyRequest) -> float | None:
        """Charge the user for one draw; return the trial's existing reply, or None if the device must measure.

        If a device restarts, its unannounced draw is already charged. An announced draw may have been seen, so the
        trial is charged for another.
        """
        reply = self._known(ask)
        return self._paid(ask, len(self._log.draws(ask.trial))) if reply is None else reply

    def announce(self, ask: ReplyRequest, draw: str) -> float | None:
        """Store that the reply of a new draw may leave the device; return the trial's reply if it has one."""
        reply = self._known(ask)
        if reply is None and self._ledger is not None:
            while draw not in (draws := self._log.draws(ask.trial)):
                self._paid(ask, len(draws))
                self._log.add_draw(ask.trial, len(draws), draw)
        return reply

    def record(self, ask: ReplyRequest, draw: str, reply: float) -> float | None:
        """Store the device's reply, if it was announced; return the first one, which counts."""
        self._agree(ask)
        if self._ledger is None:
            return self._log.record(ask.trial, ask.parameters, reply)
        draws = self._log.draws(ask.trial)
        if draw not in draws:
            raise dptune.InputError(f"a reply of the trial {ask.trial!r} was not announced before it was sent.")
        return self._paid(replace(ask, reply=reply), draws.index(draw))

    def _agree(self, ask: ReplyRequest) -> None:
        if self._log.fix(DEVICE, ask.describe()) != ask.describe():
            raise dptune.InputError(
                f"the run {self._log.run!r} was started with another randomiser; give the same, or a new name."
            )

    def _known(self, ask: ReplyRequest) -> float | None:
        """Return the trial's reply from the log, or from the ledger if the collector died between the two."""
        self._agree(ask)
        entry = self._log.find(ask.trial)
        if entry is None:
            paid = (self._paid(ask, number) for number in range(len(self._log.draws(ask.trial))))
            return next((reply for reply in paid if reply is not None), None)
        if dict(entry.parameters) != dict(ask.parameters):
            raise dptune.errors.KeyConflict(
                f"the trial {ask.trial!r} has a reply at other parameters; use a new trial."
            )
        return entry.value

    def _paid(self, ask: ReplyRequest, number: int) -> float | None:
        """Charge a draw unless it is charged; log and return its reply if the ledger or ``ask`` has one."""
        if self._ledger is None:
            return None
        if ask.user is None:
            raise dptune.InputError("a ledger charges a user, and none is named.")
        which = [] if number == 0 else [number]
        key = json.dumps([self._log.run, ask.trial, dict(ask.parameters), *which], sort_keys=True)
        try:
            reply = self._ledger.reply(ask, None, user=ask.user, key=key)
        except _NotYet:
            return None
        return self._log.record(ask.trial, ask.parameters, reply)
