"""One statement for several ledgers: the largest epsilon for disjoint people, the composition for the same people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dptune._checks import boolean
from dptune._numbers import finite
from dptune._statement import Curve, Rows, Statement, priced
from dptune.errors import InputError
from dptune.ledger.approximate import ACCOUNTANT, PURE_ACCOUNTANT, Limits
from dptune.ledger.budget_ledger import REPLACE_ONE
from dptune.ledger.dominating import Choices, Gaussian, Profile, Pure, together
from dptune.ledger.filter import Divisions
from dptune.ledger.gdp import Spent, probability
from dptune.ledger.statement import BudgetStatement
from dptune.ledger.subsampled import resolved
from dptune.training.ledger import REMOVE_ONE, CentralLedger, TrainingLedger
from dptune.training.plans import Planned, SelectionPlan
from dptune.training.profiles import accountant_of, curve_of, removed

CONDITIONS = (
    "who is in which part was decided in public, without looking at the records; n of each part is public; no person "
    "is in two parts; what one part's people gave reaches another's step as released values only, or, in repeat and "
    "select, as models that are never shown and that the other part's people score"
)
_LARGEST = "the largest epsilon of the parts: each person is in one, and the others' releases do not read it"
_GDP = "Gaussian differential privacy; mu^2 is the sum of the ledgers' mu^2"
_PRODUCT = "of ledgers that each have such limits, the product of what dominates each (Zhu, Dong & Wang 2022)"
_DOMINATED = (
    "each ledger's adaptive releases are dominated by a Gaussian and a choice of its limits, or by randomised response "
    "of its pure releases; like the plans, no result of another part may decide these limits"
)
_EACH_ITS_OWN = "of each part its own; replace-one and remove-one are not added, as nobody is in two parts"
_REMOVED = (
    f"{REMOVE_ONE}. The tuning releases protect that, too, at 1/sqrt(2) of the price of replacing, choices and pure "
    "releases that have a limit of their own at half of it: to each a removed unit adds the centre of what anybody can "
    "add. NOT covered: replacing a unit's records, which costs two removals"
)
_SAME = "if they are the same people, this epsilon is too small; join them without disjoint."
NO_CONDITIONS = "none: a person may be in every part"
_LATE = "epsilon does not hold if the other's results decided its budget, its plan or which run charged first."


@dataclass(frozen=True, kw_only=True)
class JointStatement(Statement):
    """The promise to everybody whom any of several ledgers protects.

    Attributes:
        parts: the ledgers' own statements, at one delta.
        disjoint: whether no person is in two of them, according to the caller.
        late: names of the parts that were made, raised or divided after a charge of another part.
    """

    parts: tuple[Statement, ...]
    disjoint: bool
    late: tuple[str, ...]

    @property
    def protects(self) -> str:
        return "; ".join(part.protects for part in self.parts)

    def rows(self) -> Rows:
        return (
            ("Protects", self.protects),
            *self.guarantee,
            ("Adjacency", self.adjacency),
            ("Accountant", self.accountant),
            *(row for part in self.parts for row in (("", ""), ("Part", part.dataset), *part.rows()[1:])),
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "private": self.private,
            "warnings": list(self.warnings),
            "disjoint": self.disjoint,
            **self.numbers,
            "adjacency": self.adjacency,
            "accountant": self.accountant,
            "delta": self.delta,
            "epsilon": finite(self.epsilon),
            "parts": [part.to_dict() for part in self.parts],
        }


def join(ledgers: Sequence[CentralLedger], *, disjoint: bool = False, delta: float) -> JointStatement:
    """Return one statement for several ledgers.

    Args:
        ledgers: at least two, all different.
        disjoint: True if nobody is in two of them; see the statement's conditions. Otherwise each person may be in all
            of them, and the composition applies.
        delta: at which epsilon is given.

    Raises:
        InputError: a ledger is given twice; or people may overlap and the ledgers' units or promises do not compose; or
            delta is smaller than the accountant resolves.
    """
    if len(ledgers) < 2 or len({str(ledger.mark()["ledger"]) for ledger in ledgers}) < len(ledgers):
        raise InputError("give at least two ledgers, each of them once (a copy of a ledger is the same ledger).")
    disjoint, delta = boolean("disjoint", disjoint), probability("delta", delta)
    parts = tuple(ledger.statement(delta=delta) for ledger in ledgers)
    late: tuple[str, ...] = ()
    if disjoint:
        curve: Curve = _Largest(tuple(part.curve for part in parts if part.curve is not None))
        adjacency = _EACH_ITS_OWN
        accountant = _LARGEST
        conditions = CONDITIONS
    else:
        _refuse_incomparable(parts)
        after = [one for one in ledgers if any(one.planned_after(other) for other in ledgers if other is not one)]
        alike = len({one.dataset for one in ledgers}) < len(ledgers)
        late = tuple(f"{one.dataset}, ledger {one.identity[:12]}" if alike else one.dataset for one in after)
        curve, adjacency, accountant = _composed(ledgers, parts, delta)
        conditions = "what the warnings name; a person may be in every part" if late else NO_CONDITIONS
    units = sorted({part.unit for part in parts})
    whom = f"for {' or '.join(units)}"
    private = all(part.private for part in parts)

    def epsilon_at(other: float) -> float:
        at = curve if disjoint or other == delta else _composed(ledgers, parts, other)[0]
        return at.epsilon(other)

    epsilon = resolved(epsilon_at, delta) if private else math.inf
    return JointStatement(
        parts=parts,
        disjoint=disjoint,
        late=late,
        unit="; ".join(units),
        adjacency=adjacency,
        trust_model="; ".join(sorted({part.trust_model for part in parts})),
        mechanisms=tuple(made for part in parts for made in part.mechanisms),
        private=private,
        delta=delta,
        epsilon=epsilon,
        curve=curve,
        accountant=accountant,
        noise="; ".join(dict.fromkeys(part.noise for part in parts)),
        not_covered=tuple(dict.fromkeys(each for part in parts for each in part.not_covered)),
        warnings=_warnings(parts, disjoint, late),
        guarantee=(("Guarantee", priced(epsilon, delta, private, whom)), ("Conditions", conditions)),
        numbers={"conditions": conditions},
        title="Joint privacy statement",
    )


def _refuse_incomparable(parts: Sequence[Statement]) -> None:
    units = sorted({part.unit for part in parts})
    if len(units) > 1:
        raise InputError(f"the ledgers protect different units ({'; '.join(units)}), whose costs do not add up.")
    for part in parts:
        if part.adjacency not in (REPLACE_ONE, REMOVE_ONE):
            raise InputError(
                f"the guarantee of the ledger of {part.dataset!r} cannot be added to another: {part.adjacency}. "
                "Ledgers of disjoint people can still be joined (--disjoint)."
            )


@dataclass(frozen=True)
class _Largest:
    """The largest of several curves."""

    curves: tuple[Curve, ...]

    def delta(self, epsilon: float) -> float:
        return max(curve.delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        return max(curve.epsilon(delta) for curve in self.curves)


def _composed(ledgers: Sequence[CentralLedger], parts: Sequence[Statement], delta: float) -> tuple[Curve, str, str]:
    """Return the promise to people who may be in every part, the weakest adjacency of the parts, and the accountant."""
    exposures = [part.exposure for part in parts if isinstance(part, BudgetStatement)]
    plans = _plans([ledger for ledger in ledgers if isinstance(ledger, TrainingLedger)])
    if not any(plans):
        return _released(exposures, delta)
    releases = _merge(each for exposure in exposures for each in removed(exposure))
    surely, possibly = plans
    alternatives = [surely] if surely == possibly else [surely, possibly]
    readings: list[list[Any]] = [[*all_of_them, *releases] for all_of_them in alternatives]
    accountant = max(map(accountant_of, readings), key=len)
    return _Largest(tuple(curve_of(each, delta) for each in readings)), _REMOVED, f"{accountant}; {_DOMINATED}"


def _released(exposures: Sequence[Limits | Divisions], delta: float) -> tuple[Curve, str, str]:
    """Return the joint promise of tuning ledgers of the same people, under replacing one."""
    whole = _merge(each for exposure in exposures for each in exposure.profiles())
    match whole:
        case [Gaussian(mu)]:
            return Limits(mu), REPLACE_ONE, _GDP
        case [Gaussian(mu), Choices(eta)]:  # in closed form
            return Limits(mu, eta), REPLACE_ONE, f"{_GDP}; {ACCOUNTANT}"
    words = [ACCOUNTANT] * any(isinstance(each, Choices | Divisions) for each in whole)
    words += [PURE_ACCOUNTANT] * any(isinstance(each, Pure | Divisions) for each in whole)
    return together(whole, delta), REPLACE_ONE, "; ".join([_GDP, *words, _PRODUCT])


def _merge(profiles: Iterable[Profile]) -> list[Profile]:
    """Return the profiles with one Gaussian for all Gaussians: mu^2 adds up."""
    listed = list(profiles)
    mus = [each.mu for each in listed if isinstance(each, Gaussian)]
    others = [each for each in listed if not isinstance(each, Gaussian)]
    return [*([Gaussian(Spent.of(mus).mu)] if mus else []), *others]


def _plans(ledgers: Sequence[TrainingLedger]) -> list[list[Planned]]:
    """Return the plans of all parts, once for each possible reading.

    Two ledgers of one selection are one mechanism with one secret number of repeats, and their bounds do not add up.
    They are one plan that trains and scores. That holds if they were charged for one question, and may become true
    until both are charged.
    """
    asked = [(ledger.plan, _question(ledger)) for ledger in ledgers]
    surely = _merged(asked, possibly=False)
    return [[plan for plan, _ in reading] for reading in (surely, _merged(surely, possibly=True))]


def _merged(asked: Sequence[tuple[Planned, str | None]], *, possibly: bool) -> list[tuple[Planned, str | None]]:
    """Return plans and questions, with (possibly) one selection as one plan."""
    merged: list[tuple[Planned, str | None]] = []
    for plan, question in asked:
        for place, (other, others) in enumerate(merged):
            surely = question is not None and question == others
            if not (surely or (possibly and None in (question, others))):
                continue
            if not (isinstance(plan, SelectionPlan) and isinstance(other, SelectionPlan)):
                continue
            whole = other.with_other(plan)
            if whole is None and surely:
                raise InputError(
                    "two of the ledgers train in one selection of the same people: their costs do not add up. Give "
                    "these people one ledger, whose plan has one training and one score."
                )
            if whole is not None:
                merged[place] = whole, others or question
                break
        else:
            merged.append((plan, question))
    return merged


def _question(ledger: TrainingLedger) -> str | None:
    """Return a digest of the question for which the ledger's selection was charged; None before, and for trainings."""
    match ledger.question_digests():
        case {"trainings": str(question)} if isinstance(ledger.plan, SelectionPlan):
            return question
    return None


def _warnings(parts: Sequence[Statement], disjoint: bool, late: Sequence[str]) -> tuple[str, ...]:
    names = [part.dataset for part in parts]
    same = sorted({name for name in names if names.count(name) > 1}) if disjoint else []
    planned = any(part.adjacency == REMOVE_ONE for part in parts)
    trained = [part.dataset for part in parts if isinstance(part, BudgetStatement) and part.trained and not planned]
    return (
        *(f"{part.dataset}: {warning}" for part in parts for warning in part.warnings),
        *(f"n of {part.dataset!r} is not stated yet." for part in parts if part.n is None),
        *(f"several of the ledgers, said to be of disjoint people, protect {name!r}: {_SAME}" for name in same),
        *(f"the ledger of {name!r} was made, raised or divided after another was charged: {_LATE}" for name in late),
        *(f"runs of {name!r} trained on private people, of whom no ledger is among these." for name in trained),
    )
