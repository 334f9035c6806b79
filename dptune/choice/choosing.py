"""One of many trained models, chosen by its loss on private people, at a price that does not grow with their number.

Example::

    models = [SVC(C=C).fit(X_train, y_train) for C in numpy.logspace(-3, 3, 200)]   # public training data
    chosen = dptune.select(models, ledger, data=(X_val, y_val), loss="zero_one_loss", mu=0.5)
    best = models[chosen.index]

Cross-validated losses of public rows, ``public_losses=``, make this far better: see :mod:`dptune.choice.public_choice`.

Guarantee: what is returned is a function of releases that together cost ``mu`` in GDP, under replacing all records of
one unit, for a trusted curator (this process): the index by the exponential mechanism, the estimate by a Gaussian.
With ``public_losses=`` the guarantee is that of :class:`dptune.PublicChoice`.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, boolean, column_names, kind, positive, readable, share, text
from dptune.choice.payer import Payer, check_choice, privatizer_of
from dptune.choice.places import Asker, AskLoss, asker_of, refuse_reaching
from dptune.choice.public import weight_of
from dptune.choice.public_choice import PublicChoice
from dptune.choice.result import Selection
from dptune.errors import BudgetMismatch, InputError
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import Budget
from dptune.ledger.ledger import PLAN
from dptune.losses.named import NamedLoss, as_loss
from dptune.losses.user_function import Data
from dptune.privacy.mechanism import NoisyMin, odds_for
from dptune.privacy.places import Places
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.results import Estimate


def select(
    candidates: Iterable[Any] | Callable[[int], Any],
    ledger: Payer,
    *,
    data: Data | Callable[[], Data] | Places | None = None,
    loss: str | NamedLoss | None = None,
    public_losses: npt.ArrayLike | None = None,
    default_place: int | None = None,
    groups: npt.ArrayLike | None = None,
    n: int | None = None,
    clip: tuple[float, float] | None = None,
    budget: Budget | None = None,
    name: str = "choice",
    mu: float | None = None,
    estimate_share: float | None = None,
    public_weight: float = 1.0,
    finalists: int | None = None,
    report_share: float | None = None,
    even_if_hopeless: bool = False,
) -> Selection:
    """Choose one of m candidates by its mean loss on private people, once.

    The choice is kept in the ledger under ``name``: asked again, also in another process, it is returned and costs
    nothing. Another loss, and models of another class or with other parameters, are refused under an old name. Whatever
    else differs, such as the training rows, needs another name. Losses are held in memory until the choice is made.

    Args:
        candidates: per-person losses, an array (m, rows) or an iterable of m vectors (rows,), None for a candidate
            that could not be evaluated. Or with ``loss`` and ``data`` m fitted estimators, trained on public data.
            With ``public_losses`` also a function of a candidate's place, which trains it: only finalists are trained.
        ledger: a ``PrivacyLedger`` to charge, its path or URL. Or a ``LossPrivatizer``, which has its own people and
            clip.
        public_losses: (m, N) losses of N public rows by cross-validation, in the same loss. Public rows then rank the
            candidates and vote, and the estimate is one of the improvement over ``default_place``.
        mu: GDP price of choice and estimate together, whatever m is; default all that the ledger has not planned
            otherwise. That buys a choice more where a new ledger's budget is in (epsilon, delta).
        name: of the choice, in the ledger; a second choice needs another name.
        loss: the per-example loss of the estimators: a name, or a ``NamedLoss`` of your own. It must be a mean over
            people: AUC, F1 or R2 are refused.
        data: (X, y) of the private examples, or a function that loads them; or :class:`dptune.Places`.
        groups: whose each private row is (rows,); default one person for each row.
        n: number of private rows, where neither ``data`` nor an array of losses says it.
        clip: (low, high) of a loss, where neither ``public_losses`` nor the loss has a range.
        budget: of a ledger that does not exist yet.
        default_place: place, from 0, of the candidate that you would take without a choice. Beforehand it is ten times
            as likely as all others together, so that noise seldom leaves it for something worse; it costs no budget.
            Without it noise did so in 23% of choices where losses have tails (docs/research/measurements.md).
        estimate_share: share of mu^2 with which the mean loss of the chosen candidate is released, too; default 0.
            With ``public_losses``: of the improvement; default what public rows say is needed to show it.
        public_weight, finalists, report_share, even_if_hopeless: see :class:`dptune.PublicChoice`; they need
            ``public_losses``.

    Raises:
        InputError: a setting, or the shape of the losses, is not usable, or the candidate at ``default`` could not be
            evaluated; nothing was spent.
        UnsupportedMetric: the loss is not a mean over people.
        BudgetExhausted: the ledger has not ``mu`` left; before the losses are read.
        BudgetMismatch: the name belongs to a choice with other settings, or to a search.
    """
    _refuse_named(candidates)
    if loss is not None and data is None and getattr(ledger, "places", None) is None:
        raise InputError(
            f"loss={as_loss(loss).name!r} is asked of models about data=(X, y), which is missing. With losses of your "
            "own omit loss=, and give clip= if they have a range. Nothing was charged."
        )
    refuse_reaching({}, data)  # another form would be read as losses
    told = data if loss is not None or data is not None else candidates
    privatizer = privatizer_of(ledger, told, groups=groups, n=n, clip=clip, budget=budget)
    if public_losses is not None:
        choice = PublicChoice(
            public_losses, privatizer, name=name, default_place=default_place, loss=loss, mu=mu,
            public_weight=public_weight, estimate_share=estimate_share, finalists=finalists, report_share=report_share,
            even_if_hopeless=even_if_hopeless,
        )  # fmt: skip
        return choice.choose_each(_losses_of_finalists(candidates, choice, privatizer, loss, data))
    given = {
        "report_share=": report_share is not None,
        "finalists=": finalists is not None,
        "public_weight=": weight_of(public_weight) != 1,
        "even_if_hopeless=": boolean("even_if_hopeless", even_if_hopeless),
    }
    if any(given.values()):
        names = " and ".join(name for name, is_given in given.items() if is_given)
        raise InputError(f"without public_losses= omit {names}: mu= says what the choice costs. Nothing was charged.")
    if callable(candidates):
        raise InputError("candidates may be a function only with public_losses=, which says how many there are.")
    mu = None if mu is None else positive("mu", mu)
    default = None if default_place is None else at_least("default_place", default_place, 0)
    kept = share("estimate_share", 0.0 if estimate_share is None else estimate_share)
    privatizer.use_clip(None if loss is None else as_loss(loss).own_range)
    _check(privatizer, name, mu, kept)
    if isinstance(candidates, Sized):
        _refuse_other_places(default, readable("the candidates", len, candidates))
    asker = None if loss is None and data is None else asker_of(AskLoss(loss), data, privatizer.rows)
    own_losses = _losses(candidates, asker)
    asked = None if loss is None else as_loss(loss).name
    points: list[str] = []
    evaluated = 0
    try:
        for place, (facts, losses) in enumerate(own_losses):
            if losses is None and place == default:
                raise InputError(
                    f"candidate {place}, the default_place=, could not be evaluated, so it cannot be kept."
                )
            points.append(json.dumps([name, place, asked, facts]))
            evaluated += losses is not None
            privatizer.submit(points[-1], losses)
        if evaluated < 2:
            raise InputError(
                f"{evaluated} of {len(points)} candidates could be evaluated; a choice needs at least two. To describe "
                "one model use dptune.report. Nothing was charged."
            )
        return _choose(points, privatizer, name, mu, default, kept)
    finally:
        for point in points:
            privatizer.forget(point)


def _refuse_named(candidates: object) -> None:
    """Refuse candidates that have names, because a choice is a place."""
    remedy = ""
    if isinstance(candidates, Mapping):
        remedy = "Give list(candidates.values()): the answer is a place in it."
    elif column_names(candidates) is not None:
        remedy = "Give an array with a row for each candidate: candidates.to_numpy(), or its .T if these are columns."
    if remedy:
        raise InputError(f"candidates must have places; got {kind(candidates)}. {remedy} Nothing was charged.")


def _check(privatizer: LossPrivatizer, name: object, mu: float | None, kept: float) -> None:
    """Refuse a choice that could not be charged or stored, before losses are computed; ``kept`` is for the estimate."""
    _ = privatizer.interval  # refuses an unknown clip before a model is called
    name = text("name", name)
    if privatizer.ledger.fact(name, PLAN) is None:
        check_choice(privatizer.ledger, name, mu, choice_share=1 - kept)


def _refuse_other_places(default: int | None, candidates: int) -> None:
    if default is not None and default >= candidates:
        raise InputError(
            f"default_place= must be the place of one of the {candidates} candidates, from 0; got {default}."
        )


def _choose(
    points: Sequence[str], privatizer: LossPrivatizer, name: str, mu: float | None, default: int | None, kept: float
) -> Selection:
    """Choose one of the points whose losses the privatizer holds. Other names mean other candidates."""
    _refuse_other_places(default, len(points))
    digest = hashlib.sha256(json.dumps(points).encode()).hexdigest()[:16]
    asked = {"candidates": len(points), "estimate_share": kept, "points": digest, "default": default}

    def plan(rest: Allowance) -> dict[str, object]:
        """Return a new plan; the choice has its own limit if the budget has one."""
        made = {"mu": rest.whole(1 - kept) if mu is None else mu, **asked}
        return {**made, "shares": {"choice": 1 - kept}} if rest.divides else made

    if privatizer.ledger.fact(name, PLAN) is None:
        privatizer.ready(points)
    stored: Any = privatizer.ledger.fix_plan(name, plan)
    same = isinstance(stored, dict) and all(stored.get(key) == value for key, value in asked.items())
    if not same or mu not in (None, stored["mu"]):
        raise BudgetMismatch(
            f"the name {name!r} belongs to a choice with other settings or candidates, or to a search; "
            "what a name means is fixed when it begins. Give another choice another name."
        )
    price = float(stored["mu"])
    query = privatizer.means_query(points, price * math.sqrt(1 - kept))
    prior = [] if default is None else odds_for(default, len(points))
    released = privatizer.release(query, scope=name, key="index", mechanism=partial(NoisyMin, prior=prior))
    index = int(released.scalar)
    estimate = _estimate(privatizer, points[index], price * math.sqrt(kept), name) if kept else None
    private = all(charge.private for charge in privatizer.ledger.charges(name))
    return Selection(index, len(points), estimate, price, "exponential selection", private, default=default)


def _losses_of_finalists(
    candidates: Iterable[Any] | Callable[[int], Any],
    choice: PublicChoice,
    privatizer: LossPrivatizer,
    loss: str | NamedLoss | None,
    data: Data | Callable[[], Data] | Places | None,
) -> Iterator[tuple[int, Losses | None]]:
    """Yield the private losses of finalists, one after the other; drop a candidate whose public training fails."""
    own, wanted = loss is None and data is None, choice.to_train
    if callable(candidates):
        asker: Asker | None = asker_of(AskLoss(loss, candidates), data, privatizer.rows, trains=True)
        each: Iterator[tuple[int, Any]] = ((j, j) for j in wanted)
    else:
        asker = None if own else asker_of(AskLoss(loss), data, privatizer.rows)
        each = _counted((one for _, one in _own_losses(candidates)) if own else candidates, choice.public.m)
    for j, one in each:
        if j not in wanted:
            continue
        try:
            yield j, one if asker is None else asker.losses(one)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - what raises here is the public half of a user's function
            warnings.warn(f"candidate {j} drops out: {type(error).__name__}: {error}", stacklevel=4)
            yield j, None


def _counted(candidates: Iterable[Any], m: int) -> Iterator[tuple[int, Any]]:
    """Yield places and candidates as they come; refuse another number than m of them, before a charge."""
    count = 0
    for count, one in enumerate(candidates, 1):
        yield count - 1, one
    if count != m:
        raise InputError(
            f"public_losses= has the losses of {m} candidates, and {count} were given. Nothing was charged."
        )


def _losses(candidates: Iterable[Any], asker: Asker | None) -> Iterator[tuple[object, Losses | None]]:
    if isinstance(candidates, np.ndarray) and candidates.ndim != 2 and asker is None:
        raise InputError(f"losses must be (candidates, examples); got shape {candidates.shape}.")
    if not isinstance(candidates, Iterable):
        raise InputError(
            f"candidates must be an array or an iterable; got {type(candidates).__name__}. Give a list of models or "
            "losses. To describe one model use dptune.report. Nothing was charged."
        )
    if asker is None:
        return _own_losses(candidates)
    return ((_facts(candidate), asker.losses(candidate)) for candidate in candidates)


def _own_losses(candidates: Iterable[Any]) -> Iterator[tuple[object, Losses | None]]:
    """Return the given losses, one candidate at a time: an iterable may compute them from private rows."""
    each, end = readable("the losses", iter, candidates), object()
    while (losses := readable("the losses of a candidate", next, each, end)) is not end:
        yield None, losses


def _facts(model: Any) -> list[object]:
    """Return a model's class and its plain parameters, by which a ledger recognises the choice."""
    parameters = model.get_params() if hasattr(model, "get_params") and not isinstance(model, type) else {}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
    kinds = bool | int | float | str | None
    return [type(model).__name__, {name: plain[name] for name in sorted(plain) if isinstance(plain[name], kinds)}]


def _estimate(privatizer: LossPrivatizer, point: str, mu: float, scope: str) -> Estimate:
    released = privatizer.release(privatizer.mean_query(point, mu), scope=scope, key="estimate")
    private = released.charge.private
    return Estimate.of_loss(released.scalar, released.sigma, privatizer.interval, private=private)
