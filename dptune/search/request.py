"""What front ends share: a search as its user asks for it, what to expect of it, and the loop of one
that trains itself.

What to expect before anything is trained is how large the noise is, in units of the loss. It is a function of public
numbers, people, clip, budget and trials, and says nothing about the data. ::

    plan = CENTRED.plan(privatizer, space, mu=1.0, seed=0, trials=100)
    print(in_words(noises(plan, privatizer)))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, NamedTuple
from uuid import uuid4

from dptune._checks import at_least, check, check_fields, function, positive
from dptune._numbers import real
from dptune.errors import AllTrialsFailed, BudgetMismatch, InputError, PlanComplete, TrialFailed
from dptune.ledger.approximate import Limits
from dptune.ledger.gdp import Budget
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.auto_clip import CLIP
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.privacy.query import Interval
from dptune.search.agreement import (
    PRIVATIZER,
    check_start,
    newest_name,
    refuse_outside,
    stored_plan,
    stored_space,
    totals,
    usual_share,
)
from dptune.search.algorithms.asks_nothing import VALUES
from dptune.search.algorithms.centred_plan import CENTRED, FEWEST_TRIALS, RUNGS
from dptune.search.algorithms.method import Method, People, Plan, PublicFacts
from dptune.search.run import SearchRun
from dptune.space import Categorical, Float, Space

_ANY = Space({"x": Float(0, 1)})  # where the user's space is not known yet, settings are checked on this one
LARGEST_SEED = 2**32 - 1  # of every generator a seed is given to
TELLS = 1.96  # standard deviations: a released difference above is told from 0, at 95%
SHOWS = TELLS + 1.645  # standard deviations: a true difference this large is told from 0 in 95% of runs
TOLD_APART = 2 * math.sqrt(2)  # standard deviations: two values that far apart differ, at 95%
COARSE = 0.05  # of the clip's width: trials that must differ by more to be told apart leave a search little to learn
DECISION = "a decision to stop a trial, at first,"
LOUD = 0.5  # of the largest typical entry of a clipped vector: more noise than that hides most of one round
Train = Callable[[Sequence[Mapping[str, Any]]], Iterable[Losses | None]]
Ask = Callable[[str], Mapping[str, Any]]
Tell = Callable[[str, float | None], object]


@dataclass(frozen=True)
class SearchRequest:
    """What every front end needs of a user to begin a run.

    Attributes:
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
        people: People = self.privatizer
        if (auto := self.privatizer.auto) is not None:  # shares and trials do not depend on a clip that is to be chosen
            share = auto.rest(share) if self.mu is None and not self.privatizer.knows_clip else share
            people = PublicFacts(self.privatizer.n, 1.0, share)
        return self.method.plan(people, space, mu=share, seed=self.seed or 0, default=default, **self.settings)

    def refuse_unknown_clip(self) -> None:
        """Refuse a clip that is to be chosen, and was not, where there is no ``default=`` to choose it from."""
        if self.default is None and not self.privatizer.knows_clip:
            raise InputError(
                f'{self.front_end}: clip="auto" is chosen from the losses of your default configuration. Give '
                "default=, or clip=(low, high)."
            )

    def choose_clip(
        self, scope: str, space: Space | None, losses: Callable[[], Losses | None], *, loss: str, most: float = math.inf
    ) -> str:
        """Let the privatizer choose its clip, if it is to and has not; return a line that says so, or "".

        Args:
            scope: name of the run that begins next.
            space: that it will search, as far as it is known.
            losses: returns those of the default configuration; None: it failed.
            loss: its name.
            most: the largest loss there is, if there is one.

        Raises:
            BudgetExhausted: the ledger has not that much left, for the clip and the run; before ``losses`` is called.
            BudgetMismatch: the run was begun with a clip.
            InputError: a setting of the run is not usable, or the default configuration failed; nothing was spent.
        """
        people = self.privatizer
        if people.auto is None or people.knows_clip:
            return ""
        begun: Any = self.ledger.fact(scope, PRIVATIZER)
        if begun is not None:
            raise BudgetMismatch(
                f"the run {scope!r} was begun with clip={begun['clip']}; give that, or another name to a new run. "
                "Nothing was trained or spent."
            )
        if self.start_from is not None:
            raise InputError("start_from= needs the clip of the run that it names: give clip=(low, high).")
        self.check_start(scope, space)
        if space is not None:
            self._default_in(space)
        known, coming = None if most == math.inf else most, self._choice_share(space)
        low, high = people.choose_clip(losses, loss=loss, most=known, mu=self.mu, choice_share=coming)
        spent = self.ledger.find(people.auto.scope, CLIP)
        price = "" if spent is None else f" for mu={spent.description['mu']:.3g}"
        return (
            f"The clip is ({low:g}, {high:.4g}), chosen privately{price} from the losses of the default configuration."
        )

    def _choice_share(self, space: Space | None) -> float:
        """Share of mu^2 that the run which begins next plans for a choice.

        A space that nobody knows yet is taken to have as many numbers and categories as the default configuration; if
        it turns out otherwise, the run is planned with what fits.
        """
        if space is not None or not self.default:
            return self.plan(space).choice_share
        numbers = sum(real(value) is not None for value in self.default.values())
        others = [2] * (len(self.default) - numbers) if self.method.any_space else []
        like = space_of(max(numbers, not others), others)
        try:
            return replace(self, default=like.centre()).plan(like).choice_share
        except InputError:  # of other settings than the run's will be
            return 0.0

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

    def check_start(self, scope: str, space: Space | None = None) -> None:
        """Refuse, before a model is trained, a run that could not begin: the ledger has not ``mu`` left, or nothing."""
        share = 1.0 if space is None else self.plan(space).choice_share
        check_start(self.ledger, scope, self.mu, choice_share=share)

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
        refuse_outside(self.default, space)
        return {name: self.default[name] for name in space if space.active(name, self.default)}

    def announcement(self, run: SearchRun) -> str:
        """Return five lines: what the run will do, what it spends and shows, what a person risks, how to resume it."""
        plan = run.plan
        share = share_in_words(self.ledger.budget, self.ledger.filter_for(run.scope).limits, plan.mu)
        planned = f"Plan: the run {run.scope!r} makes {plan.trials} trials"
        asked = self.settings.get("trials")
        if asked is None and run.plan.trials == run.trials:
            given = f"{run.space.d} coordinates" if run.space is not None else "n and mu"
            planned += f" (the number that it plans for {given})"
        elif asked is not None and run.trials < asked:
            planned += f" (not {asked}: they come in rounds of equal size)"
        planned += (
            " that train to their end; others take the places of those that are stopped" if plan.rung_share else ""
        )
        seeded = "" if self.privatizer.private else f", and is NOT PRIVATE: {self.privatizer!r}"
        found = noises(plan, self.privatizer, levels=1 if self.default is None else 2)
        spends = f"Spends: {share}{seeded}. {in_words(found)}"
        stop = "Stop: at any time; what was charged stays charged. Resume with the same ledger and name."
        lines = [f"{planned}.", spends, self._worth(plan, found), risk_in_words(self.privatizer), stop]
        return "\n".join(line for line in lines if line)

    def _worth(self, plan: Plan, found: Sequence[Noise]) -> str:
        """Say which improvement the run can show."""
        if self.default is None or plan.final_mu == 0:
            return "" if self.default is not None else "Shows: no comparison, as default= is not given."
        shows = SHOWS * math.sqrt(2) * found[-1].sigma  # the difference of two released levels
        return (
            f"Shows: an improvement over the default of {shows:.3g} in 95% of runs, and half of it in "
            f"{100 * NormalDist().cdf(SHOWS / 2 - TELLS):.0f}%."
        )

    def warning(self, run: SearchRun) -> str:
        """Return why the run will learn little, from public numbers, and what to change; "" if it need not."""
        return warning(noises(run.plan, self.privatizer))


