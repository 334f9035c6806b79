"""Repeat and select: train privately a random number of times, and release only the best.

Example::

    def once():                                       # one repeat: draws its own hyperparameters
        rate = 10 ** random.SystemRandom().uniform(-3, 0)
        model = train_privately(rate)                 # as the plan of the training people's ledger says
        return {"rate": rate}, model, losses_of(model)   # one loss for each scoring person

    best = repeat_and_select(once, [train_ledger, val_ledger], clip=(0.0, 1.0))

Guarantee: each ledger's people are protected by its ``SelectionPlan`` (Papernot & Steinke, arXiv 2110.03620), under
removing one person with n public. It holds against everybody who sees only the returned :class:`Selected`. The repeats'
number, models, losses and failures must stay secret, and so must the duration of the call, which reveals the number.
Trust model: a trusted curator. OpenDP draws the noise of the scores. The bound needs repeats from one law: ``once``
keeps no state and draws its hyperparameters from secret, unseeded randomness.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import SystemRandom
from typing import Any

import numpy as np

from dptune._checks import boolean, function, json_data, kind, positive
from dptune.errors import InputError, PlanComplete
from dptune.ledger.entries import Charge
from dptune.privacy.noise import NoiseSource, is_private, noise_scale, noise_source
from dptune.privacy.query import Interval
from dptune.privacy.seal.private import loss_vector
from dptune.privacy.seal.reachable import undefined
from dptune.privacy.seal.silence import silence
from dptune.search.gp.points import sobol_candidates
from dptune.space import Space, Value
from dptune.training.ledger import TrainingLedger
from dptune.training.plans import SelectionPlan

Once = Callable[[], tuple[Mapping[str, Any], Any, Any]]
_SCOPE, _DRAWN, _SELECTED = "trainings", "drawn", "selected"


@dataclass(frozen=True)
class Selected:
    """The best repeat, the only one that is shown.

    Attributes:
        parameters: its hyperparameters; None if there was no repeat (Poisson) or all failed.
        score: the noisy mean clipped loss by which it was chosen; NaN if there is none.
        model: its model; None if the selection was made before, as a ledger does not keep models.
        private: False if the noise was seeded.
    """

    parameters: Mapping[str, Any] | None
    score: float
    model: Any
    private: bool


def quasi_random(space: Space, count: int, *, seed: int = 0) -> list[dict[str, Value]]:
    """Return ``count`` configurations that fill the space evenly: a scrambled Sobol sequence, best of length 2^m.

    The list is public. A repeat draws one of them at random, whatever others drew. The bound of repeat and select
    needs repeats of one law.
    A sequence that is tried in order has no such law: its n-th point tells of n repeats.

    Raises:
        InputError: count is not an integer of at least 1.
    """
    return [space.decode(u) for u in sobol_candidates(space.d, count, seed=seed)]


def one_of(candidates: Sequence[Mapping[str, Any]] | None, odds: Sequence[float] | None = None) -> dict[str, Any]:
    """Return one of the candidates, drawn from the operating system's randomness; {} if there is no list.

    Args:
        candidates: a public list.
        odds: public numbers above 0 in any unit, one per candidate, such as those from a study of public proxy rows;
            equal by default. The bound needs identically distributed repeats, not uniform ones.
    """
    if candidates is None:
        if odds is not None:
            raise InputError("odds= needs candidates=, the list that they belong to.")
        return {}
    if not (isinstance(candidates, Sequence) and all(isinstance(each, Mapping) for each in candidates)):
        raise InputError(f"candidates must be a list of dicts, one for each configuration; got {kind(candidates)}.")
    if not candidates:
        raise InputError("candidates is empty: give configurations, or leave it out to draw from the whole space.")
    weights = [1.0] * len(candidates) if odds is None else [positive("odds", each) for each in odds]
    if len(weights) != len(candidates):
        raise InputError(f"odds must have one number for each of {len(candidates)} candidates; got {len(weights)}.")
    largest = max(weights)  # their sum may be too large for a float
    return dict(SystemRandom().choices(candidates, [each / largest for each in weights])[0])


def repeat_and_select(
    once: Once,
    ledgers: Sequence[TrainingLedger],
    *,
    clip: tuple[float, float],
    secure: bool = True,
    noise: NoiseSource | None = None,
) -> Selected:
    """Make a secret number of repeats and return the one with the lowest private score.

    The ledgers are charged first, for good, and a selection is drawn once: a later call returns what was shown, and
    pays nothing. A process that dies in between has spent the selection. Repeating it under the same charge would not
    be sound. If a crash depends on the data, the result is drawn on the condition that nothing crashed. The probability
    of that differs between neighbours.

    A repeat that raises, or whose losses are not a vector of n, is never chosen. A report about it would reveal how
    many repeats there were, so there is none. What the process prints, warns and logs meanwhile is
    swallowed, in all threads, in C and in child processes (``dptune.privacy.seal.silence`` has the list). The global
    generators get new seeds afterwards. Files that ``once`` writes and connections that it opens, such as an
    experiment tracker's, are not swallowed. Try ``once`` on public rows first.

    The end of the call reveals something about the number of repeats. Let it run where nobody watches, as a job of the
    night, and read its result at an hour that was fixed before. The ledgers date it as it began.

    Args:
        once: () -> (hyperparameters as JSON data, model, losses (n,) of the scoring people). Compute the losses from a
            copy of the model, or with ``estimator_losses``, which does: a model may remember the rows it answers.
        ledgers: one for each population; all with the same ``repeats``, exactly one with a ``score_mu``.
        clip: public range of one loss.
        secure: whether the trainings' noise is cryptographically secure; see ``TrainingLedger.begin``.
        noise: NOT PRIVATE. Other noise of the scores, such as ``SeededNoise(0)``, for tests.

    Raises:
        InputError: ``once`` is not a function or names what is not defined, or the ledgers do not fit; nothing is
            charged.
        KeyConflict: one of the ledgers was charged for another clip, or together with other ledgers.
        PlanComplete: the selection was begun before, and has not shown anything.
    """
    if names := undefined(function("once", once)):  # a typo would fail every repeat
        raise InputError(
            f"once uses {', '.join(names)}, which is not defined: every repeat would fail. Nothing was charged. "
            "Define it, and try once() on public rows."
        )
    secure = boolean("secure", secure)
    plan, n = _scoring(ledgers)
    interval = Interval.of(clip)
    noise = noise_source(noise)
    ledgers = sorted(ledgers, key=lambda ledger: ledger.identity)  # the first stores the shown result
    score = _score(interval, n, plan.score_mu or 0.0, noise)
    with silence(trains=True):  # before the charge: a process that cannot be silenced is not charged
        charges = _charged(ledgers, _digest(interval, ledgers), secure=secure, private=is_private(noise))
        home = ledgers[0]
        mine = secrets.token_hex(16)
        if home.fix(_SCOPE, _DRAWN, mine) != mine:
            return _shown_before(ledgers, charges)
        best = _best(once, plan.repeats.draw(), score)
        score_or_none = best.score if math.isfinite(best.score) else None
        home.fix(_SCOPE, _SELECTED, {"parameters": best.parameters, "score": score_or_none})
        return _published(ledgers, charges, best)


def _charged(ledgers: Sequence[TrainingLedger], digest: str, *, secure: bool, private: bool) -> list[Charge]:
    """Charge all ledgers, beginning with those that may refuse because they were charged before."""
    for ledger in sorted(ledgers, key=lambda ledger: ledger.count() == 0):
        ledger.begin_selection(digest, secure=secure, private=private)
    return [ledger.begin_selection(digest, secure=secure, private=private) for ledger in ledgers]


def _shown_before(ledgers: Sequence[TrainingLedger], charges: Sequence[Charge]) -> Selected:
    match ledgers[0].fact(_SCOPE, _SELECTED):
        case {"parameters": parameters, "score": score}:
            return _published(ledgers, charges, _Repeat(parameters, None, math.nan if score is None else score))
    raise PlanComplete(
        "this selection was begun before and has shown nothing: its process still works on it, or has died. Then it is "
        "spent, as drawing it anew would let a crash choose what is shown. Another selection needs new ledgers, "
        "whose price adds to what these people pay."
    )


@dataclass(frozen=True)
class _Repeat:
    parameters: Mapping[str, Any] | None = None
    model: Any = None
    score: float = math.inf


def _best(once: Once, repeats: int, score: Callable[[Any], float]) -> _Repeat:
    best = _Repeat()
    for _ in range(repeats):
        done = _repeat(once, score)
        best = done if done.score < best.score else best
    return best


def _repeat(once: Once, score: Callable[[Any], float]) -> _Repeat:
    try:
        parameters, model, losses = once()
        return _Repeat(json_data("hyperparameters", dict(parameters)), model, score(losses))
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None
    except BaseException:  # noqa: BLE001 - that a repeat failed would tell that it was made
        return _Repeat()


def _score(clip: Interval, n: int, mu: float, noise: NoiseSource) -> Callable[[Any], float]:
    """Return the mechanism that scores one repeat: the mean clipped loss plus Gaussian noise, mu-GDP.

    Removing a person counts the middle of the clip instead of its loss, like every tuning release. A clipped loss is at
    most (high - low) / 2 from the middle, so the mean moves by at most (high - low) / 2n. That holds in floating point
    because the mean is summed exactly and minus ``low``, which is added after the noise. A failure counts as the upper
    clip, which is within the clip.
    """
    sigma = noise_scale(sensitivity=clip.diameter / (2 * n), mu=mu, dimension=1)

    def score(losses: Any) -> float:
        values = loss_vector(losses)
        if len(values) != n:
            raise InputError(f"a repeat must return one loss for each of {n} people.")
        kept = np.clip(np.nan_to_num(values, nan=clip.high, posinf=clip.high, neginf=clip.low), clip.low, clip.high)
        mean = math.fsum(kept - clip.low) / n
        return float(noise.add_gaussian(np.array([mean]), sigma)[0]) + clip.low

    return score


def _published(ledgers: Sequence[TrainingLedger], charges: Sequence[Charge], best: _Repeat) -> Selected:
    score = best.score if math.isfinite(best.score) else math.nan
    for ledger, charge in zip(ledgers, charges, strict=True):
        if charge.value is None:
            ledger.record_selection(charge, [] if math.isnan(score) else [score])
    return Selected(best.parameters, score, best.model, all(charge.private for charge in charges))


def _scoring(ledgers: Sequence[TrainingLedger]) -> tuple[SelectionPlan, int]:
    """Return the plan and n of the scoring people."""
    plans = [each.plan for each in ledgers if isinstance(each, TrainingLedger)]
    selections = [plan for plan in plans if isinstance(plan, SelectionPlan)]
    scoring = [i for i, plan in enumerate(selections) if plan.score_mu is not None]
    if len(selections) < len(ledgers) or len(scoring) != 1 or len({plan.repeats for plan in selections}) != 1:
        raise InputError(
            "ledgers must be TrainingLedgers of one SelectionPlan for each population, all with the same repeats. "
            "Exactly one of them must have score_mu: the people whose losses choose."
        )
    return selections[scoring[0]], ledgers[scoring[0]].n or 0


def _digest(clip: Interval, ledgers: Sequence[TrainingLedger]) -> str:
    question = [clip.low, clip.high, [(ledger.identity, str(ledger.plan)) for ledger in ledgers]]
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()
