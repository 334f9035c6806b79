"""One of many trained models, chosen by its loss on private people, at a price that does not grow with their number.

Example::

    models = [SVC(C=C).fit(X_train, y_train) for C in numpy.logspace(-3, 3, 200)]   # public training data
    chosen = dptune.select(models, privatizer, mu=0.5, name="svc", loss="zero_one_loss", data=(X_val, y_val))
    best = models[chosen.index]

Cross-validated losses of public rows, ``public=``, make this far better: see :mod:`dptune.choice.public_choice`.

Guarantee: what is returned is a function of releases that together cost ``mu`` in GDP, under replacing all records of
one unit, for a trusted curator (this process): the index by the exponential mechanism, the estimate by a Gaussian.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, positive, share
from dptune.choice.exponential import exponential
from dptune.choice.public_choice import PublicChoice
from dptune.choice.result import Selection
from dptune.errors import BudgetMismatch, InputError
from dptune.ledger.filter import Allowance
from dptune.ledger.ledger import PLAN
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data, call_guarded, losses_function
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.privacy.seal.private import PerExampleLosses
from dptune.search.agreement import check_start
from dptune.search.answer import Estimate


def select(
    candidates: Iterable[Any] | Callable[[int], Any],
    privatizer: LossPrivatizer,
    *,
    name: str,
    public: npt.ArrayLike | None = None,
    mu: float | None = None,
    loss: str | NamedLoss | None = None,
    data: Data | Callable[[], Data] | None = None,
    default: int | None = None,
    estimate_share: float | None = None,
    public_weight: float = 1.0,
    finalists: int | None = None,
    report_share: float | None = None,
) -> Selection:
    """Choose one of m candidates by its mean loss on private people, once.

    The choice is kept in the ledger under ``name``: asked again, also in another process, it is returned and costs
    nothing. Other candidates need another name. Losses are held in memory until the choice is made.

    Args:
        candidates: per-person losses, an array (m, rows) or an iterable of m vectors (rows,), None for a candidate
            that could not be evaluated. Or with ``loss`` and ``data`` m fitted estimators, trained on public data.
            With
            ``public`` also a function of a candidate's place, which trains it: only finalists are trained.
        privatizer: clips, pays, and adds noise.
        public: (m, N) losses of N public rows by cross-validation, in the same loss. Public rows then rank the
            candidates and vote, and the estimate is one of the improvement over ``default``.
        mu: GDP price of choice and estimate together, whatever m is; default all that the ledger has not planned
            otherwise. That buys a choice more where a new ledger's budget is in (epsilon, delta).
        name: of the choice, in the ledger.
        loss: the per-example loss of the estimators: a name, or a ``NamedLoss`` of your own. It must be a mean over
            people: AUC, F1 or R2 are refused.
        data: (X, y) of the private examples, or a function that loads them.
        default: place, from 0, of the candidate that you would take without a choice. Beforehand it is ten times as
            likely as all others together, so that noise seldom leaves it for something worse; it costs no budget.
            Without it noise did so in 23% of choices where losses have tails (docs/research/measurements.md).
        estimate_share: share of mu^2 with which the mean loss of the chosen candidate is released, too; default 0.
            With ``public``: of the improvement; default what public rows say is needed to show it.
        public_weight, finalists, report_share: see :class:`dptune.choice.PublicChoice`; they need ``public``.

    Raises:
        InputError: a setting, or the shape of the losses, is not usable, or the candidate at ``default`` could not be
            evaluated; nothing was spent.
        UnsupportedMetric: the loss is not a mean over people.
        BudgetExhausted: the ledger has not ``mu`` left; before the losses are read.
        BudgetMismatch: the name belongs to a choice with other settings, or to a search.
    """
    if public is not None:
        choice = PublicChoice(
            public, privatizer, name=name, default=default, loss=loss, mu=mu, public_weight=public_weight,
            estimate_share=estimate_share, finalists=finalists, report_share=report_share,
        )  # fmt: skip
        return choice.choose(_losses_of_finalists(candidates, choice, privatizer, loss, data))
    if report_share is not None:
        raise InputError("report_share= needs public=; else give mu=, which leaves the rest. Nothing was charged.")
    if callable(candidates):
        raise InputError("candidates may be a function only with public=, which says how many there are.")
    price, default, share_of = _check(privatizer, name, mu, default, estimate_share or 0.0)
    function = None if loss is None and data is None else losses_function(_itself, loss, data, rows=privatizer.rows)
    given = _losses(candidates, function, privatizer.rows)
    if isinstance(candidates, Sized):
        _refuse_other_places(default, len(candidates))
    named = ((json.dumps([name, place]), losses) for place, losses in enumerate(given))
    return select_named(named, privatizer, mu=price, name=name, default=default, estimate_share=share_of)


def select_named(
    candidates: Iterable[tuple[str, Losses | None]],
    privatizer: LossPrivatizer,
    *,
    mu: float | None = None,
    name: str,
    default: int | None = None,
    estimate_share: float = 0.0,
) -> Selection:
    """Choose among losses that have names of their own, other names for other candidates; else as :func:`select`."""
    price, default, share_of = _check(privatizer, name, mu, default, estimate_share)
    points: list[str] = []
    evaluated = 0
    try:
        for point, losses in candidates:
            if losses is None and len(points) == default:
                raise InputError(f"candidate {default}, the default=, could not be evaluated, so it cannot be kept.")
            points.append(point)
            evaluated += losses is not None
            observe(privatizer, point, losses)
        if evaluated < 2:
            raise InputError(
                f"{evaluated} of {len(points)} candidates could be evaluated; a choice needs at least two. To describe "
                "one model use dptune.report. Nothing was charged."
            )
        return select_points(points, privatizer, mu=price, name=name, default=default, estimate_share=share_of)
    finally:
        for point in points:
            privatizer.forget(point)


def select_points(
    points: Sequence[str],
    privatizer: LossPrivatizer,
    *,
    mu: float | None = None,
    name: str,
    default: int | None = None,
    estimate_share: float = 0.0,
) -> Selection:
    """Choose one of the points whose losses the privatizer holds; everything else is as in :func:`select`.

    Points of other names are other candidates.
    """
    price, default, share_of = _check(privatizer, name, mu, default, estimate_share)
    if len(points) < 2:
        raise InputError(
            f"a choice needs at least two candidates; got {len(points)}. To describe one model use dptune.report."
        )
    _refuse_other_places(default, len(points))
    plan: Any = privatizer.ledger.fix_plan(name, lambda rest: _plan(rest, price, points, default, share_of))
    price = _agreed(plan, name, price, points, default, share_of)
    index = exponential(points, privatizer, price * math.sqrt(1 - share_of), name, default=default)
    estimate = _estimate(privatizer, points[index], price * math.sqrt(share_of), name) if share_of else None
    private = all(charge.private for charge in privatizer.ledger.charges(name))
    return Selection(index, len(points), estimate, price, "exponential selection", private)


def choice_share(
    privatizer: LossPrivatizer,
    *,
    mu: float | None,
    estimate_share: float = 0.0,
) -> float:
    """Return the share of mu^2 that :func:`select` will plan for a choice with a limit of its own; 0 if there is none.

    An automatic clip, which comes before, has to know it: :meth:`dptune.LossPrivatizer.choose_clip`.
    """
    price, share_of = None if mu is None else positive("mu", mu), share("estimate_share", estimate_share)
    shares: Any = _plan(privatizer.ledger.allowance(), price, (), None, share_of).get("shares", {})
    return float(shares.get("choice", 0.0))


def _plan(
    rest: Allowance, mu: float | None, points: Sequence[str], default: int | None, share_of: float
) -> dict[str, object]:
    """What is planned, for good; with a limit of the choice's own where the budget has one."""
    mu = rest.whole(1 - share_of) if mu is None else mu
    plan = {"mu": mu, "candidates": len(points), "estimate_share": share_of, "points": _digest(points)}
    if default is not None:
        plan["default"] = default
    return {**plan, "shares": {"choice": 1 - share_of}} if rest.divides else plan