# ---- what to expect ------------------------------------------------------------------------------------------------


def share_in_words(budget: Budget, limits: Limits, mu: float) -> str:
    """Return how much of a ledger's budget a run takes, in words; ``limits`` as they are when it has charged."""
    whole = f"{budget.mu:.4g}"
    if limits.eta > 0 or mu > budget.mu:  # it is divided, or will be
        whole = f"epsilon={budget.stated_epsilon:.4g} at delta={budget.stated_delta:.4g}"
    return f"mu={mu:.4g} of the ledger's {whole}"


def left_in_words(ledger: PrivacyLedger) -> str:
    """Return a line on what is left of a ledger's budget for other releases."""
    left = math.floor(1e4 * ledger.remaining()) / 1e4
    return f"Budget left: mu={left:g} of {ledger.mu:.4g}."


def risk_in_words(privatizer: LossPrivatizer) -> str:
    """Return a line on what a person risks by all releases of the ledger; "" where noise is seeded.

    The attacker knows every other record, and decides which of two records is the person's (`dptune.ledger.Risk`).
    """
    if not (privatizer.private and privatizer.ledger.private):
        return ""
    right = math.ceil(50 * (1 + privatizer.ledger.exposure().delta(0.0)))
    return (
        f"Risk: an attacker who sees all releases of the ledger is right about a person at most {right} times in 100 "
        f"(50 by chance)."
    )


