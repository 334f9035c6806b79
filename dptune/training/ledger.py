"""A ledger whose budget is one plan of private trainings, fixed at creation, charged before each of them begins."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dptune._checks import boolean, json_data
from dptune.accounting.durable import DurableLedger
from dptune.accounting.entries import Charge
from dptune.accounting.ledger import PrivacyLedger
from dptune.accounting.plan_ledger import FixedPlanLedger, PlanLedger
from dptune.errors import InputError, PlanComplete
from dptune.training.plans import Plan, SelectionPlan, TrainingPlan, from_json, to_json
from dptune.training.statement import TrainingStatement

REMOVE_ONE = (
    "remove one unit: its gradients become 0 and its losses the worst allowed ones, with n, sampling rate, number of "
    "steps and all divisors public (add-or-remove of DP-SGD, with n public)"
)
CURATOR = "trusted curator: one process trains; everybody else sees the models that the plan lets out, or the best only"
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

    holds, people = "a plan of trainings", "people who are trained on"
    first_row: ClassVar[Mapping[str, str]] = {
        "dataset": "training data",
        "unit": "one person",
        "adjacency": REMOVE_ONE,
        "trust_model": CURATOR,
    }
    plan: Plan

    def __init__(
        self,
        url: str | Path,
        plan: Plan | None = None,
        *,
        n: int | None = None,
        dataset: str | None = None,
        unit: str | None = None,
    ) -> None:
        if plan is not None and not isinstance(plan, TrainingPlan | SelectionPlan):
            raise InputError("plan must be a TrainingPlan, or a SelectionPlan if only the best is ever shown.")
        super().__init__(url, plan, n, dataset, unit)

    @staticmethod
    def _stored(plan: Plan) -> dict[str, object]:
        return to_json(plan)

    @staticmethod
    def _planned(stored: Mapping[str, Any]) -> Plan | None:
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
        secure, private = boolean("secure", secure), boolean("private", private)
        kept = {**json_data("note", dict(note or {})), **({} if secure else {ORDINARY: True})}
        row = {
            "mu": None,
            "mechanism": f"{mechanism}: {self.plan}",
            "private": private,
            "digest": digest or key,
            "description": {"plan": to_json(self.plan), "note": kept},
        }
        return self._pay(_SCOPE, key, row=row, limit=None, admit=lambda head: self._admit(head.mark.seq))

    def _admit(self, begun: int) -> None:
        if begun >= self.plan.charges:
            raise PlanComplete(
                f"all of the plan is begun ({self.plan}); it is fixed for good. More trainings need a ledger of their "
                "own, which adds to what these people pay."
            )

    def statement(self, *, delta: float) -> TrainingStatement:
        """Return the privacy statement of the whole plan, to print or to publish, with epsilon at ``delta``."""
        ordinary = sum(bool(charge.note.get(ORDINARY)) for charge in self.charges())
        return TrainingStatement(**self._facts(delta), ordinary=ordinary)

    def __repr__(self) -> str:
        return f"TrainingLedger({self._name!r}, {self.plan!r})"


def open_ledger(url: str | Path) -> PrivacyLedger | PlanLedger | TrainingLedger:
    """Open an existing ledger, whichever rule it holds.

    Raises:
        LedgerError: there is none, or the database cannot be used.
    """
    plan = DurableLedger(url, None, "")._row["plan"]
    if plan is None:
        return PrivacyLedger(url)
    return TrainingLedger(url) if from_json(plan) else PlanLedger(url)