def _agreed(
    plan: Any, name: str, mu: float | None, points: Sequence[str], default: int | None, share_of: float
) -> float:
    """Return the price of a stored plan.

    Raises:
        BudgetMismatch: it is of another choice, or of a search.
    """
    asked = {"mu": mu, "candidates": len(points), "estimate_share": share_of, "points": _digest(points)}
    found = plan if isinstance(plan, dict) else {}
    same = all(key in found and value in (None, found[key]) for key, value in asked.items())
    if not same or found.get("default") != default:
        raise BudgetMismatch(
            f"the name {name!r} belongs to a choice with other settings or candidates, or to a search; "
            "what a name means is fixed when it begins. Give another choice another name."
        )
    return float(found["mu"])


def _digest(points: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(points).encode()).hexdigest()[:16]


def observe(privatizer: LossPrivatizer, point: str, losses: Losses | None) -> None:
    """Hand losses over; None is an evaluation that failed."""
    if losses is None:
        privatizer.observe_failure(point)
    else:
        privatizer.observe(point, losses)


def _check(
    privatizer: object, name: object, mu: object, default: object, estimate_share: object
) -> tuple[float | None, int | None, float]:
    """Refuse what could not be paid or kept, before losses are computed; return the others in plain form."""
    if not isinstance(privatizer, LossPrivatizer):
        raise InputError(f"a LossPrivatizer must come after the candidates; got {type(privatizer).__name__}.")
    _ = privatizer.interval  # refuses a clip that nobody has chosen yet, before a model is asked
    if not isinstance(name, str) or not name:
        raise InputError(f"name= must be text, the choice's place in the ledger; got {name!r}.")
    place = None if default is None else at_least("default", default, 0)
    price, share_of = None if mu is None else positive("mu", mu), share("estimate_share", estimate_share)
    if privatizer.ledger.fact(name, PLAN) is None:
        check_start(privatizer.ledger, name, price, choice_share=1 - share_of)
    return price, place, share_of