class Noise(NamedTuple):
    """Standard deviation of the noise of one kind of release, per coordinate.

    In units of the loss (of a gradient: per side of the cube), and, ``share``, of the clip's width. ``hides`` says why
    a search learns little at this noise; "" if it is small enough.
    """

    what: str
    sigma: float
    share: float
    hides: str = ""


def noises(plan: Plan, people: People, *, levels: int = 1) -> list[Noise]:
    """Return the noise of every kind of release of a plan: values, questions, decisions, the final estimate.

    ``levels`` of loss are in the final estimate: 2 where the user's defaults are compared with.
    """
    width = people.loss_range
    found = []
    if plan.monitor_mu > 0:
        sigma = width / (people.n * plan.monitor_mu)
        apart = TOLD_APART * sigma / width
        hides = f"trials must differ by {100 * apart:.0f}% of the clip's width to be told apart by their values"
        alone = plan.monitor_share + plan.final_share == 1  # a search that has nothing else to go by
        found.append(Noise("a trial's value", sigma, sigma / width, hides if alone and apart > COARSE else ""))
    for asked in plan.settings.statistics():
        sigma = 2 * asked.radius / (people.n * asked.mu)
        ratio = sigma * math.sqrt(asked.dimension) / asked.radius
        hides = f"the noise of {asked.name} is {ratio:.2g} of the largest signal that the clip lets through"
        found.append(Noise(asked.name, sigma, sigma / width, hides if ratio > LOUD else ""))
    if plan.rung_share > 0:
        sigma = 2 * plan.rung_radius / (people.n * plan.rung_mu)
        found.append(Noise(DECISION, sigma, sigma / width))
    if plan.final_mu > 0:
        sigma = math.sqrt(levels) * width / (people.n * plan.final_mu)
        what = "the final estimate" if levels == 1 else "each of the two losses of the final estimate"
        found.append(Noise(what, sigma, sigma / width))
    return found


def in_words(found: Sequence[Noise]) -> str:
    """Return a sentence that says how large the noise is: its standard deviation, in units of the loss."""
    return "Noise: " + "; ".join(f"{noise.what} {noise.sigma:.3g}" for noise in found) + "."


def warning(found: Sequence[Noise]) -> str:
    """Return what to change where noise leaves little to learn; "" otherwise."""
    hidden = "; ".join(noise.hides for noise in found if noise.hides)
    remedy = "Plan fewer trials, a larger mu, a tighter clip, or more people."
    return f"{hidden}. {remedy}" if hidden else ""


