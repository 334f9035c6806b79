"""What front ends share: a search as its user asks for it, and the loop of a search that trains itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from dptune._checks import at_least, check, check_fields, function, positive
from dptune.accounting.ledger import PrivacyLedger
from dptune.algorithms.method import Method, Plan
from dptune.errors import AllTrialsFailed, InputError, PlanComplete, TrialFailed
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.search import outlook
from dptune.search.agreement import check_start, newest_name, stored_plan, stored_space, totals, usual_share
from dptune.search.run import SearchRun
from dptune.space import Float, Space

_ANY = Space({"x": Float(0, 1)})  # where the user's space is not known yet, settings are checked on this one
LARGEST_SEED = 2**32 - 1  # of every generator a seed is given to
Train = Callable[[Sequence[Mapping[str, Any]]], Iterable[Losses | None]]
Ask = Callable[[str], Mapping[str, Any]]
Tell = Callable[[str, float | None], object]


@dataclass(frozen=True)
class SearchRequest:
    """What every front end needs of a user to begin a run.

    Attributes:
        method: what searches.
        privatizer: holds the losses and pays.
        mu: GDP budget of the run; None: what is neither spent nor planned by other runs when it begins.
        seed: of the algorithm's own randomness; None: drawn when the run begins.
        settings: of the method's planner, ``trials`` among them.
        default: the user's default configuration; it must have every searched parameter, within its range.
        front_end: what the user called, for messages.
        space: on which settings are checked at once; None: the user's is not known yet.
        start_from: name of a run of the ledger whose answers the run learns first, at no cost.
        takes_reports: whether its trials hand in losses of half-trained models (:mod:`dptune.search.rungs`).

    Raises:
        InputError: there is no privatizer, or a setting is unknown or out of range.
    """

    method: Method
    privatizer: LossPrivatizer
    mu: float | None = field(default=None, metadata=check(positive))
    seed: int | None = field(default=None, metadata=check(at_least, 0, LARGEST_SEED))
    settings: Mapping[str, Any] = field(default_factory=dict)
    default: Mapping[str, Any] | None = None
    front_end: str = "the search"
    space: Space | None = None
    start_from: str | None = None
    takes_reports: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.privatizer, LossPrivatizer):
            raise InputError(f"{self.front_end} needs a LossPrivatizer; got {type(self.privatizer).__name__}.")
        if self.default is not None and not isinstance(self.default, Mapping):
            raise InputError(f"default must be a dict, of names and values; got {type(self.default).__name__}.")
        if self.settings.get("rung_share") and not self.takes_reports:
            raise InputError(
                f"{self.front_end} cannot stop trials by private losses, so rung_share= would be spent on nothing: it "
                "sees a model only when it is trained. The samplers for Optuna and the searchers for Ray can."
            )
        self.method.refuse_unknown([name for name in self.settings if name != "trials"], front_end=self.front_end)
        check_fields(self)
        self.plan(self.space or _ANY)

    @property
    def ledger(self) -> PrivacyLedger:
        """The ledger that pays."""
        return self.privatizer.ledger

    def plan(self, space: Space | None) -> Plan:
        """Return the plan of a run that would begin now."""
        share, known = usual_share(self.ledger, self.mu), self.default or {}
        default = None if space is None or space.wrong_with(known) else self._default_in(space)  # else refused later
        return self.method.plan(self.privatizer, space, mu=share, seed=self.seed or 0, default=default, **self.settings)

    def trials(self, scope: str, space: Space | None) -> int:
        """Return the number of trials of the run, or of one that would begin now."""
        if not self.begun(scope):
            return self.plan(space).trials
        return totals(self.ledger, newest_name(self.ledger, scope))[0]

    def begun(self, scope: str) -> bool:
        """Tell whether the ledger has a run of that name."""
        return stored_plan(self.ledger, scope) is not None

    def stored_space(self, scope: str) -> Space | None:
        """Return the space that was fixed when the run began, or None if it has not begun."""
        return stored_space(self.ledger, scope)

    def check_public(self, words: str | None) -> None:
        """Refuse trials that show a public quantity (``words`` say which), where private losses stop them."""
        if words is not None and self.settings.get("rung_share"):
            raise InputError("give public= or rung_share=: a trial is stopped by one of them.")

    def check_start(self, scope: str) -> None:
        """Refuse, before a model is trained, a run that could not begin.

        Raises:
            BudgetExhausted: the ledger has not ``mu`` left, or nothing at all.
        """
        check_start(self.ledger, scope, self.mu)

    def begin(self, scope: str, space: Space | None) -> SearchRun:
        """Begin the run, or continue it, or what it was extended to, from the ledger.

        Raises:
            BudgetMismatch: it was begun with other settings or another privatizer.
            BudgetExhausted: the ledger has not that much left for a new run.
        """
        run = SearchRun(
            self.method,
            self.privatizer,
            scope=scope,
            space=space,
            mu=self.mu,
            seed=self.seed,
            default=self._default_in(space),
            start_from=self.start_from,
            **self.settings,
        )
        return run.newest()

    def _default_in(self, space: Space | None) -> dict[str, Any] | None:
        """The searched part of the default configuration."""
        if space is None or self.default is None:
            return None if self.default is None else dict(self.default)
        if wrong := space.wrong_with(self.default):
            raise InputError(
                f"default= must have every active searched parameter, within its range: {wrong}. Leave default= out to "
                "compare with the centre of the search space."
            )
        return {name: self.default[name] for name in space if space.active(name, self.default)}

    def announcement(self, run: SearchRun) -> str:
        """Return a line that says what the run spends, whether it protects anybody, and how large the noise will be."""
        plan, budget = run.plan, self.ledger.budget.mu
        spends = f"The run {run.scope!r} spends mu={plan.mu:.4g} of the ledger's {budget:.4g} in {plan.trials} trials"
        asked = self.settings.get("trials") or run.trials
        spends += f" (not {asked}: they come in rounds of equal size)" if run.trials < asked else ""
        spends += (
            " that train to their end; others take the places of those that are stopped" if plan.rung_share else ""
        )
        seeded = "" if self.privatizer.private else f", and is NOT PRIVATE: {self.privatizer!r}"
        levels = 1 if self.default is None else 2
        return f"{spends}{seeded}. {outlook.in_words(outlook.noises(plan, self.privatizer, levels=levels))}"

    def warning(self, run: SearchRun) -> str:
        """Return why the run will learn little, from public numbers, and what to change; "" if it need not."""
        return outlook.warning(outlook.noises(run.plan, self.privatizer))


def drive(run: SearchRun, train: Train, *, ask: Ask | None = None, tell: Tell | None = None) -> None:
    """Try points, a round at a time, until the run is complete.

    A trial that fails counts as the worst loss and the search goes on; it costs nothing until one trial has succeeded.

    Args:
        run: a new one, or one that goes on.
        train: points of one round -> for each, in order, its per-example losses (rows,), or None if it failed.
        ask: a trial's name -> the point to try, where another searcher proposes; default the run itself does.
        tell: is given a trial's name and what is released about it; None: it failed, and nothing was released.

    Raises:
        BudgetExhausted: the ledger has not that much left; before a model is trained.
        AllTrialsFailed: as many trials as a round has, and at least four, failed at the very beginning.
        InputError: ``train`` is no function, or the losses have the wrong shape; nothing was read or spent.

    Example:
        >>> space = dptune.Space({"C": dptune.Float(1e-3, 1e3, log=True)})
        >>> run = dptune.SearchRun(dptune.CENTRED, privatizer, scope="svm", space=space, trials=100)  # doctest: +SKIP
        >>> dptune.search.drive(run, lambda points: map(losses, points))  # doctest: +SKIP
    """
    train, ask = function("train", train), function("ask", ask or (lambda name: run.ask(trial=name)))
    try:
        while not run.complete:
            _round(run, train, ask, function("tell", tell or _nobody))
    except PlanComplete:  # another process was first to complete it
        return


def _round(run: SearchRun, train: Train, ask: Ask, tell: Tell) -> None:
    points = {}
    for _ in range(max(run.algorithm.missing(), 1)):
        run.check(name := uuid4().hex)
        points[name] = ask(name)
    done = list(zip(points.items(), train(list(points.values())), strict=True))
    for (name, point), losses in sorted(done, key=lambda one: one[1] is None):  # failures count once one has succeeded
        try:
            value = run.finish(name, point, losses)
        except AllTrialsFailed:
            raise
        except TrialFailed:
            value = None
        tell(name, value)


def _nobody(name: str, value: float | None) -> None:
    """Nobody else wants to know."""
