"""The ledger's side of a choice: the privatizer that pays, the meaning of its name, and what a refusal says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dptune._checks import attempt, positive, readable, text
from dptune.errors import BudgetExhausted, BudgetMismatch, BudgetPlanned, InputError
from dptune.ledger.gdp import Budget
from dptune.ledger.ledger import PLAN, PrivacyLedger
from dptune.privacy.places import Places
from dptune.privacy.privatizer import LossPrivatizer
from dptune.results import check_start, left_in_words, parameters_in_words

Payer: TypeAlias = LossPrivatizer | PrivacyLedger | str | Path


def privatizer_of(
    ledger: object,
    data: Any,
    *,
    groups: Any = None,
    n: int | None = None,
    budget: Budget | None = None,
    **given: Any,
) -> LossPrivatizer:
    """Return the privatizer given as ``ledger``, or a new one for the ledger, its path or its URL.

    Args:
        ledger: a ``LossPrivatizer``, which knows its people, or a ledger that this call fills with people.
        data: (X, y) or ``Rows`` of the private people, a function that loads them, or losses (m, rows).
        groups: (rows,) the person of each private row; default one person for each row.
        n: number of private rows, if ``data`` is a function or None.
        budget: budget of a ledger that does not exist yet.
        given: other settings of the privatizer; None for its default.

    Raises:
        InputError: the people are given twice, or their number is unknown. Nothing was charged.
    """
    if isinstance(ledger, LossPrivatizer):
        twice = {"groups": groups, "n": n, "budget": budget, **given}
        if names := [f"{name}=" for name, value in twice.items() if value is not None]:
            raise InputError(
                f"{' and '.join(names)} cannot be given with a LossPrivatizer, which has its own. Nothing was charged."
            )
        if (ledger.places or isinstance(data, Places)) and ledger.places is not data:
            raise InputError("data= must be the dptune.Places of this LossPrivatizer. Nothing was charged.")
        return ledger
    if isinstance(data, Places):  # a recorded answer needs none of them
        people: Any = {"places": data, "groups": groups, "n": n}
    else:
        people = {"groups": groups} if groups is not None else {"n": rows_of(data) if n is None else n}
    chosen = {name: value for name, value in given.items() if value is not None}
    return LossPrivatizer(ledger_of(ledger, budget), **people, **chosen)


def ledger_of(ledger: object, budget: Budget | None = None) -> PrivacyLedger:
    """Return the given ledger, or the one at a path or URL; ``budget`` is for a new one."""
    if isinstance(ledger, PrivacyLedger):
        if budget is not None:
            raise InputError("budget= is for the path of a new ledger; this ledger has its own. Nothing was charged.")
        return ledger
    if isinstance(ledger, str | Path):
        return PrivacyLedger(ledger, budget)
    raise InputError(
        f"ledger must be a PrivacyLedger, its path or URL, or a LossPrivatizer; got {type(ledger).__name__}. "
        "Nothing was charged."
    )


def rows_of(data: Any) -> int:
    """Return the number of private rows, or of people at places; it is public."""
    if isinstance(data, Places):
        return data.n
    if isinstance(data, np.ndarray) and data.ndim == 2:  # losses (m, rows)
        candidates, rows = data.shape
        if candidates > rows:
            raise InputError(
                f"losses have shape {data.shape}, (candidates, rows): {rows} people would choose among {candidates}. "
                f"If people are in rows, give losses.T, and of private rows X give data=(X, y). Else give n={rows}. "
                "Nothing was charged."
            )
        return int(rows)
    answers = data[-1] if isinstance(data, tuple | list) and len(data) == 2 else getattr(data, "y", None)
    if isinstance(answers, Sized):
        return readable("the private rows", len, answers)
    raise InputError(
        "the number of private rows is unknown. Give n= where data= is a function that loads them, or data=(X, y), "
        "dptune.Rows(X, y, like=...) or dptune.Places. Nothing was charged."
    )


SHOWN = 3  # runs that an error names, the latest first
_DIGESTS = {  # fact of which only a digest is kept -> what may have changed it
    "public losses": "other public rows, folds, seeds or training code",
    "configurations": "another space, seed or number of candidates",
}


@dataclass(frozen=True)
class Meaning:
    """The meaning of a choice's name.

    Attributes:
        asked: data that must stay the same under the name; JSON data.
        told: additional data for messages, such as the seed of a search; JSON data.
    """

    asked: Mapping[str, Any]
    told: Mapping[str, Any] = field(default_factory=dict)

    def differences(self, plan: Mapping[str, Any]) -> str:
        """Return in words how this choice differs from the one with this plan; "" if it does not."""
        before = {**plan.get("asked", {}), **plan.get("told", {})}
        now = {**self.asked, **self.told}
        changed = [name for name in now if name in before and before[name] != now[name]]
        follows = ["public losses"]  # follows from the other differences
        if "candidates" in changed or "default configuration" in now:
            follows += ["configurations", "default"]
        named = [each for each in changed if each not in follows] or changed
        return "; ".join(f"{name} ({_DIGESTS.get(name) or _change(before[name], now[name])})" for name in named)

    def refuse_other(self, name: str, plan: Any, *, recorded: bool) -> None:
        """Refuse a name that has another choice's plan."""
        if isinstance(plan, dict) and plan.get("asked") == self.asked:
            return
        differs, kept = "belongs to a search, a report or a choice without public rows", ""
        if isinstance(plan, dict) and "asked" in plan:
            differs = f"belongs to another choice: it differs in {self.differences(plan)}"
            kept = " The answer of that choice stays recorded." if recorded else ""
        raise BudgetMismatch(
            f"the name {name!r} {differs}.{kept} Give this choice another name= (it is then a new choice, and is "
            "charged again), or what it had. Nothing was charged."
        )