def space_of(dimensions: int, choices: Sequence[int] = ()) -> Space:
    """Return a space of so many numbers, and of a category for each number of choices."""
    numbers = {f"x{j}": Float(0.0, 1.0) for j in range(at_least("dimensions", dimensions, 0 if choices else 1))}
    counts = [at_least("choices", count, 2) for count in choices]
    return Space({**numbers, **{f"c{j}": Categorical(range(count)) for j, count in enumerate(counts)}})


def forecast(
    n: int,
    clip: tuple[float, float],
    space: Space,
    *,
    mu: float,
    trials: int,
    default: bool = False,
    rung_share: float = 0.0,
    rungs: int = RUNGS,
) -> list[dict[str, Any]]:
    """Return the noise with these settings and with their neighbours: half and twice the budget and the trials.

    Args:
        n, clip: number of people, and the public range of one loss.
        space: that is searched; :func:`space_of` makes one from numbers of parameters.
        default: whether the run has ``default=``; its final estimate releases the default's loss, too.
        rung_share, rungs: share of mu^2 for decisions to stop trials, and such decisions a trial.

    Returns:
        One row for each method, budget and number of trials: standard deviations in units of the loss, and a warning.
        With a ``rung_share`` only of the method that can stop trials, and the noise of one decision is among them.
    """
    people = PublicFacts(at_least("n", n, 1), Interval(*clip).diameter, mu)
    trials = at_least("trials", trials, FEWEST_TRIALS)
    counts = sorted({max(trials // 2, FEWEST_TRIALS), trials, 2 * trials})
    rows: list[dict[str, Any]] = []
    settings: dict[str, Any] = {"rung_share": rung_share, "rungs": rungs} if rung_share else {}
    for method in (CENTRED,) if rung_share else (CENTRED, VALUES):
        searched = space if method.any_space else space_of(space.d)  # the noise of values is the same in any
        for budget in (mu / 2, mu, 2 * mu):
            for count in counts:
                plan = method.plan(people, searched, mu=budget, seed=0, trials=count, **settings)
                found = noises(plan, people, levels=2 if default else 1)
                row = {"method": method.name, "mu": budget, "trials": plan.trials}
                row |= {"noise of": found[0].what.rstrip(","), "sigma": found[0].sigma, "sigma / clip": found[0].share}
                row |= {noise.what.rstrip(","): noise.sigma for noise in found if noise.what == DECISION}
                rows.append({**row, "final estimate": found[-1].sigma, "warning": warning(found)})
    return rows


# ---- a search that trains itself -----------------------------------------------------------------------------------


def drive(run: SearchRun, train: Train, *, ask: Ask | None = None, tell: Tell | None = None) -> None:
    """Try points, a round at a time, until the run is complete.

    A trial that fails counts as the worst loss and the search continues; it costs nothing until one trial has
    succeeded.

    Args:
        run: a new one, or one that is resumed.
        train: points of one round -> for each, in order, its per-example losses (rows,), or None if it failed.
        ask: a trial's name -> the point to try, where another searcher proposes; default the run itself does.
        tell: is given a trial's name and what is released about it; None: it failed, and nothing was released.

    Raises:
        BudgetExhausted: the ledger has not that much left; before a model is trained.
        AllTrialsFailed: as many trials as a round has, and at least four, failed at the very beginning.
        InputError: ``train`` is not a function, or the losses have the wrong shape; nothing was read or spent.

    Example:
        >>> space = dptune.Space({"C": dptune.Float(1e-3, 1e3, log=True)})
        >>> run = dptune.SearchRun(dptune.CENTRED, privatizer, scope="svm", space=space, trials=100)  # doctest: +SKIP
        >>> dptune.search.drive(run, lambda points: map(losses, points))  # doctest: +SKIP
    """
    train, ask = function("train", train), function("ask", ask or (lambda name: run.ask(trial=name)))
    tell = function("tell", tell or (lambda name, value: None))
    try:
        while not run.complete:
            _round(run, train, ask, tell)
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
