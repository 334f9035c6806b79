"""The choice at the end of a run, among the points that it has evaluated.

A surrogate smooths, and knows clipped losses only: the point where it is smallest need not be the best one by the
user's mean, nor better than what the user had. The exponential mechanism among the points that the surrogate finds
best, and the default configuration, looks at the mean itself. It costs one release, whose price does not grow with
their number, and no trial.

Several processes: the one whose question ends the run chooses among its own points. A run that ends without a choice,
because its losses were lost or its budget was spent by others, keeps its algorithm's answer. A run that starts from
others has no losses of theirs: it chooses among its own trials, and compares with what they chose.

Guarantee: ``plan.choice_mu``-GDP under replacing one person (:class:`dptune.privacy.mechanism.NoisyMin`). Which points
are candidates, and how likely each is beforehand, depends on released values and on which points this process has
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from dptune.ledger.ledger import Charge, PrivacyLedger
from dptune.parameters import as_choice
from dptune.privacy.mechanism import NoisyMin, odds_for
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.algorithms.method import RunPlan
from dptune.search.replay import CHOICE, as_stored
from dptune.space import Value

Parameters = Mapping[str, Value]


def question(
    plan: RunPlan, held: Mapping[str, Parameters], mean: Callable[[Parameters], float], default: str | None
) -> dict[str, Any] | None:
    """Return the candidates among the held points, ranked by ``mean``, and their odds; None if they are fewer than two.

    ``default`` names the held point of the user's default configuration.
    """
    others = sorted((point for point in held if point != default), key=lambda point: mean(held[point]))
    among = plan.choice_among
    candidates = others[: among or None] + ([] if default is None else [default])
    if len(candidates) < 2:
        return None
    keeps = among and default is not None
    prior = odds_for(len(candidates) - 1, len(candidates)) if keeps else [1.0] * len(candidates)
    return {"points": candidates, "parameters": [as_stored(held[point]) for point in candidates], "prior": prior}


def choose(privatizer: LossPrivatizer, scope: str, plan: RunPlan, asked: Mapping[str, Any]) -> None:
    """Pay for the choice among the candidates of :func:`question`; raise KeyConflict if another process has chosen."""
    query = privatizer.means_query(asked["points"], plan.choice_mu)
    mechanism = partial(NoisyMin, prior=asked["prior"])
    privatizer.release(query, scope=scope, key=CHOICE, note=asked, mechanism=mechanism)


def candidates_of(choice: Charge) -> dict[str, dict[str, Any]]:
    """Return the parameters of a paid choice's candidates, by the names of their points."""
    named = zip(choice.note["points"], choice.note["parameters"], strict=True)
    return {point: {k: as_choice(v) for k, v in parameters.items()} for point, parameters in named}


def chosen(ledger: PrivacyLedger, scopes: Iterable[str]) -> list[dict[str, Any]]:
    """Return the parameters that were chosen in these runs, whoever chose."""
    made = (ledger.find(scope, CHOICE) for scope in scopes)
    charges = [charge for charge in made if charge is not None]
    answered = [(charge, charge.value) for charge in charges if charge.value is not None]
    return [list(candidates_of(charge).values())[int(value[0])] for charge, value in answered]
