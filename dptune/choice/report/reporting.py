"""A report of a final model that may be published: accuracy, ROC curve, calibration, from one release.

Example::

    model = LogisticRegression().fit(X_train, y_train)                       # public rows
    found = dptune.report(model, ledger, data=(X_val, y_val), public=(X_train, y_train), mu=0.5)
    found.roc_auc_score, found.confusion_matrix
    print(found.to_markdown())
    found.plot("report.png")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, nothing_charged, real, shown, text
from dptune._checks import positive as positive_number
from dptune.choice.payer import Meaning, Payer, explained, privatizer_of
from dptune.choice.places import Asker, AtPlaces, Sent, asker_of, refuse_reaching, with_like
from dptune.choice.report.cells import group_codes, with_groups
from dptune.choice.report.plan import ReportPlan, groups_of, make_plan, same_settings
from dptune.choice.report.public_rows import given_rows, how_to_ask, public_scores
from dptune.choice.report.result import Report
from dptune.errors import BudgetExhausted, BudgetMismatch, InputError
from dptune.ledger.ledger import PLAN, PrivacyLedger
from dptune.losses.estimator import EstimatorLosses
from dptune.losses.examples import PrivateExamples
from dptune.losses.user_function import Data, call_guarded
from dptune.privacy.places import Places
from dptune.privacy.privatizer import LossPrivatizer
from dptune.privacy.seal.silence import silence
from dptune.results import check_start

KEY = "report"
_NOTHING_LEFT = (
    "A search takes what the ledger has left. To leave a part for a report, give the choice report_share=, such as "
    "0.36, or another search mu=. After the search, raise the budget on the record (docs/resume.md)."
)


def report(
    model: Any,
    ledger: Payer,
    *,
    data: Data | Callable[[], Data] | Places,
    public: tuple[Any, Any] | None = None,
    held_out: tuple[Any, Any] | None = None,
    groups: npt.ArrayLike | None = None,
    n: int | None = None,
    mu: float | None = None,
    name: str = "report",
    by: Any = None,
    positive: Any = None,
    threshold: float | None = None,
    scores: Any = None,
    cv: Any = 5,
    fit_params: Mapping[str, Any] | None = None,
    bins: int | None = None,
) -> Report:
    """Release one table about a fitted model and private people, and read every usual metric from it.

    The table is kept in the ledger under ``name``. The same call again, also in another process, reads it and costs
    nothing. Another model needs another name.

    Guarantee: ``mu``-GDP under replacing all records of one person, with n public, for a trusted curator (this
    process). It is one release of the Gaussian mechanism (:mod:`dptune.privacy.table` has the proof). Bins,
    their number and all other parts of the question come from public rows.

    Args:
        model: fitted on public rows. It is asked for ``predict_proba``, else ``decision_function``, else ``predict``.
        ledger: a ``PrivacyLedger`` to charge, its path or URL. Or a ``LossPrivatizer``, whose clip plays no part.
        data: (X, y) or ``Rows`` of the private people, a function that loads them, or :class:`dptune.Places`.
        public: (X, y) of the rows that trained the model, and need no protection: 20 at least. Refits by ``cv`` score
            them. A model that ``fit`` on these rows does not make is refused.
        held_out: instead of ``public``: (X, y) of rows that did not train the model, and need no protection: 20 at
            least. The model scores them, and nothing is trained: for checkpoints, boosters and PyTorch modules.
        groups: whose each private row is (rows,); default one person for each row.
        n: number of private rows, where ``data`` is a function.
        mu: GDP price; default all that the ledger has not planned otherwise.
        name: of the report in the ledger.
        by: a column, by name or index: the same for each of its values. Values come from the public rows. Or the
            ``Places``: the same for each place.
        positive: the positive label of two; default the second of ``model.classes_``, like in scikit-learn.
        threshold: the positive class is decided above it. Default that of ``predict``: 0.5 of probabilities, 0 of
            decision values, or the model's own. A model whose ``predict`` has none is refused, as far as public rows
            show that. A score that is equal to 0.5, or 0, is decided like the larger of both labels' scores.
        scores: your own ``predict_proba`` (or ``decision_function``, ``predict``) of the public rows, by models that
            were trained in the same way without the row. Default: those of refits.
        cv: folds of the refits.
        fit_params: options with which the model's ``fit`` was called on ``public``, such as ``sample_weight``.
        bins: number of score bins; default that of the least expected error, by public rows.

    Returns:
        A :class:`dptune.choice.Report`.

    Raises:
        InputError: a setting, the public rows, or the shapes of the private ones are not usable. Nothing was charged.
        BudgetExhausted: the ledger has not ``mu`` left; before private rows are read.
        BudgetMismatch: the name belongs to a report of another model or with other settings, or to a search.
        MissingExtra: scikit-learn is not installed.
    """
    with nothing_charged():
        refuse_reaching({}, data)  # another form would be read as losses
        people = privatizer_of(ledger, data, groups=groups, n=n)
        plan, asker = _prepared(
            model, people, data=data, public=public, held_out=held_out, mu=mu, name=name, by=by, positive=positive,
            threshold=threshold, scores=scores, cv=cv, fit_params=fit_params, bins=bins,
        )  # fmt: skip
    read = asker.losses(model) if isinstance(asker, AtPlaces) else partial(asker.losses, model)
    released = people.release_table(plan.query(), read, scope=name, key=KEY, note=plan.note())
    return Report.of_charge(plan, released.charge, name, people.ledger.unit)


def _prepared(
    model: Any, privatizer: LossPrivatizer, *, data: Any, public: Any, held_out: Any, mu: Any, name: Any, by: Any,
    positive: Any, threshold: Any, scores: Any, cv: Any, fit_params: Any, bins: Any,
) -> tuple[ReportPlan, Asker]:  # fmt: skip
    """Check everything public, and fix the plan."""
    name = text("name", name)
    ledger = privatizer.ledger
    price = None if mu is None else positive_number("mu", mu)
    number = None if bins is None else at_least("bins", bins, 2)
    if isinstance(by, Places) and by is not data:
        raise InputError("by= must be a column, or the Places that are data=. Nothing was charged.")
    if threshold is not None and real(threshold) is None:
        raise InputError(f"threshold must be a finite number; got {shown(threshold)}. Nothing was charged.")
    if held_out is not None and scores is not None:
        raise InputError("held_out= rows have the model's own scores: omit scores=. Nothing was charged.")
    rows = given_rows(public, held_out)
    given = {
        "model=": model, "public=": public, "held_out=": held_out, "scores=": scores, "fit_params=": fit_params,
    }  # fmt: skip
    reaches = partial(_itself, **given)
    if isinstance(data, Places):
        refuse_reaching(given, data)
    else:
        data = with_like(data, rows[0])  # one object, which is read once
        PrivateExamples(reaches, data, privatizer.rows).load()
    asked = how_to_ask(model, positive)
    of_public = public_scores(
        model, asked, rows, scores, cv, held_out=held_out is not None, fit_params=fit_params, decides=threshold is None
    )
    stored = ledger.fact(name, PLAN)
    if stored is None:
        try:
            with explained(ledger, Meaning({}), price):
                check_start(ledger, name, price, choice_share=0.0)
        except BudgetExhausted as error:
            error.add_note(_NOTHING_LEFT)
            raise
        price = ledger.allowance().unplanned if price is None else price
    wanted = make_plan(
        model,
        of_public,
        mu=price or float(getattr(ReportPlan.read(stored), "mu", 1.0)),
        n=privatizer.n,
        largest_weight=privatizer.largest_weight,
        threshold=of_public.threshold if threshold is None else threshold,
        by=groups_of(rows[0], by),
        bins=number,
        effective=1 / privatizer.squared_weights if privatizer.weighted else None,
    )
    plan = wanted if stored is None else _agreed(stored, wanted, name, price, bins=number is not None)
    ask = partial(asker_of, data=data, rows=privatizer.rows)
    asker = ask(AskCells(plan, rows[0], reaches))
    if not privatizer.answered(name, KEY):
        asker.check(model)  # mistakes raise before anything is charged
    if stored is None:
        stored = ledger.fix_plan(name, lambda rest: wanted.stored())
        plan = _agreed(stored, wanted, name, price, bins=number is not None)
    return plan, asker.of(plan) if isinstance(asker, _Cells) else ask(AskCells(plan, rows[0], reaches))


def stored_report(ledger: PrivacyLedger, name: str | None = None) -> Report:
    """Return a report that was released, from its ledger alone.

    Args:
        ledger: the charged ledger.
        name: name of the report; default the only report of the ledger.

    Raises:
        InputError: the ledger has no report of that name, or without a name no report or several. Or the report was
            charged and is not recorded.
    """
    name = _only_report(ledger) if name is None else text("name", name)
    plan = ReportPlan.read(ledger.fact(name, PLAN))
    charge = ledger.find(name, KEY)
    if plan is not None and charge is not None and charge.value is None:
        raise InputError(
            f"the report {name!r} was charged, and its answer is not recorded. Make the same call again: it costs "
            "nothing more."
        )
    if plan is None or charge is None:
        raise InputError(f"the ledger has no report named {name!r}; it has {_reports(ledger) or 'none'}.")
    return Report.of_charge(plan, charge, name, ledger.unit)


def _only_report(ledger: PrivacyLedger) -> str:
    names = _reports(ledger)
    if not names:
        raise InputError("the ledger has no report: release one with dptune.report, or report() of a search.")
    if len(names) > 1:
        raise InputError(f"the ledger has several reports. Give the name of one of them: {names}.")
    return names[0]


def _reports(ledger: PrivacyLedger) -> list[str]:
    charged = sorted({each.scope for each in ledger.charges() if each.key == KEY})
    return [scope for scope in charged if ReportPlan.read(ledger.fact(scope, PLAN)) is not None]


@dataclass(frozen=True, eq=False)
class AskCells(Sent):
    """A model is asked for the code of each row's cells in a report.

    Attributes:
        plan: of the report.
        like: public rows that say what columns hold.
        function: returns its model; its public inputs must not reach the private rows.
    """

    plan: ReportPlan
    like: Any
    function: Callable[[Any], Any]

    def open(self, data: Any, rows: int, place: str) -> Asker:
        examples = with_like(data, self.like)
        return _Cells(self.plan, examples, place, EstimatorLosses(
            self.function, self.plan.loss(), examples, rows, trains_in_public=True
        ))  # fmt: skip


@dataclass(frozen=True)
class _Cells:
    plan: ReportPlan
    examples: Any
    place: str
    function: EstimatorLosses

    def of(self, plan: ReportPlan) -> _Cells:
        """Return the same rows for the plan that is stored."""
        return replace(self, plan=plan, function=self.function.with_loss(plan.loss()))

    def check(self, model: Any) -> None:
        self.function.try_out(model)

    def losses(self, argument: Any) -> Any:
        """Return the codes (rows,), NaN where a row's cells are unknown, or None if the model failed for all."""
        plan = self.plan
        with silence():
            codes: Any = call_guarded(self.function, argument, np.asarray).or_raise()
            if codes is None or plan.by is None:
                return codes
            if plan.by.column is None:
                groups = np.full(len(codes), plan.by.levels.index(self.place))
            else:
                rows = self.examples() if callable(self.examples) else self.examples
                groups = group_codes(rows, len(codes), plan.by.column, plan.by.levels)
            return with_groups(codes, groups, plan.cells_of_a_group, plan.sizes)


def _itself(model: Any, /, **_: Any) -> Any:
    return model


def _agreed(stored: Any, wanted: ReportPlan, name: str, mu: float | None, *, bins: bool) -> ReportPlan:
    """Return the ledger's plan; with ``bins`` it must have as many bins as the wanted one.

    Raises:
        BudgetMismatch: the plan has another model or other settings, or is not a report's.
    """
    plan = ReportPlan.read(stored)
    differs = ["its kind"] if plan is None else same_settings(plan, wanted)
    if plan is not None and mu is not None and abs(mu - plan.mu) > 1e-12 * mu:
        differs = [*differs, "mu"]
    if plan is not None and bins and [each.count for each in plan.bins] != [each.count for each in wanted.bins]:
        differs = [*differs, "bins"]
    if plan is None or differs:
        free = "Of the released report, report.at(threshold) reads any threshold at no cost. " * (
            differs == ["threshold"]
        )
        raise BudgetMismatch(
            f"the name {name!r} belongs to something else in this ledger: it differs in {', '.join(differs)}. {free}"
            "Give this report another name= (it is then a new report, and is charged). Nothing was charged."
        )
    return plan
