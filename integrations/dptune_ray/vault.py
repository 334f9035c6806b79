"""The vault: the one process of a Tune run that holds losses, pays, and answers with released values.

Every method may be called again, by a retry or after the actor was restarted: a release is idempotent by its key in
the ledger, a value that is not a release of its own is fixed there when it is told, and losses that died with the actor
are asked for once more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import dptune
from dptune.search.agreement import parts
from dptune.search.names import DEFAULT, VALUE, as_stored
from dptune.search.request import SearchRequest
from dptune_ray.actors import answered

MODE, REPORTED = "mode", "reported/"  # public facts of a run in the ledger
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class VaultRun:
    """What a vault runs."""

    request: SearchRequest  # its privatizer holds no losses here
    scope: str  # the run's name in the ledger
    space: dptune.Space | None  # None where another searcher proposes
    mode: str  # "min": the function returns losses; "max": it returns scores

    def begin(self) -> dptune.SearchRun:
        """Begin the run, or continue it from the ledger.

        Raises:
            BudgetMismatch: it was begun with other settings, another privatizer or the other mode.
            BudgetExhausted: the ledger has not that much left for a new run.
        """
        if self.request.ledger.fix(self.scope, MODE, self.mode) != self.mode:
            raise dptune.errors.BudgetMismatch(
                f"the run {self.scope!r} was begun with the other mode; give a new search a new name."
            )
        return self.request.begin(self.scope, self.space)

    def level(self, value: Any) -> Any:
        """Turn scores into losses of the same clipping range, and back: the best score is the smallest loss."""
        clip = self.request.privatizer.interval
        return value if self.mode == "min" else clip.low + clip.high - value

    def settings(self) -> str:
        """Return all that must not differ while the vault runs, the privatizer apart."""
        request = self.request
        space = None if self.space is None else self.space.describe()
        given = [sorted((of or {}).items()) for of in (request.settings, request.default)]
        about = request.method.name, self.scope, space, self.mode, request.mu, request.seed, request.start_from
        return repr((*about, given))


@dataclass(frozen=True)
class Told:
    """What a trial was told, a public fact."""

    parameters: Mapping[str, Any]  # where it was evaluated, as plain JSON data
    value: float  # as Tune sees it

    def at(self, parameters: Mapping[str, Any], trial: str) -> Told:
        """Return this, or refuse other parameters."""
        here, there = (json.dumps(as_stored(p), sort_keys=True) for p in (parameters, self.parameters))  # NaN is NaN
        if here != there:
            raise dptune.errors.KeyConflict(
                f"the trial {trial!r} has its value at other parameters; nothing was trained or spent. Give a new "
                "trial a new name."
            )
        return self


class Vault:
    """Privatizer, ledger and run of one search; knows nothing of Ray.

    Args:
        run: what it runs.
    """

    def __init__(self, run: VaultRun) -> None:
        self._about, self._privatizer, self._ledger = run, run.request.privatizer, run.request.ledger
        self._begun: dptune.SearchRun | None = None
        self._ended: dptune.DptuneError | None = None  # why
        self._asked: dict[str, dict[str, Any]] = {}  # trial -> what it should try; until it has its losses
        self._proposals = 0
        self._idle = False  # whether schedulers have stopped too many trials in a row
        self._told: dict[str, Told] = {}  # by trial
        self._taken: set[str] = set()  # trials whose losses this process has had
        self._stopped: set[str] = set()  # trials that private losses have stopped
        self._uploads: dict[str, tuple[str, dict[int, bytes]]] = {}  # trial -> name, parts by their first row

    @property
    def _run(self) -> dptune.SearchRun:
        if self._begun is None:
            self._begun = self._about.begin()
        return self._begun

    @property
    def _own(self) -> bool:
        """Whether each trial has a release of its own."""
        return self._run.plan.monitor_mu > 0

    @answered
    def begin(self, settings: str, fingerprint: str) -> tuple[str, str]:
        """Begin the run, or find that it goes on; return what it spends, and why it will learn little ("": it may).

        Raises:
            BudgetMismatch: this vault, or the ledger, has a run of this name with other settings or privatizer.
            BudgetExhausted: the ledger has not that much left for a new run.
        """
        same = {"settings": settings == self._about.settings()}
        same["privatizer (clip, groups, weights, precision or seed)"] = fingerprint == self._privatizer.fingerprint()
        other = [name for name, agrees in same.items() if not agrees]
        if other:
            raise dptune.errors.BudgetMismatch(
                f"a search named {self._about.scope!r} with other {' and '.join(other)} is running; give this one "
                "another name."
            )
        self._asked.clear()  # trials that an earlier fit has lost
        self._idle = False
        if self._ended is not None:
            self._begun, self._ended = None, None  # fitted again, with a better function
        return self._about.request.announcement(self._run), self._about.request.warning(self._run)

    @answered
    def extend(self, trials: int, mu: float | None) -> str:
        """Go on with what extends the run (:meth:`dptune.SearchRun.extend`); return what that spends."""
        self._begun, self._proposals = self._run.extend(trials=trials, mu=mu), 0
        self._asked.clear()
        return self._about.request.announcement(self._run)

    @answered
    def ask(self, trial: str) -> dict[str, Any] | None:
        """Return the parameters a trial should try, {} if that is another searcher's choice, None if the run is over.

        Raises:
            BudgetExhausted: the first trial cannot be paid.
            DptuneError: why the experiment has ended: all first trials have failed, or none could be of use.
        """
        self._refuse_ended()
        if trial in self._asked:
            return self._asked[trial]
        run = self._run
        if self._idle or len(self._asked) >= run.plan.trials + run.plan.spare:
            return None  # as many trials as a run has were lost: with num_samples=-1 it would never end
        try:
            asked = self._propose(run, trial)
        except dptune.PlanComplete:
            return None
        except dptune.BudgetExhausted:
            if not self._ledger.count(run.scope):
                raise
            return None
        self._asked[trial] = asked
        self._proposals += 1
        return asked

    def _propose(self, run: dptune.SearchRun, trial: str) -> dict[str, Any]:
        if run.space is None:
            run.check(trial)
            return {}
        return run.ask(self._proposals, trial=trial)

    @answered
    def withdraw(self, trial: str) -> None:
        """Forget a trial that asked and will not begin: it does not count as lost."""
        self._asked.pop(trial, None)

    @answered
    def failed(self, trial: str) -> None:
        """Forget what a trial has reported that will not run again; raise why the experiment has ended, if it has."""
        self._run.rungs.withdraw(trial)
        self._refuse_ended()

    @answered
    def refused(self, reason: str) -> None:
        """End the experiment if what dptune refused of a trial, by public facts, was refused of all before it."""
        if not self._taken:
            self._ended = dptune.InputError(f"{reason} No trial was accepted before: the experiment ends.")

    @answered
    def stopped(self, trial: str) -> None:
        """Forget a trial that a scheduler has stopped, unpaid; another takes its place, but not for ever."""
        self._asked.pop(trial, None)
        try:
            self._run.withdrawn(trial)
        except dptune.PlanComplete:
            self._idle = True

    @answered
    def check(self, trial: str, parameters: Mapping[str, Any]) -> float | None:
        """Refuse a trial before a model is trained, or tell it the value that it has already.

        Returns:
            None if it has none, or if the losses it had handed in are gone and the present round needs them.

        Raises:
            KeyConflict: the trial has a value at other parameters.
            PlanComplete: the run has made all its releases.
            BudgetExhausted: the ledger is spent, by this run or by others.
            InputError: it is no point of the search space, so that nothing could be learned from it.
            DptuneError: the experiment has ended.
        """
        self._refuse_ended()
        known = self._known(trial)
        if known is None:
            self._run.check(trial, parameters)
            self._refuse_outside(trial, parameters)
            return None
        value = known.at(parameters, trial).value
        if trial in self._taken or self._run.space is None or self._run.complete:
            return value
        earlier = self._own and self._run.recorded_parameters(trial) is None  # of a run that this one extends
        return value if earlier else None

    def _refuse_ended(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _refuse_outside(self, trial: str, parameters: Mapping[str, Any]) -> None:
        """Nothing could be learned from such a trial: a run whose trials are all outside would never end."""
        if self._run.space is not None and (wrong := self._run.space.wrong_with(parameters)):
            raise dptune.InputError(
                f"the trial {trial!r} is no point of the search space of the run {self._about.scope!r}: {wrong}. "
                f"Nothing was trained or paid. The searcher asked for {self._asked.get(trial)}: what has changed that?"
            )

    @answered
    def told(self, trial: str) -> float | None:
        """Return what the trial was told, or None."""
        known = self._known(trial)
        return None if known is None else known.value

    def _known(self, trial: str) -> Told | None:
        """What the trial was told, looked up in the ledger if another life of this vault has told it."""
        if trial not in self._told:
            found: Any = self._released(trial) if self._own else self._ledger.fact(self._about.scope, REPORTED + trial)
            if found is None:
                return None
            self._told[trial] = Told(found["parameters"], float(found["value"]))
        return self._told[trial]

    def _released(self, trial: str) -> dict[str, Any] | None:
        """The trial's own release, of the run or of one that it extends."""
        run, scopes = self._run, [self._run.scope]
        if run.recorded_parameters(trial) is None:  # parts of the whole are looked up where there are any
            scopes = parts(self._ledger, run.scope)[1:] if run.trials > run.plan.trials else []
        found = (self._ledger.find(scope, VALUE + trial) for scope in scopes)
        charge = next((charge for charge in found if charge is not None), None)
        if charge is None or charge.value is None:
            return None
        return {"parameters": charge.note["parameters"], "value": self._about.level(charge.value[0])}

    @answered
    def put(self, trial: str, upload: str, first: int, part: bytes) -> None:
        """Take float64 losses of a trial, the rows from ``first`` on."""
        if trial not in self._uploads or self._uploads[trial][0] != upload:
            self._uploads[trial] = upload, {}
        self._uploads[trial][1][first] = part

    @answered
    def finish(self, trial: str, parameters: Mapping[str, Any], upload: str, rows: int | None) -> float | None:
        """Take a trial's losses and tell its value: its own release, or what the run's releases say by now.

        Args:
            trial: its identifier.
            parameters: where it was really evaluated, by path.
            upload: under which its losses were put.
            rows: how many there are; None if the evaluation failed.

        Returns:
            The value, which is the same if the trial runs again, or None if losses are missing: put them again.

        Raises:
            KeyConflict: the trial has a value at other parameters.
            TrialFailed: the evaluation failed, and no trial of the run has succeeded yet; nothing was paid.
            AllTrialsFailed: so did all first trials of the run, which ends.
        """
        losses = self._losses(trial, upload, rows)
        if losses is None and rows is not None:
            return None
        self._asked.pop(trial, None)
        if trial not in self._taken:
            try:
                value = self._run.finish(trial, parameters, losses)
            except dptune.errors.AllTrialsFailed as error:
                self._ended = error
                raise
            self._told[trial] = self._tell(trial, parameters, value).at(parameters, trial)
            self._taken.add(trial)
        self._uploads.pop(trial, None)  # of another process of the trial, which gets the value too
        return self._told[trial].at(parameters, trial).value

    @answered
    def report(
        self, trial: str, parameters: Mapping[str, Any], upload: str, rows: int | None, step: int = 0
    ) -> bool | None:
        """Take the losses of a trial's half-trained model; tell whether the trial ends with them, as one release.

        Arguments and None as for :meth:`finish`. A trial that ends takes no part, and another takes its place.

        Raises:
            InputError: the run was planned without decisions, or the losses have a wrong shape; nothing was paid.
        """
        losses = self._losses(trial, upload, rows)
        if losses is None and rows is not None:
            return None
        if trial in self._taken | self._stopped:
            return True  # another process of the trial has ended it: this one ends, too
        self._run.rungs.report(trial, parameters, losses, step)
        if not self._run.rungs.stops(trial):
            return False
        self._asked.pop(trial, None)
        self._uploads.pop(trial, None)  # of another process of the trial
        self._stopped.add(trial)
        self._run.withdrawn(trial)
        return True

    def _tell(self, trial: str, parameters: Mapping[str, Any], value: float) -> Told:
        """A trial's own release is a level of loss; otherwise its value is a difference of losses, fixed when told."""
        if self._own:
            return Told(as_stored(parameters), self._about.level(value))
        told = value if self._about.mode == "min" else 0.0 - value
        fact = {"parameters": as_stored(parameters), "value": told if math.isfinite(told) else str(told)}
        fixed: Any = self._ledger.fix(self._about.scope, REPORTED + trial, fact)
        return Told(fixed["parameters"], float(fixed["value"]))

    @answered
    def check_estimate(self, parameters: Mapping[str, Any], early: bool) -> None:
        """Refuse, before a model is trained, a final estimate as :meth:`dptune.SearchRun.check_estimate` does."""
        self._run.check_estimate(parameters, early=early)

    @answered
    def estimated(self, parameters: Mapping[str, Any]) -> dptune.search.Estimate | None:
        """Return what was released about these parameters, without any training; None: nothing."""
        known = self._run.estimated(parameters)
        return None if known is None else replace(known, value=self._about.level(known.value))

    @answered
    def estimate(
        self,
        trial: str,
        parameters: Mapping[str, Any],
        upload: str,
        rows: int | None,
        default_rows: int | None = None,
    ) -> dptune.search.Estimate | None:
        """Release the final estimate; arguments and None as for :meth:`finish`, and the losses at the default."""
        losses, default = self._losses(trial, upload, rows), self._losses(DEFAULT, upload, default_rows)
        if (losses is None and rows is not None) or (default is None and default_rows is not None):
            return None
        estimate = self._run.estimate(parameters, losses, default=default, early=True)  # checked before the training
        return replace(estimate, value=self._about.level(estimate.value))  # an improvement is one of scores too

    def _losses(self, trial: str, upload: str, rows: int | None) -> Vector | None:
        """The losses (rows,), or None if there are none, or not all of them."""
        name, parts = self._uploads.get(trial, ("", {}))
        if rows is None or name != upload:
            return None  # another process of the trial may be handing over: its upload stays
        del self._uploads[trial]
        joined = np.frombuffer(b"".join(parts[first] for first in sorted(parts)))
        return None if len(joined) != rows else self._about.level(joined)
