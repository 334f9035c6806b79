"""A ledger whose budget is one plan of private trainings, fixed at creation, charged before each of them begins."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dptune._checks import boolean, json_data
from dptune._numbers import finite
from dptune._statement import PlanStatement, large_delta, priced
from dptune.accounting.connection import Database, known_row
from dptune.accounting.entries import Charge
from dptune.accounting.ledger import PrivacyLedger
from dptune.accounting.plan_ledger import FixedPlanLedger, PlanLedger
from dptune.accounting.schema import normalise_url
from dptune.accounting.statement import opendp_noise
from dptune.errors import InputError, PlanComplete
from dptune.training.plans import Plan, SelectionPlan, TrainingPlan, from_json, to_json
from dptune.training.profiles import accountant_of, epsilon_of

REMOVE_ONE = (
    "remove one unit: its gradients become 0 and its losses the worst allowed ones, with n, sampling rate, number of "
    "steps and all divisors public (add-or-remove of DP-SGD, with n public)"
)
CURATOR = "trusted curator: one process trains; everybody else sees the models that the plan lets out, or the best only"
NOT_COVERED = (
    "training that reads these people by another way than the planned steps: normalising by their statistics, batch "
    "normalisation, early stopping on their losses, choosing features",
    "the choice of the search space, architecture and clipping norm, if made by looking at the data",
    "which people a step drew: the samples are secret",
    "timing, memory use and other side channels; of repeat and select, how long it takes tells how often it repeats",
    "other releases about the same people that this ledger did not see: join its statement with theirs",
)
_SEEDED = "NOT PRIVATE: noise or samples of a training came from a known seed; epsilon = infinity."
_TRAINED_ON = {"dataset": "training data", "unit": "one person", "adjacency": REMOVE_ONE, "trust_model": CURATOR}
_SCOPE = "trainings"
ORDINARY = "ordinary generator"  # the note of a training without a cryptographically secure one


class TrainingLedger(FixedPlanLedger):
    """What the people of a training set have agreed to: trainings by one plan, which survives processes and crashes.

    A training that was begun counts, whether it ended or not: nobody knows what was seen of it.

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL.
        plan: :class:`TrainingPlan`, or :class:`SelectionPlan` if only the best is ever shown; required, with ``n``,
            to create a ledger.
        n: number of people (units) in the training set, public.
        dataset: name of what is protected.
        unit: who is protected; a unit that has k records in the training set needs k-fold gradients clipped together.

    Raises:
        BudgetMismatch: the ledger exists with another plan, n, data set or unit.
        LedgerError: no plan was given and there is no ledger, or it holds something else.
        InputError: the URL is not durable, or n is missing.
    """

    kind, people = "trainings", "people who are trained on"
    plan: Plan

    def __init__(
        self,
        url: str | Path | Database,
        plan: Plan | None = None,
        *,
        n: int | None = None,
        dataset: str | None = None,
        unit: str | None = None,
    ) -> None:
        if plan is not None and not isinstance(plan, TrainingPlan | SelectionPlan):
            raise InputError("plan must be a TrainingPlan, or a SelectionPlan if only the best is ever shown.")
        stored = None if plan is None else to_json(plan)
        super().__init__(url, plan, n, dataset, unit, stored=stored, protects=_TRAINED_ON)

    @staticmethod
    def _planned(stored: Mapping[str, Any]) -> Plan:
        return from_json(stored)

    def begin(self, *, secure: bool, private: bool = True, note: Mapping[str, object] | None = None) -> Charge:
        """Count one training, durably, before it reads anybody.

        Args:
            secure: whether its noise and samples come from a cryptographically secure generator.
            private: False if they come from a known seed: the statement then says NOT PRIVATE.
            note: public JSON data to keep with the charge, such as the hyperparameters.

        Raises:
            PlanComplete: all trainings of the plan were begun; nothing was written.
            InputError: the plan is a selection.
        """
        if not isinstance(self.plan, TrainingPlan):
            raise InputError("this ledger plans a selection: train inside repeat_and_select, which counts all repeats.")
        return self._charge(f"training/{secrets.token_hex(16)}", "DP-SGD", "", secure, private, note)

    def begin_selection(self, digest: str, *, secure: bool, private: bool = True) -> Charge:
        """Count the one selection of the plan; or find it, with the score of the best if that was recorded.

        Raises:
            KeyConflict: the selection was made with other settings.
            InputError: the plan is not a selection.
        """
        if not isinstance(self.plan, SelectionPlan):
            raise InputError("this ledger plans trainings of which every model may be shown: charge each with begin().")
        return self._charge("selection/best", "repeat and select", digest, secure, private, None)

    def record_selection(self, charge: Charge, value: Sequence[float]) -> Charge:
        """Store the score of the best, dated as its charge: when a selection ended tells how many repeats it made."""
        began, _ = self.span(_SCOPE) or (None, None)
        return self.record(charge, value, at=began)

    def _charge(
        self,
        key: str,
        mechanism: str,
        digest: str,
        secure: bool,
        private: bool,
        note: Mapping[str, object] | None,
    ) -> Charge:
        kept = {**json_data("note", dict(note or {})), **({} if boolean("secure", secure) else {ORDINARY: True})}
        return self._pay(
            _SCOPE,
            key,
            mu=None,
            mechanism=f"{mechanism}: {self.plan}",
            private=private,
            digest=digest or key,
            description={"plan": to_json(self.plan), "note": kept},
            admit=lambda head: self._admit(head.mark.seq),
        )

    def _admit(self, begun: int) -> None:
        if begun >= self.plan.charges:
            raise PlanComplete(
                f"all of the plan is begun ({self.plan}); it is fixed for good. More trainings need a ledger of their "
                "own, which adds to what these people pay."
            )

    def statement(self, *, delta: float) -> PlanStatement:
        """Return the privacy statement of the whole plan, to print or to publish, with epsilon at ``delta``."""
        facts, plan, made = self._facts(delta), self.plan, self.count()
        private, delta = facts["private"], facts["delta"]
        ordinary = sum(bool(charge.note.get(ORDINARY)) for charge in self.charges())
        epsilon = epsilon_of([plan], delta) if private else math.inf
        what = "selections" if isinstance(plan, SelectionPlan) else "trainings"
        warning = (
            f"{ordinary} trainings drew noise and samples from PyTorch's own generator, in floating point: "
            "epsilon holds if nobody predicts it or reads the last bits. Opacus's secure_mode is for publication."
        )
        return PlanStatement(
            **facts,
            plan=plan,
            epsilon=epsilon,
            accountant=f"{accountant_of([plan])}; the plan was fixed before the first training",
            noise=_noise(plan, facts, ordinary, made),
            not_covered=NOT_COVERED,
            warnings=(
                *(() if private else (_SEEDED,)),
                *((warning,) if ordinary else ()),
                *large_delta(delta, facts["n"]),
            ),
            guarantee=(
                ("Guarantee", priced(epsilon, delta, private, "for the whole plan")),
                ("Plan", str(plan)),
                ("Made so far", f"{made} of {plan.charges} {what}"),
            ),
            numbers={"plan": to_json(plan), "epsilon": finite(epsilon)},
        )


def _noise(plan: Plan, facts: Mapping[str, Any], ordinary: int, made: int) -> str:
    """How noise is drawn: of trainings by the library that trains, of a selection's scores by OpenDP."""
    if not facts["private"]:
        return opendp_noise(facts)
    generator = f"PyTorch's own generator in {ordinary} of {made} charges, else a secure one"
    trained = f"of DP-SGD: from the library that trains, in floating point ({generator})"
    if isinstance(plan, TrainingPlan):
        return trained
    scored = f"of scores: {opendp_noise(facts)}"
    return "; ".join([trained] * bool(plan.training) + [scored] * bool(plan.score_mu))


def open_ledger(url: str | Path) -> PrivacyLedger | PlanLedger | TrainingLedger:
    """Open an existing ledger, whichever rule it holds.

    Raises:
        LedgerError: there is none, or the database cannot be used.
    """
    database = Database(normalise_url(url))
    match known_row(database)["kind"]:
        case PlanLedger.kind:
            return PlanLedger(database)
        case TrainingLedger.kind:
            return TrainingLedger(database)
    return PrivacyLedger(database)
