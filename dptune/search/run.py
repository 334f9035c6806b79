"""One run in one scope of a ledger: ask for points, collect losses, ask the method's questions, learn the answers.

Example::

    run = SearchRun(CENTRED, privatizer, scope="svm", space=Space({"C": Float(1e-3, 1e3, log=True)}), trials=100)
    while not run.complete:
        name, parameters = str(uuid4()), run.ask()
        run.check(name)                                   # refuses before a model is trained
        run.finish(name, parameters, losses(parameters))  # per-example losses (rows,)
    run.recommend()

There is one run for every method. The method's algorithm is public and knows neither losses nor ledger; the run carries
its questions to the privatizer and the answers back. The ledger is the only memory (:mod:`dptune.search.replay`).

A trial that fails, is late or never returns delays only its own process's next question, by one trial.

Guarantee: what leaves a run is a function of its releases; each is paid in the ledger before losses are read for it.
That a trial failed is public; why is not, where it may depend on private data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dptune._checks import boolean
from dptune.errors import DptuneError, InputError, PlanComplete
from dptune.ledger.entries import Quota
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.results.estimate import Estimate
from dptune.search import agreement
from dptune.search.algorithms.method import Method
from dptune.search.answer import Recommendation
from dptune.search.asking import AskingRun
from dptune.search.replay import VALUE, as_stored, point_name, refuse_name
from dptune.search.view import Lacks
from dptune.space import Space, Value


class SearchRun(AskingRun):
    """One method in one scope of a ledger; thread-safe, and several processes may share the scope.

    Args:
        scope: the run's name in the ledger.
        space: search space; None for :data:`dptune.search.VALUES`, where another searcher proposes.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; default drawn when the run begins.
        default: the user's default configuration: tried first, and what the recommendation is compared with.
        start_from: name of a run of this ledger whose answers this one learns before its first question. It has to be
            of the same method, space and privatizer, and of the same losses: what it released is free to use again.
        in_all: trials and mu of this run and the one it extends; see :meth:`extend`.
        settings: of the method's planner, ``trials`` among them.

    Raises:
        BudgetMismatch: another process planned this scope differently, or with another privatizer.
        BudgetExhausted: the ledger has not that much left for a new run.
        InputError: there is no such run to start from, or the default is not a point of the space.
    """

    def __init__(
        self,
        method: Method,
        privatizer: LossPrivatizer,
        *,
        scope: str,
        space: Space | None,
        mu: float | None = None,
        seed: int | None = None,
        default: Mapping[str, Value] | None = None,
        start_from: str | None = None,
        in_all: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        plan = agreement.agree_on_plan(
            method,
            privatizer,
            scope,
            space,
            mu=mu,
            seed=seed,
            default=default,
            start_from=start_from,
            in_all=in_all,
            settings=settings,
        )
        self._settings = settings
        self._begin(method, privatizer, scope, plan, space, default)

    def _begin(self, *run: Any) -> None:
        """Begin with what the ledger holds: also in a copy, which has none of this process's losses."""
        super().__init__(*run)
        self._told = False  # that its choice is lost

    def __getstate__(self) -> tuple[dict[str, Any], tuple[Any, ...]]:
        return self._settings, (self.method, self.privatizer, self.scope, self.plan, self.first_space, self.default)

    def __setstate__(self, state: tuple[dict[str, Any], tuple[Any, ...]]) -> None:
        self._settings, run = state
        self._begin(*run)

    # ---- before a model is trained ------------------------------------------------------------------

    def ask(self, number: int | None = None, *, trial: str | None = None) -> dict[str, Value]:
        """Return the parameters to try next. Never waits.

        Args:
            number: of the trial, for methods whose processes take different proposals; default this process's next.
            trial: its name, to :meth:`check` it with one look at the ledger.

        Raises:
            DptuneError: the method proposes nothing; with ``trial``, what :meth:`check` refuses.
        """
        if self.space is None:
            raise InputError(f"the method {self.method.name!r} proposes no points: another searcher does.")
        with self.lock:
            if trial is None:
                self.replay.sync()
            else:
                self.check(trial)
            slot = self.replay.asked if number is None or not self.method.shared_slots else number
            self.replay.asked += 1
            return self.last.proposal(self.space) or self.space.decode(self.algorithm.ask(slot))

    def check(self, trial: str, parameters: Mapping[str, Value] | None = None) -> None:
        """Refuse, before a model is trained, a trial whose next releases could not be paid.

        Releases that an error has kept from being made are made first, if this process has the losses for them.

        Raises:
            PlanComplete: the run has made all its releases.
            BudgetExhausted: the ledger is spent, by this run or by others.
            KeyConflict: the trial has its value at other parameters than these, if they are given.
            InputError: the trial has the name of the final estimate.
            LedgerError: the ledger cannot be written.
        """
        refuse_name(trial)
        with self.lock:
            self.replay.sync(write=True)
            self._told = self._told or agreement.warn_if_lost(self.ledger, self.scope, self.plan)
            if (released := self.replay.value_of(trial)) is not None:
                if parameters is not None and as_stored(parameters) != released.note["parameters"]:
                    raise self.other_parameters(trial)
                return
            self._make_up()
            if self.used_up:
                over = (
                    f"the run {self.scope!r} has used up the trials it planned ({self.plan.trials}); nothing was read "
                    "or spent. Read its recommendation, extend it (docs/resume.md), or start another study with a mu= "
                    "of its own, as for a function that has changed."
                )
                raise PlanComplete(over if self.complete else f"{over} {self._rounds_made()}")
            price = self._next_price()
            if price > 0 and not self.ledger.filter.admits(self.replay.spent, price):
                choice_of = self.scope if price == self.plan.choice_mu else ""
                self.ledger.check(price, choice_of=choice_of)  # refuses it, unless the budget was raised

    def _next_price(self) -> float:
        """GDP price of the releases that come next and are not paid."""
        if (lacks := self.lacks) is Lacks.ESTIMATE:
            return self.plan.final_mu if self.final.charge is None else 0.0
        if lacks is Lacks.CHOICE:
            return self.plan.choice_mu if self.replay.choice is None else 0.0
        # the round's: its other trials' values, as many as are left, and its questions
        values = max(min(self.algorithm.missing(), self._values_left), 1)
        return math.hypot(self.plan.monitor_mu * math.sqrt(values), self.algorithm.price())

    # ---- after a model is trained -------------------------------------------------------------------

    def finish(self, trial: str, parameters: Mapping[str, Value], losses: Losses | None) -> float:
        """Take a trial's losses, release or work out its value, and ask what can be asked.

        A failure costs nothing until one trial has succeeded.

        Args:
            trial: the trial's public name, unique in the run.
            parameters: where it was really evaluated, after rounding.
            losses: per-example losses (rows,), or None if the evaluation failed.

        Returns:
            The trial's own released value, a noisy clipped mean loss, if the plan has one for it. Else what the
            algorithm makes of the answers so far, a function of released values; inf as long as that is nothing.

        Raises:
            InputError: the losses have the wrong shape or dtype, or the trial has the name of the final estimate.
            BudgetExhausted: the value does not fit; nothing was read.
            TrialFailed: no trial of the run has succeeded yet; nothing was paid.
            AllTrialsFailed: so did as many trials as a round has, and at least four.
        """
        refuse_name(trial)
        point = point_name(self.scope, trial, parameters)
        if losses is None:
            self.unfinished.fail(point)
        self.privatizer.submit(point, losses)
        self.unfinished.succeeded |= losses is not None
        self.unfinished.stopped.clear()
        value = self._release_value(trial, point, parameters) if self.plan.monitor_mu > 0 else None
        with self.lock:
            self._held[point] = None
            self.replay.sync()
            if self.space is not None:
                self._add_point(self.space, point, parameters)
            self._forget()
            self._values[trial] = self._most(parameters) if value is None else value
            return self._values[trial]

    def stopped(self, trial: str, parameters: Mapping[str, Value]) -> None:
        """Record that a public quantity has ended a trial before it returned losses; it costs nothing.

        It is one of the planned trials, so stopping trials saves training. In the questions about its generation it
        counts like a failed evaluation. It takes no place if each trial has a release of its own, or before any trial
        has succeeded. Nor does it if two generations in a row were stopped.

        Raises:
            PlanComplete: no trial of the first round returned losses, or too many in a row were stopped.
        """
        point = point_name(self.scope, trial, parameters)
        with self.lock:
            few = len(self.unfinished.stopped) < 2 * self.algorithm.batch
            counts = self.unfinished.works and self.plan.monitor_mu == 0 and few
            if self.space is None or not counts or not self.space.contains(parameters):
                self.unfinished.withdraw(trial)
                return
            self.unfinished.stopped.add(trial)
            self.unfinished.ended_early.add(point)
            self.privatizer.submit(point, None)
            self._held[point] = None
            self.replay.sync()
            self._add_point(self.space, point, parameters)
            self._forget()

    def _release_value(self, trial: str, point: str, parameters: Mapping[str, Value]) -> float:
        quota = Quota(VALUE, self.plan.trials + self.plan.spare)
        query = self.privatizer.mean_query(point, self.plan.monitor_mu)
        note = {"parameters": as_stored(parameters), **({"failed": 1} if point in self.unfinished.failed else {})}
        try:
            return self.privatizer.release(query, scope=self.scope, key=VALUE + trial, note=note, quota=quota).scalar
        except DptuneError:
            self.privatizer.forget(point)
            raise

    def recommend(self) -> Recommendation:
        """Return the parameters to use; releases that an error has kept from being made are made first, if possible."""
        self.make_up()
        return super().recommend()

    # ---- the final estimate --------------------------------------------------------------------------

    def check_estimate(self, parameters: Mapping[str, Value], *, early: bool = False) -> None:
        """Refuse, before a model is trained, a final estimate that the run cannot make at these parameters.

        Raises:
            InputError: what :meth:`FinalEstimate.check` refuses, or trials are to come and it is not asked for early.
            BudgetExhausted, KeyConflict: it does not fit, or was made at other parameters.
        """
        early = boolean("early", early)
        self.final.check(parameters)
        with self.lock:
            self.replay.sync()
            if not (early or self.used_up or self.lacks is Lacks.ESTIMATE or self.final.charge):
                raise InputError(
                    f"the run {self.scope!r} is not complete, and its one final estimate is for its last "
                    f"recommendation. Nothing was trained or spent. {self.missing()} To end the run here, give "
                    "early=True."
                )

    def estimate(
        self,
        parameters: Mapping[str, Value],
        losses: Losses | None,
        *,
        default: Losses | None = None,
        early: bool = False,
    ) -> Estimate:
        """Release the mean clipped loss at the recommended parameters, once per run.

        With a default configuration its loss is released, too, so that the improvement has an interval that holds
        without a model. Both levels have sqrt(2) of the noise that one alone would have.

        Args:
            losses: per-example losses there (rows,), or None if the evaluation failed.
            default: the same at the run's default configuration; without them no improvement is estimated.
            early: the run is to end here, though it is not complete.
        """
        self.check_estimate(parameters, early=early)
        estimate = self.final.release(parameters, losses, default)
        with self.lock:
            self.replay.sync()
        return estimate

    # ---- more trials and more budget -------------------------------------------------------------------

    def extend(self, *, trials: int, mu: float | None = None) -> SearchRun:
        """Return the run that extends this one, which has to be complete; this one keeps its plan for good.

        It starts from all of this one's answers, at no cost, and asks with the budget that is added. Its plan is fixed
        in the ledger under a name that every process and every restart finds. Asked for again it is the same.

        Args:
            trials: wished number of trials in all, with those of this run.
            mu: GDP budget in all; default this run's and what is neither spent nor planned by others.

        Raises:
            InputError: the run is not complete, or has as much.
            BudgetMismatch: another process extends it to something else at this moment.
            BudgetExhausted: the ledger has not that much; :meth:`PrivacyLedger.raise_budget` raises it.
        """
        run = self.newest()
        wanted = agreement.wanted_in_all(run.ledger, run.scope, trials, mu)
        if wanted is None:
            return run
        if not run.complete:
            had, _ = agreement.totals(run.ledger, run.scope)
            raise InputError(
                f"the run {run.scope!r} cannot be extended before it is complete. Let it make its {had} planned "
                "trials, or start a new run from it (start_from=)."
            )
        return run._extended(wanted)

    def newest(self) -> SearchRun:
        """Return what the run was extended to by now, by whatever process: itself, if it was not."""
        run = self
        while (wanted := agreement.asked_in_all(run.ledger, agreement.name_of_extension(run.scope))) is not None:
            run = run._extended(wanted)
        return run

    def _extended(self, in_all: Mapping[str, Any]) -> SearchRun:
        had, spent = agreement.totals(self.ledger, self.scope)
        grown = type(self)(
            self.method,
            self.privatizer,
            scope=agreement.name_of_extension(self.scope),
            space=self.first_space,
            mu=None if in_all["mu"] is None else agreement.added_mu(in_all["mu"], spent),
            seed=self.plan.settings.seed,
            default=self.default,
            start_from=self.scope,
            in_all=in_all,
            **{**self._settings, "trials": in_all["trials"] - had},
        )
        grown._values = self._values  # of trials that are under way
        return grown
