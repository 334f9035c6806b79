"""A ledger whose budget is one plan of private trainings, fixed at creation, charged before each of them begins."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dptune._checks import boolean
from dptune._statement import Statement, counted, large_delta
from dptune.errors import InputError, PlanComplete
from dptune.ledger.connection import Database, known_row
from dptune.ledger.entries import Charge, LedgerState
from dptune.ledger.events import Described
from dptune.ledger.ledger import PrivacyLedger
from dptune.ledger.plan_ledger import FixedPlanLedger, PlanLedger
from dptune.ledger.schema import normalise_url
from dptune.ledger.statement import opendp_noise
from dptune.training.plans import Planned, SelectionPlan, TrainingPlan, from_json, to_json
from dptune.training.profiles import accountant_of, curve_of

REMOVE_ONE = (
    "remove one unit: its gradients become 0 and its losses the middle of their clip, with n, sampling rate, number of "
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
_SCOPE = "trainings"
ORDINARY = "ordinary generator"  # note of a training without a cryptographically secure generator


@dataclass(frozen=True)
class _Begun(Described):
    words = "{what}: {plan}"
    what: str
    plan: Planned

    def describe(self) -> dict[str, object]:
        return {"plan": to_json(self.plan)}


class TrainingLedger(FixedPlanLedger[Planned]):
    """The durable ledger of one plan of trainings, to which the people of a training set have agreed.

    A training that was begun counts, whether it ended or not: its results may have been seen.

    Args:
        url: path of an SQLite file, or an SQLAlchemy URL.
        plan: :class:`TrainingPlan`, or :class:`SelectionPlan` if only the best is ever shown; required, with ``n``,
            to create a ledger.
        n: number of people (units) in the training set, public.
        dataset: name of what is protected.
        unit: who is protected; a unit that has k records in the training set needs k-fold gradients clipped together.
    """

    kind, people = "trainings", "people who are trained on"
    plans = (TrainingPlan, SelectionPlan)
    wanted = "a TrainingPlan, or a SelectionPlan if only the best is ever shown"
    protects: ClassVar = {
        "dataset": "training data",
        "unit": "one person",
        "adjacency": REMOVE_ONE,
        "trust_model": CURATOR,
    }
    stored, planned = staticmethod(to_json), staticmethod(from_json)

    def begin(self, *, secure: bool, private: bool = True, note: Mapping[str, object] | None = None) -> Charge:
        """Charge one training, durably, before it reads any data.

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

        Args:
            digest: of the selection's settings and of the identities of all its ledgers, as ``repeat_and_select`` makes
                it. Your word: :func:`dptune.training.join` takes ledgers with one digest for one selection, with one
                secret number of repeats. Two selections under one digest would be stated at less than they cost.
            secure, private: as of :meth:`begin`.

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
        self, key: str, what: str, digest: str, secure: bool, private: bool, note: Mapping[str, object] | None
    ) -> Charge:
        kept = {**(note or {}), **({} if boolean("secure", secure) else {ORDINARY: True})}

        def admit(head: LedgerState) -> None:
            if head.mark.seq >= self.plan.charges:
                raise PlanComplete(
                    f"all of the plan is begun ({self.plan}); it is fixed for good. More trainings need a ledger of "
                    "their own, which adds to what these people pay."
                )

        event = _Begun(what, self.plan)
        return self._pay(_SCOPE, key, event, admit, digest=digest or key, private=private, note=kept)

    def statement(self, *, delta: float) -> Statement:
        """Return the privacy statement of the whole plan, to print or to publish, with epsilon at ``delta``.

        Raises:
            InputError: delta is smaller than the accountant resolves.
        """
        facts = self._facts(delta)
        plan = self.plan
        ordinary = sum(bool(charge.note.get(ORDINARY)) for charge in self.charges())
        what = "selection" if isinstance(plan, SelectionPlan) else "training"
        warning = (
            f"{counted(ordinary, 'training')} drew noise and samples from an ordinary generator, such as PyTorch's "
            "own, in floating point: epsilon holds if nobody predicts it or reads the last bits. Opacus's secure_mode "
            "is for publication."
        )
        return self._statement(
            facts,
            curve_of([plan], delta),
            whole="the whole plan",
            plan=str(plan),
            made=counted(plan.charges, what),
            accountant=f"{accountant_of([plan])}; the plan was fixed before the first training",
            noise=_noise(plan, facts, ordinary, self.count()),
            not_covered=NOT_COVERED,
            warnings=(
                *(() if facts["private"] else (_SEEDED,)),
                *((warning,) if ordinary else ()),
                *large_delta(facts["delta"], facts["n"]),
            ),
        )


def _noise(plan: Planned, facts: Mapping[str, Any], ordinary: int, made: int) -> str:
    """Return how noise is drawn: in trainings by their library, for a selection's scores by OpenDP."""
    if not facts["private"]:
        return opendp_noise(facts)
    drew = f"{ordinary} of {counted(made, 'charge')}"
    generator = f"an ordinary generator, such as PyTorch's own, in {drew}, else a secure one"
    trained = f"of DP-SGD: from the library that trains, in floating point ({generator})"
    if isinstance(plan, TrainingPlan):
        return trained
    scored = f"of scores: {opendp_noise(facts)}"
    return "; ".join([trained] * bool(plan.training) + [scored] * bool(plan.score_mu))


CentralLedger = PrivacyLedger | PlanLedger | TrainingLedger


def open_ledger(url: str | Path) -> CentralLedger:
    """Open an existing ledger of any kind."""
    database = Database(normalise_url(url))
    match known_row(database)["kind"]:
        case PlanLedger.kind:
            return PlanLedger(database)
        case TrainingLedger.kind:
            return TrainingLedger(database)
    return PrivacyLedger(database)