def _refuse_other_places(default: int | None, candidates: int) -> None:
    if default is not None and default >= candidates:
        raise InputError(f"default= must be the place of one of the {candidates} candidates, from 0; got {default}.")


def _losses_of_finalists(
    candidates: Iterable[Any] | Callable[[int], Any],
    choice: PublicChoice,
    privatizer: LossPrivatizer,
    loss: str | NamedLoss | None,
    data: Data | Callable[[], Data] | None,
) -> dict[int, Losses | None]:
    """Train and ask what the choice still needs; a candidate whose training fails, in public, drops out."""
    if not callable(candidates):
        given = list(candidates)
        if len(given) != choice.public.m:
            raise InputError(
                f"public= has the losses of {choice.public.m} candidates, and {len(given)} candidates were given. "
                "Nothing was charged."
            )
        if loss is None and data is None:
            return {j: given[j] for j in choice.to_train}
        candidates = given.__getitem__
    function = losses_function(candidates, loss, data, rows=privatizer.rows)
    found: dict[int, Losses | None] = {}
    for j in choice.to_train:
        try:
            found[j] = private_losses(function, j, privatizer.rows)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - what raises here is the public half of a user's function
            warnings.warn(f"candidate {j} drops out: {type(error).__name__}: {error}", stacklevel=3)
            found[j] = None
    return found


def _itself(model: Any) -> Any:
    return model


def _losses(candidates: Iterable[Any], function: Callable[[Any], Any] | None, rows: int) -> Iterator[Losses | None]:
    if isinstance(candidates, np.ndarray) and candidates.ndim != 2 and function is None:
        raise InputError(f"losses must be (candidates, examples); got shape {candidates.shape}.")
    if not isinstance(candidates, Iterable):
        raise InputError(f"candidates must be an array or an iterable; got {type(candidates).__name__}.")
    if function is None:
        return iter(candidates)
    return (private_losses(function, candidate, rows) for candidate in candidates)


def private_losses(function: Callable[[Any], Any], argument: Any, rows: int) -> Losses:
    """Return the private people's losses (rows,); all NaN, the largest loss, if asking for them failed.

    That asking failed is private, as a person's record may have caused it. Such a candidate stays a candidate.
    """
    found = call_guarded(function, argument, PerExampleLosses).or_raise()
    return np.full(rows, np.nan) if found is None else found


def _estimate(privatizer: LossPrivatizer, point: str, mu: float, scope: str) -> Estimate:
    released = privatizer.release(privatizer.mean_query(point, mu), scope=scope, key="estimate")
    private = released.charge.private
    return Estimate.of_loss(released.scalar, released.sigma, privatizer.interval, private=private)