def _change(before: Any, now: Any) -> str:
    """Return two values in words; of two configurations, as JSON, what differs between them."""
    old, new = (attempt(json.loads, each, failed=None) for each in (before, now))
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        before, now = (parameters_in_words({n: each[n] for n in names if n in each}) or "none" for each in (old, new))
    return f"{before}, now {now}"


def check_choice(ledger: PrivacyLedger, name: str, mu: float | None, *, choice_share: float = 1.0) -> None:
    """Refuse a choice that could not begin, or has no price where an earlier one keeps what is left for a report."""
    mu = None if mu is None else positive("mu", mu)
    if mu is None and (left := ledger.remaining()) > 0 and (keeper := _keeper(ledger)) not in (None, name):
        raise BudgetPlanned(left, ledger.budget.mu, (keeper,))
    check_start(ledger, name, mu, choice_share=choice_share)


def _keeper(ledger: PrivacyLedger) -> str | None:
    """Return the last choice that keeps a share for a report, which no report has taken since; None without one."""
    plans: dict[str, Any] = {name: plan for name, plan in ledger.facts(PLAN).items() if isinstance(plan, dict)}
    for name, _ in ledger.runs():
        plan = plans.get(name, {})
        if "report" in plan or plan.get("asked", {}).get("report_share"):
            return None if "report" in plan else name
    return None


def check_affordable(ledger: PrivacyLedger, name: str | None, mu: float | None, about: Meaning) -> bool:
    """Return whether a choice may be a rerun of one that the ledger has; refuse a new one that cannot begin.

    Args:
        name: name of the choice; None if its proposals identify it.
    """
    if name is not None:
        text("name", name)
    proposed = about.asked.get("configurations")
    plans = (plan.get("asked", {}) for plan in ledger.facts(PLAN).values() if isinstance(plan, dict))
    known = [asked["configurations"] for asked in plans if "configurations" in asked]
    if ledger.count(name) if name is not None else proposed in known or (known and proposed is None):
        return True
    with explained(ledger, about, mu):
        check_choice(ledger, name or "choice", mu)
    return False


def check_earlier(ledger: PrivacyLedger, earlier: Iterable[Mapping[str, Any]], warn: Callable[[str], object]) -> None:
    """Refuse a ledger that lacks what an earlier choice has seen; warn if another ledger has the same people's name.

    Args:
        earlier: what the search's own storage has kept of each choice.
    """
    for kept in earlier:
        if kept.get("identity") == ledger.identity:
            ledger.check_mark(kept.get("mark"))
        elif kept.get("ledger") == ledger.dataset:
            warn(
                f"This search asked {ledger.dataset!r} on {kept['charged']} through ledger {kept['identity'][:12]}, "
                f"and this is ledger {ledger.identity[:12]}. If the people are the same, what both spend adds up: use "
                "the first one, wherever its file is now. If they are others, give the ledger a dataset= of its own."
            )


@contextmanager
def explained(ledger: PrivacyLedger, meaning: Meaning, mu: float | None) -> Iterator[None]:
    """Add to a budget error what was spent by which run, how this choice differs, and what to do."""
    try:
        yield
    except BudgetExhausted as error:
        error.said = " ".join(filter(None, _reasons(error, ledger, meaning, mu)))
        raise


def _reasons(error: BudgetExhausted, ledger: PrivacyLedger, meaning: Meaning, mu: float | None) -> Iterator[str]:
    yield left_in_words(ledger)
    if mu is not None:
        yield f"mu={mu:.6g} was asked for."
    if isinstance(error, BudgetPlanned):
        yield f"What is left is planned by {', '.join(map(repr, error.runs[:SHOWN]))}: give mu= to take of it."
    runs = ledger.runs()
    if runs:
        yield f"Charged before: {', '.join(f'{name!r} on {date}' for name, date in runs[:SHOWN])}."
    plans: dict[str, Any] = {n: plan for n, plan in ledger.facts(PLAN).items() if isinstance(plan, dict)}
    choices = [(name, plans[name]) for name, _ in runs if "asked" in plans.get(name, {})]
    for name, plan in choices:
        if differences := meaning.differences(plan):
            yield f"This choice differs from {name!r} in {differences}."
            yield "Repeat what was run then for its recorded answer, at no cost."
            break
        if meaning.asked and plan["asked"].get("configurations") == meaning.asked.get("configurations"):
            yield f"It is the choice {name!r}: under that name its recorded answer costs nothing."
            break
    yield "To allow more for these people, raise the budget: `dptune raise-budget`. Other people need another ledger."
    yield "Nothing was charged."
